// Uploads by tus 1.0: any number of files, two at a time, in chunks. What breaks off is gone on with: by itself after a
// lost connection, with the same file chosen again after a reload or a crash.
import { takeDrops, wordsOfUnread } from "./drop.js";
import { base64, problemOf, remember, remembered, send, sizeOf, spanOf, titleOf } from "./tus.js";

(() => {
  const area = document.getElementById("upload");
  if (!area) return;
  const list = document.getElementById("uploads");
  const chooser = document.getElementById("files");
  const fault = document.getElementById("upload-fault");
  const ENDPOINT = area.dataset.to;
  const CHUNK_BYTES = 16 * 1024 * 1024;
  const AT_ONCE = 2; // a browser has few connections to one server, and the live events need one too
  const LONGEST_PAUSE_SECONDS = 30;
  const SPEED_SECONDS = 8; // the speed that is shown is the mean of so long
  const TRANSPORT = /\.m?2?ts$/i; // a stream of a camera or a tuner, whatever the system takes it for
  const TUS = { "Tus-Resumable": "1.0.0" };
  const uploads = [];

  function make(tag, className, content) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (content) element.textContent = content;
    return element;
  }

  class Refused extends Error {}

  // One file on its way

  class Upload {
    constructor(file) {
      this.file = file;
      this.fingerprint = `${file.name}:${file.size}:${file.lastModified}:${file.type}`;
      this.offset = 0;
      this.state = "waiting";
      this.marks = [];
      this.draw();
    }

    get facts() {
      const value = (name) => this.row.querySelector(`[name=${name}]`).value.trim();
      return { title: value("title") || titleOf(this.file.name), category: value("category"), description: value("description") };
    }

    draw() {
      this.row = make("li", "parcel");
      const template = `<div class="line"><input name="title" maxlength="200" aria-label="Title" dir="auto"><span class="buttons"></span></div>
        <progress max="1" value="0" aria-label="Upload"></progress><p class="quiet how" role="status"></p>
        <details class="more-facts"><summary>Category and description</summary><div class="pair">
          <input name="category" maxlength="100" placeholder="Category" aria-label="Category"><textarea name="description" rows="2" maxlength="10000" placeholder="Description" aria-label="Description"></textarea></div></details>`;
      this.row.innerHTML = template; // no text of others in it
      const earlier = remembered()[this.fingerprint];
      this.sent = earlier?.sent;
      const facts = { title: titleOf(this.file.name), ...earlier?.facts };
      for (const [name, value] of Object.entries(facts)) this.row.querySelector(`[name=${name}]`).value = value;
      this.bar = this.row.querySelector("progress");
      this.bar.setAttribute("aria-label", `Upload of ${this.file.name}`);
      this.how = this.row.querySelector(".how");
      this.buttons = this.row.querySelector(".buttons");
      this.row.addEventListener("change", () => this.saveFacts());
      list.append(this.row);
      this.show("waiting", "Waits its turn");
    }

    show(state, words) {
      this.state = state;
      this.row.dataset.state = state;
      this.how.textContent = words;
      this.how.classList.toggle("error", state === "failed");
      this.bar.value = this.file.size ? this.offset / this.file.size : 0;
      const offered = { waiting: ["Cancel"], sending: ["Pause", "Cancel"], paused: ["Resume", "Cancel"], failed: ["Try again", "Remove"], done: ["Remove"] };
      const wanted = offered[state].join();
      if (this.buttons.dataset.offered === wanted) return;
      this.buttons.dataset.offered = wanted;
      this.buttons.replaceChildren(...(state === "done" ? [this.link()] : []), ...offered[state].map((word) => this.button(word)));
    }

    button(word) {
      const button = make("button", "", word);
      button.type = "button";
      button.setAttribute("aria-label", `${word}: ${this.file.name}`);
      const acts = { Pause: () => this.pause(), Resume: () => this.resume(), "Try again": () => this.resume(), Cancel: () => this.cancel(), Remove: () => this.remove() };
      button.addEventListener("click", acts[word]);
      return button;
    }

    link() {
      const link = make("a", "", "Its page");
      link.href = `/videos/${this.video}`;
      return link;
    }

    tell() {
      const now = performance.now() / 1000;
      this.marks.push([now, this.offset]);
      while (this.marks.length > 2 && now - this.marks[0][0] > SPEED_SECONDS) this.marks.shift();
      const [then, before] = this.marks[0];
      const speed = now - then > 0.5 ? (this.offset - before) / (now - then) : 0;
      const left = speed > 0 ? ` · ${sizeOf(speed)}/s · ${spanOf((this.file.size - this.offset) / speed)} left` : "";
      const percent = Math.floor((100 * this.offset) / this.file.size);
      this.show("sending", `${percent} % · ${sizeOf(this.offset)} of ${sizeOf(this.file.size)}${left}`);
    }

    async go() {
      let pause = 1;
      this.show("sending", "Begins …");
      this.marks = [];
      while (this.state === "sending") {
        const before = this.offset;
        try {
          if (!this.address) await this.begin();
          else if (this.unsure) await this.look();
          if (!this.video) await this.sendChunk();
          if (this.video) return this.finish();
          pause = 1;
        } catch (error) {
          if (this.state !== "sending") return;
          if (error instanceof Refused) return this.fail(error.message);
          this.unsure = true;
          if (this.offset > before) pause = 1;
          await this.rest(pause, error.message === "lost" ? "The connection is lost" : error.message);
          pause = Math.min(2 * pause, LONGEST_PAUSE_SECONDS);
        }
      }
    }

    async begin() {
      const facts = this.facts;
      this.sent ??= facts; // one that was begun on an earlier visit has what was said then
      const said = { filename: this.file.name, filetype: this.file.type, fingerprint: this.fingerprint, ...facts };
      const metadata = Object.entries(said).filter(([, value]) => value).map(([name, value]) => `${name} ${base64(value)}`).join(",");
      const answer = await send("POST", ENDPOINT, { ...TUS, "Upload-Length": String(this.file.size), "Upload-Metadata": metadata }, null, null, this);
      if (answer.status !== 201) throw this.judge(answer);
      this.address = new URL(answer.getResponseHeader("Location"), location.href).pathname; // here, whatever a proxy makes of it
      this.keepTrack();
      this.take(answer);
    }

    keepTrack() {
      const { file, address, sent, facts } = this;
      remember(this.fingerprint, { name: file.name, bytes: file.size, address, sent, facts });
    }

    async look() {
      const answer = await send("HEAD", this.address, TUS, null, null, this);
      if (answer.status === 404 || answer.status === 410) {
        this.forget();
        throw new Error("The server has forgotten this upload; it begins anew");
      }
      if (answer.status >= 300) throw this.judge(answer);
      this.take(answer);
      this.unsure = false;
    }

    async sendChunk() {
      const start = this.offset;
      const chunk = this.file.slice(start, start + CHUNK_BYTES);
      const headers = { ...TUS, "Upload-Offset": String(start), "Content-Type": "application/offset+octet-stream" };
      const answer = await send("PATCH", this.address, headers, chunk, (loaded) => {
        this.offset = start + Math.min(loaded, chunk.size);
        if (this.state === "sending") this.tell();
      }, this);
      if (answer.status !== 204) {
        this.offset = start;
        throw this.judge(answer);
      }
      this.take(answer);
      if (!this.video) this.tell();
    }

    take(answer) {
      this.offset = Number(answer.getResponseHeader("Upload-Offset") || 0);
      this.video = answer.getResponseHeader("Video-Id");
    }

    judge(answer) {
      // These may be different the next time; everything else is meant.
      const passing = [404, 408, 409, 410, 423, 425, 429, 460, 500, 502, 503, 504];
      return passing.includes(answer.status) ? new Error(problemOf(answer)) : new Refused(problemOf(answer));
    }

    rest(seconds, why) {
      return new Promise((resolve) => {
        let left = seconds;
        const over = () => {
          clearInterval(timer);
          removeEventListener("online", over);
          this.wake = null;
          resolve();
        };
        const tick = () => {
          if (left <= 0 || this.state !== "sending") over();
          else this.show("sending", `${why}. Trying again in ${left} s …`);
          left -= 1;
        };
        const timer = setInterval(tick, 1000);
        this.wake = over;
        addEventListener("online", over);
        tick();
      });
    }

    pause() {
      this.show("paused", `Paused at ${Math.floor((100 * this.offset) / this.file.size)} %`);
      this.stop();
    }

    resume() {
      this.unsure = Boolean(this.address);
      this.show("waiting", "Waits its turn");
      next();
    }

    stop() {
      this.request?.abort();
      this.wake?.();
      next();
    }

    async cancel() {
      const address = this.address;
      this.remove();
      this.stop();
      if (address) await send("DELETE", address, TUS).catch(() => null);
    }

    remove() {
      this.forget();
      this.state = "removed";
      this.row.remove();
      uploads.splice(uploads.indexOf(this), 1);
    }

    forget() {
      remember(this.fingerprint, null);
      this.address = null;
      this.offset = 0;
      this.unsure = false;
    }

    fail(reason) {
      this.forget();
      this.show("failed", reason);
      next();
    }

    finish() {
      remember(this.fingerprint, null);
      send("DELETE", this.address, TUS).catch(() => null); // heard: the same file, chosen once more, is another video
      this.offset = this.file.size;
      this.show("done", "Uploaded. The list below says how far it is.");
      this.saveFacts();
      next();
    }

    // What was typed after the upload had begun

    async saveFacts() {
      if (this.address && !this.video) this.keepTrack();
      if (!this.video) return;
      const facts = this.facts;
      const changed = Object.fromEntries(Object.entries(facts).filter(([name, value]) => value !== this.sent[name] && (value || this.sent[name])));
      if (!Object.keys(changed).length) return;
      const answer = await send("PATCH", `/api/videos/${this.video}`, { "Content-Type": "application/json" }, JSON.stringify(changed)).catch(() => null);
      if (answer?.status < 300) this.sent = facts;
      else this.how.textContent = `Uploaded, but its title could not be saved: ${answer ? problemOf(answer) : "the connection is lost"}`;
    }
  }

  function next() {
    const going = uploads.filter((upload) => upload.state === "sending").length;
    const waiting = uploads.filter((upload) => upload.state === "waiting");
    for (const upload of waiting.slice(0, Math.max(0, AT_ONCE - going))) upload.go();
  }

  // What an earlier visit left unfinished

  function drawLeft(fingerprint, facts) {
    const row = make("li", "parcel left");
    row.dataset.fingerprint = fingerprint;
    const line = make("div", "line");
    line.append(make("bdi", "cut", facts.name), make("span", "buttons"));
    const bar = make("progress");
    bar.setAttribute("aria-label", `Upload of ${facts.name}`);
    const how = make("p", "quiet how", "Not finished. Choose this file again, and it goes on.");
    row.append(line, bar, how);
    const choose = make("button", "", "Choose the file");
    const drop = make("button", "", "Give up");
    for (const button of [choose, drop]) button.type = "button";
    choose.addEventListener("click", () => chooser.click());
    drop.addEventListener("click", async () => {
      row.remove();
      remember(fingerprint, null);
      await send("DELETE", facts.address, TUS).catch(() => null);
    });
    line.lastElementChild.append(choose, drop);
    list.append(row);
    return { row, bar, how };
  }

  async function lookAtLeft(fingerprint, facts) {
    const { row, bar, how } = drawLeft(fingerprint, facts);
    const answer = await send("HEAD", facts.address, TUS).catch(() => null);
    if (answer?.getResponseHeader("Video-Id")) {
      row.remove(); // what was typed stays: whoever chooses the file again gets this video
    } else if (answer && (answer.status === 404 || answer.status === 410)) {
      row.remove();
      remember(fingerprint, null);
    } else if (answer?.status === 200) {
      const offset = Number(answer.getResponseHeader("Upload-Offset"));
      bar.max = facts.bytes;
      bar.value = offset;
      how.textContent = `${Math.floor((100 * offset) / facts.bytes)} % of ${sizeOf(facts.bytes)} is there. Choose this file again, and it goes on.`;
    }
  }

  // Files come in

  function add(files, unread = []) {
    const faults = wordsOfUnread(unread);
    for (const file of files) {
      if (!file.size) faults.push(`${file.name} is empty.`);
      else if (file.size > Number(area.dataset.limit)) faults.push(`${file.name} is too large: ${sizeOf(file.size)}; the limit is ${sizeOf(Number(area.dataset.limit))}.`);
      else if (/^(image|text|audio)\//.test(file.type) && !TRANSPORT.test(file.name)) faults.push(`${file.name} is not a video.`);
      else {
        const upload = new Upload(file);
        if (uploads.some((other) => other.fingerprint === upload.fingerprint && other.state !== "done")) {
          upload.row.remove();
          faults.push(`${file.name} is being uploaded already.`);
          continue;
        }
        list.querySelector(`.left[data-fingerprint="${CSS.escape(upload.fingerprint)}"]`)?.remove();
        uploads.push(upload);
      }
    }
    fault.textContent = faults.join(" ");
    next();
  }

  document.getElementById("choose").addEventListener("click", () => chooser.click());
  chooser.addEventListener("change", () => {
    add([...chooser.files]);
    chooser.value = "";
  });
  takeDrops(window, document.body, (found, unread) => add(found.map(({ file }) => file), unread));
  addEventListener("beforeunload", (event) => {
    if (uploads.some((upload) => upload.state === "sending")) event.preventDefault();
  });
  for (const [fingerprint, facts] of Object.entries(remembered())) lookAtLeft(fingerprint, facts);
})();
