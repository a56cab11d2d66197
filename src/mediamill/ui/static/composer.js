// Saying something in the chat for trying out: text, files (chosen, dropped, pasted) and voice notes. What is on its way
// stands below the messages, with its progress, or its error and another try, until it is among them.
import { takeDrops, wordsOfUnread } from "./drop.js";

(() => {
  const form = document.getElementById("composer");
  if (!form) return;
  const chat = document.getElementById("chat");
  const text = document.getElementById("text");
  const files = document.getElementById("files");
  const chosen = document.getElementById("chosen");
  const sending = document.getElementById("sending");
  const fault = document.getElementById("composer-fault");
  const AT_ONCE = 2; // a browser has few connections to one server, and the live events need one too
  const HIGHEST_PIXELS = 160;
  const staged = [];

  const newKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

  function make(tag, className, content) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (content) element.textContent = content;
    return element;
  }

  function sizeOf(bytes) {
    if (bytes < 1e6) return `${Math.max(1, Math.round(bytes / 1e3))} kB`;
    return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
  }

  // One thing on its way

  class Parcel {
    constructor(label, body, send) {
      this.key = newKey();
      this.send = send;
      this.row = make("li", "message mine");
      this.row.dataset.key = this.key;
      this.bubble = make("div", "bubble");
      if (label) this.bubble.append(make("p", "medium", label));
      if (body) {
        const said = make("div", "text", body);
        said.dir = "auto";
        this.bubble.append(said);
      }
      this.note = make("p", "doing", "Sending…");
      this.bubble.append(this.note);
      this.trouble = make("div", "trouble");
      this.row.append(this.bubble, this.trouble);
      sending.append(this.row);
      document.getElementById("nothing")?.remove();
      document.getElementById("scroller").scrollTop = 0;
    }

    async go() {
      this.note.hidden = false;
      this.note.textContent = "Sending…";
      this.trouble.replaceChildren();
      try {
        await this.send(this);
        this.note.textContent = "Sent";
        document.dispatchEvent(new Event("chat:refresh"));
      } catch (error) {
        this.fail(error.message);
      }
    }

    progress(loaded, total) {
      let bar = this.note.querySelector("progress");
      if (!bar) {
        bar = make("progress");
        bar.setAttribute("aria-label", "Upload");
        this.note.replaceChildren("Sending… ", bar);
      }
      bar.max = total;
      bar.value = loaded;
    }

    fail(reason) {
      this.note.hidden = true;
      const told = make("span", "error", reason);
      told.setAttribute("role", "alert");
      const retry = make("button", "", "Try again");
      retry.type = "button";
      retry.addEventListener("click", () => this.go());
      const drop = make("button", "", "Discard");
      drop.type = "button";
      drop.addEventListener("click", () => this.row.remove());
      this.trouble.replaceChildren(told, retry, drop);
    }
  }

  const LOST = "The connection was lost.";

  function reasonOf(status, body) {
    try {
      const problem = JSON.parse(body);
      return problem.fix ? `${problem.detail} (${problem.fix})` : problem.detail;
    } catch {
      return `The server answered ${status}.`;
    }
  }

  // Text: one after the other, so that the order stays

  let lastText = Promise.resolve();

  async function postText(words, key) {
    let answer;
    try {
      answer = await fetch(chat.dataset.address, {
        method: "POST",
        body: new URLSearchParams({ text: words, message_id: key }),
        headers: { Accept: "application/json" },
      });
    } catch {
      throw new Error(LOST);
    }
    if (!answer.ok) throw new Error(reasonOf(answer.status, await answer.text()));
  }

  function sayText(words) {
    const parcel = new Parcel("", words, (self) => postText(words, self.key));
    lastText = lastText.then(() => parcel.go());
  }

  // Files: a few at once

  let under = 0;
  const waiting = [];

  function turn() {
    return new Promise((begin) => {
      waiting.push(begin);
      letIn();
    });
  }

  function letIn() {
    while (under < AT_ONCE && waiting.length) {
      under += 1;
      waiting.shift()();
    }
  }

  function post(file, caption, parcel) {
    return new Promise((resolve, reject) => {
      const query = new URLSearchParams({ caption, filename: file.name, message_id: parcel.key });
      const request = new XMLHttpRequest();
      request.open("POST", `${form.dataset.to}?${query}`);
      request.setRequestHeader("Content-Type", file.type || "application/octet-stream");
      request.setRequestHeader("Accept", "application/json");
      request.upload.addEventListener("progress", (event) => parcel.progress(event.loaded, event.total));
      request.addEventListener("load", () => {
        if (request.status < 300) resolve();
        else reject(new Error(reasonOf(request.status, request.responseText)));
      });
      request.addEventListener("error", () => reject(new Error(LOST)));
      request.send(file);
    });
  }

  function sayFile(file, caption) {
    const parcel = new Parcel(`${file.name} · ${sizeOf(file.size)}`, caption, async (self) => {
      await turn();
      try {
        await post(file, caption, self);
      } finally {
        under -= 1;
        letIn();
      }
    });
    parcel.go();
  }

  // Choosing them

  function showStaged() {
    chosen.replaceChildren(
      ...staged.map((file, index) => {
        const chip = make("li", "chip");
        const name = make("bdi", "cut", file.name);
        const drop = make("button", "", "×");
        drop.type = "button";
        drop.setAttribute("aria-label", `Do not send ${file.name}`);
        drop.addEventListener("click", () => {
          staged.splice(index, 1);
          showStaged();
          text.focus();
        });
        chip.append(name, make("span", "quiet", sizeOf(file.size)), drop);
        return chip;
      }),
    );
    text.placeholder = staged.length ? "Caption" : "Message";
  }

  function stage(list, unread = []) {
    fault.textContent = wordsOfUnread(unread).join();
    for (const file of list) {
      if (file.size) staged.push(file);
      else fault.textContent = `${file.name} is empty, or a folder.`;
    }
    showStaged();
    text.focus();
  }

  document.getElementById("choose").addEventListener("click", () => files.click());
  files.addEventListener("change", () => {
    stage(files.files);
    files.value = "";
  });
  text.addEventListener("paste", (event) => {
    if (!event.clipboardData.files.length) return;
    event.preventDefault();
    stage(event.clipboardData.files);
  });

  takeDrops(chat, chat, (found, unread) => stage(found.map(({ file }) => file), unread));

  // Sending

  function grow() {
    text.style.height = "auto";
    text.style.height = `${Math.min(text.scrollHeight + 2, HIGHEST_PIXELS)}px`;
  }

  form.noValidate = true; // files may go without a word
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const words = text.value.trim();
    if (!words && !staged.length) return;
    fault.textContent = "";
    if (staged.length) staged.splice(0).forEach((file, index) => sayFile(file, index ? "" : words));
    else sayText(words);
    text.value = "";
    showStaged();
    grow();
    text.focus();
  });
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  text.addEventListener("input", grow);

  // Voice notes

  const record = document.getElementById("record");
  const TYPES = ["audio/ogg;codecs=opus", "audio/webm;codecs=opus", "audio/mp4"];
  let recorder = null;

  function showRecording(on) {
    record.setAttribute("aria-pressed", String(on));
    record.setAttribute("aria-label", on ? "Stop and send the voice note" : "Record a voice note");
    text.placeholder = on ? "Recording… press again to send, Escape to throw away" : "Message";
  }

  async function begin() {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    const mimeType = TYPES.find((type) => MediaRecorder.isTypeSupported(type));
    const heard = [];
    recorder = new MediaRecorder(stream, { mimeType });
    recorder.kept = true;
    recorder.addEventListener("dataavailable", (event) => heard.push(event.data));
    recorder.addEventListener("stop", () => {
      stream.getTracks().forEach((track) => track.stop());
      const bare = recorder.mimeType.split(";")[0];
      const kept = recorder.kept;
      recorder = null;
      showRecording(false);
      if (kept) sayFile(new File(heard, `voice note.${bare.split("/")[1]}`, { type: bare }), text.value.trim());
      if (kept) text.value = "";
    });
    recorder.start();
    showRecording(true);
  }

  function end(kept) {
    recorder.kept = kept;
    recorder.stop();
  }

  if (navigator.mediaDevices?.getUserMedia && window.MediaRecorder) {
    record.hidden = false;
    record.addEventListener("click", async () => {
      fault.textContent = "";
      try {
        if (recorder) end(true);
        else await begin();
      } catch (error) {
        fault.textContent = `The microphone cannot be used: ${error.message}`;
      }
    });
    document.addEventListener("keydown", (event) => event.key === "Escape" && recorder && end(false));
  }

  document.documentElement.classList.add("scripts");
  grow();
})();
