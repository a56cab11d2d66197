// The review of one file: a proposal is chosen and its place shown, decided without leaving the page, all by keys too.
"use strict";

(() => {
  const KEY = "mediamill.review.keys";
  const follow = document.getElementById("follow");
  const said = document.getElementById("said");
  const items = () => [...document.querySelectorAll("#proposals .proposal")];
  const chosenItem = () => document.querySelector("#proposals .proposal[aria-current]");
  let chosen = chosenItem()?.dataset.id || "";
  let page = new URLSearchParams(location.search).get("page") || "";
  let isDone = false; // with the last decision nothing was left
  let focusWanted = false; // the next proposal is focused once the page knows it

  // What is shown stays what the reader chose, whoever asks the server for news: each choice is a question of its own,
  // which overtakes those from before it.

  document.body.addEventListener("htmx:configRequest", (event) => {
    if (event.detail.elt !== follow) return;
    if (chosen) event.detail.parameters.proposal = chosen;
    if (page) event.detail.parameters.page = page;
    if (isDone) event.detail.parameters.done = "1";
  });

  function showSheet() {
    const query = new URLSearchParams();
    if (chosen) query.set("proposal", chosen);
    if (page) query.set("page", page);
    htmx.trigger(follow, "refresh");
    history.replaceState(null, "", `?${query}`);
  }

  function choose(item, { focus = true } = {}) {
    if (!item) return;
    for (const other of items()) other.removeAttribute("aria-current");
    item.setAttribute("aria-current", "true");
    chosen = item.dataset.id;
    page = "";
    if (focus) {
      item.focus({ preventScroll: true });
      item.scrollIntoView({ block: "nearest" });
    }
    showSheet();
  }

  function step(by) {
    const all = items();
    const at = all.indexOf(chosenItem());
    choose(all[Math.min(Math.max(at + by, 0), all.length - 1)]);
  }

  // Deciding

  // A value that is accepted settles its field; of one that is rejected, another one may be right.
  function following(item, state) {
    if (state === "pending") return item;
    const all = items();
    const at = all.indexOf(item);
    const isOther = (other) => state === "rejected" || other.closest(".group") !== item.closest(".group");
    return [...all.slice(at + 1), ...all.slice(0, at)].find((other) => "open" in other.dataset && isOther(other));
  }

  const faults = new Map(); // by item: news of other things does not take the words away

  function complain(item, words) {
    faults.set(item.id, words);
    const fault = item.querySelector(".fault");
    fault.hidden = false;
    fault.setAttribute("role", "alert");
    fault.textContent = words;
  }

  async function decide(form) {
    const item = form.closest(".proposal");
    faults.delete(item.id);
    const value = form.elements.value?.value;
    const answer = await fetch(form.dataset.api, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: value === undefined ? undefined : JSON.stringify({ value }),
    }).catch(() => null);
    if (!answer) return complain(item, "The connection is lost. Nothing is changed; try again.");
    const told = await answer.json().catch(() => ({}));
    if (!answer.ok) {
      complain(item, `${told.detail || `The server answered ${answer.status}`}${told.fix ? `; ${told.fix}` : ""}`);
      form.elements.value?.focus();
      return;
    }
    item.querySelector("details.edit")?.removeAttribute("open");
    moveOn(item, told);
  }

  function moveOn(item, told) {
    const next = following(item, told.state);
    const word = { accepted: told.edited_value === null ? "Accepted" : "Changed to", rejected: "Rejected", pending: "Waits again" }[told.state];
    const more = !next ? " Everything in this file is decided." : next === item ? "" : ` Next: ${next.dataset.field}, ${next.dataset.value}.`;
    said.textContent = `${word}: ${item.dataset.field}, ${told.edited_value ?? told.value}.${more}`;
    chosen = (next || item).dataset.id;
    page = "";
    isDone = !next;
    focusWanted = true;
    htmx.trigger(follow, "refresh");
  }

  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form.decide")) return;
    event.preventDefault();
    decide(event.target);
  });

  document.getElementById("proposals").addEventListener("morphed", () => {
    chosen = chosenItem()?.dataset.id || chosen;
    for (const item of items()) if (faults.has(item.id)) complain(item, faults.get(item.id));
    if (focusWanted) {
      focusWanted = false;
      const item = chosenItem();
      item?.focus({ preventScroll: true });
      item?.scrollIntoView({ block: "nearest" });
      const query = new URLSearchParams(chosen ? { proposal: chosen } : {});
      history.replaceState(null, "", `?${query}`);
    }
    keys();
  });

  // The marked place is scrolled to within the page that is shown

  function reveal() {
    const paper = document.querySelector("#sheet .paper");
    const mark = paper?.querySelector(".chosen");
    if (!mark) return;
    const box = mark.getBoundingClientRect();
    const around = paper.getBoundingClientRect();
    if (box.top < around.top || box.bottom > around.bottom)
      paper.scrollBy({ top: box.top - around.top - around.height / 3 });
    if (box.left < around.left || box.right > around.right)
      paper.scrollBy({ left: box.left - around.left - around.width / 4 });
  }

  document.getElementById("sheet").addEventListener("morphed", reveal);
  addEventListener("load", reveal);

  // Mouse

  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const turn = event.target.closest("#page-before, #page-after");
    const place = event.target.closest("[data-proposal]");
    const value = event.target.closest("#proposals a.value");
    if (!turn && !place && !value) {
      const item = event.target.closest(".proposal");
      if (item && !item.hasAttribute("aria-current") && !event.target.closest("button, summary, input, select"))
        choose(item, { focus: false });
      return;
    }
    event.preventDefault();
    if (turn) turnTo(turn);
    else choose(place ? document.getElementById(`p${place.dataset.proposal}`) : value.closest(".proposal"));
  });

  function turnTo(link) {
    if (!link) return;
    page = link.dataset.page;
    showSheet();
  }

  // Keys; whoever has others for these letters turns them off

  const box = () => document.getElementById("use-keys");
  const areOn = () => localStorage.getItem(KEY) !== "off";
  function keys() {
    if (box()) box().checked = areOn();
  }
  keys();
  document.addEventListener("change", (event) => {
    if (event.target.id === "use-keys") localStorage.setItem(KEY, event.target.checked ? "on" : "off");
  });

  function edit(item) {
    const form = item?.querySelector("details.edit");
    if (!form) return;
    form.open = true;
    write(form);
  }

  function write(form) {
    const input = form.querySelector("input:not([type=hidden]), select");
    input.focus();
    input.select?.();
  }

  const submit = (end) => chosenItem()?.querySelector(`form[data-api$="/${end}"]`)?.requestSubmit();
  const acts = {
    a: () => submit("accept"),
    r: () => submit("reject"),
    u: () => submit("reopen"),
    e: () => edit(chosenItem()),
    j: () => step(1),
    k: () => step(-1),
    n: () => document.getElementById("next-file")?.click(),
    ArrowLeft: () => turnTo(document.getElementById("page-before")),
    ArrowRight: () => turnTo(document.getElementById("page-after")),
  };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      const details = event.target.closest?.("details.edit");
      if (details) {
        details.open = false;
        details.querySelector("summary").focus();
      }
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || !areOn() || !acts[event.key]) return;
    if (event.target.closest("input:not([type=checkbox]), select, textarea, .paper")) return;
    event.preventDefault();
    acts[event.key]();
  });
  document.addEventListener("toggle", (event) => {
    if (event.target.matches?.("details.edit") && event.target.open) write(event.target);
  }, true);
})();
