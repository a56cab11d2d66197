// Files on their way into a project: any number, some at a time, each with its bar. Whole folders may be dropped.
import { isHidden, takeDrops, wordsOfUnread } from "./drop.js";
import { problemOf, send, sizeOf } from "./tus.js";

(() => {
  const area = document.getElementById("upload");
  if (!area) return; // whoever looks may not add any
  const list = document.getElementById("uploads");
  const sum = document.getElementById("upload-sum");
  const fault = document.getElementById("upload-fault");
  const AT_ONCE = 3; // a browser has few connections to one server, and the live events need one too
  const TRIES = 4;
  const LEAST_MS = 1000; // between two looks at the list below
  const PASSING = [408, 425, 429, 500, 502, 503, 504]; // may be different the next time; everything else is meant
  const waiting = [];
  const parcels = new Set();
  const count = { all: 0, done: 0, twins: 0, failed: 0 };
  let refreshing = null;

  function make(tag, className, content) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (content) element.textContent = content;
    return element;
  }

  class Parcel {
    constructor({ file, name }) {
      this.file = file;
      this.name = name;
      this.tries = 0;
      this.row = make("li", "parcel");
      const line = make("div", "line");
      this.buttons = make("span", "buttons");
      line.append(make("bdi", "cut", name), this.buttons);
      this.bar = make("progress");
      this.bar.max = 1;
      this.bar.setAttribute("aria-label", `Upload of ${name}`);
      this.how = make("p", "quiet how");
      this.row.append(line, this.bar, this.how);
    }

    show(state, words, offered) {
      this.state = state;
      this.row.dataset.state = state;
      this.how.textContent = words;
      this.how.classList.toggle("error", state === "failed");
      this.buttons.replaceChildren(...Object.entries(offered).map(([word, act]) => this.button(word, act)));
    }

    button(word, act) {
      const button = make("button", "", word);
      button.type = "button";
      button.setAttribute("aria-label", `${word}: ${this.name}`);
      button.addEventListener("click", act);
      return button;
    }

    async go() {
      list.append(this.row);
      parcels.add(this);
      this.bar.value = 0;
      this.show("sending", "Begins …", { Cancel: () => this.cancel() });
      try {
        const answer = await send("POST", `${area.dataset.to}?name=${encodeURIComponent(this.name)}`, { "Content-Type": "application/octet-stream" }, this.file, (sent) => this.tell(sent), this);
        if (answer.status === 201) this.finish(JSON.parse(answer.responseText));
        else if (PASSING.includes(answer.status)) await this.rest(problemOf(answer));
        else this.fail(problemOf(answer));
      } catch (error) {
        if (error.message !== "aborted") await this.rest("The connection is lost");
      }
    }

    tell(sent) {
      this.bar.value = this.file.size ? Math.min(sent, this.file.size) / this.file.size : 1;
      this.how.textContent = sent < this.file.size ? `${sizeOf(sent)} of ${sizeOf(this.file.size)}` : "Is being kept …";
    }

    async rest(why) {
      this.tries += 1;
      if (this.tries >= TRIES) return this.fail(why);
      const seconds = 2 ** this.tries;
      this.show("sending", `${why}. Trying again in ${seconds} s …`, { Cancel: () => this.cancel() });
      await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
      if (this.state === "sending") await this.go();
    }

    finish(file) {
      count.done += 1;
      if (file.twin_of) count.twins += 1;
      this.leave();
      refreshSoon();
    }

    fail(why) {
      count.failed += 1;
      parcels.delete(this);
      this.show("failed", why, { "Try again": () => this.again(), Remove: () => this.leave() });
      next();
    }

    again() {
      count.failed -= 1;
      this.tries = 0;
      this.row.remove();
      waiting.unshift(this);
      next();
    }

    cancel() {
      count.all -= 1;
      this.state = "gone";
      this.request?.abort();
      this.leave();
    }

    leave() {
      if (this.state === "failed") {
        count.failed -= 1;
        count.all -= 1;
      }
      parcels.delete(this);
      this.row.remove();
      next();
    }
  }

  function next() {
    while (parcels.size < AT_ONCE && waiting.length) {
      const entry = waiting.shift();
      (entry instanceof Parcel ? entry : new Parcel(entry)).go();
    }
    const left = count.all - count.done - count.failed;
    const parts = [`${count.done.toLocaleString()} of ${count.all.toLocaleString()} added`];
    if (count.twins) parts.push(`${count.twins.toLocaleString()} known already`);
    if (count.failed) parts.push(`${count.failed.toLocaleString()} failed`);
    if (waiting.length) parts.push(`${waiting.length.toLocaleString()} wait their turn`);
    sum.textContent = count.all ? `${parts.join(" · ")}${left ? "" : "."}` : "";
  }

  // What was added appears in the list below, also where no event came.

  function refreshSoon() {
    refreshing ??= setTimeout(() => {
      refreshing = null;
      htmx.trigger("#live-files", "refresh");
    }, LEAST_MS);
  }

  function add(entries, unread = []) {
    const limit = Number(area.dataset.limit);
    const large = entries.filter(({ file }) => file.size > limit);
    const faults = large.map(({ file, name }) => `${name} is too large: ${sizeOf(file.size)}; the limit is ${sizeOf(limit)}.`).concat(wordsOfUnread(unread));
    if (!entries.length && !unread.length) faults.push("There is no file in it.");
    fault.textContent = faults.join(" ");
    const good = entries.filter(({ file }) => file.size <= limit);
    count.all += good.length;
    waiting.push(...good);
    next();
  }

  for (const [button, chooser] of [["choose", "files"], ["choose-folder", "folder"]]) {
    const input = document.getElementById(chooser);
    document.getElementById(button).addEventListener("click", () => input.click());
    input.addEventListener("change", () => {
      const chosen = [...input.files].map((file) => ({ file, name: file.webkitRelativePath || file.name }));
      add(chosen.filter(({ name }) => chooser === "files" || !isHidden(name)));
      input.value = "";
    });
  }
  takeDrops(window, document.body, add);
  addEventListener("beforeunload", (event) => {
    if (parcels.size || waiting.length) event.preventDefault();
  });
})();
