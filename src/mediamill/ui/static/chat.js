// The chat view, kept live: rows that changed are put in their place, new ones at the end, older ones at the top, and
// what the reader looks at stays where it is. The list hangs from its bottom (column-reverse): scrollTop is 0 there.
"use strict";

(() => {
  const chat = document.getElementById("chat");
  const scroller = document.getElementById("scroller");
  const messages = document.getElementById("messages");
  const older = document.getElementById("older");
  const newer = document.getElementById("newer");
  const NEAR_PIXELS = 48;
  const POLL_MILLISECONDS = 5000;
  const MOST_OPEN = 30;
  const isPast = "past" in chat.dataset;
  const asSent = new Map(); // what the server sent for each row: times are rewritten here, so rows cannot be compared

  const isAway = () => scroller.scrollTop < -NEAR_PIXELS;
  const parse = (html) => new DOMParser().parseFromString(html, "text/html");

  function keepPlace(change) {
    if (!isAway()) {
      change();
      scroller.scrollTop = 0;
      return;
    }
    const edge = scroller.getBoundingClientRect().top;
    const anchor = [...messages.children].find((row) => row.getBoundingClientRect().bottom > edge);
    const before = anchor && anchor.getBoundingClientRect().top;
    change();
    const after = anchor && document.getElementById(anchor.id).getBoundingClientRect().top;
    if (anchor) scroller.scrollTop += after - before;
  }

  // Times and days as the reader's own clock has them.

  function dayName(moment) {
    const now = new Date();
    const yesterday = new Date(now.getFullYear(), now.getMonth(), now.getDate() - 1);
    if (moment.toDateString() === now.toDateString()) return "Today";
    if (moment.toDateString() === yesterday.toDateString()) return "Yesterday";
    const year = moment.getFullYear() === now.getFullYear() ? undefined : "numeric";
    return moment.toLocaleDateString("en-GB", { weekday: "long", day: "numeric", month: "long", year });
  }

  function markDay(row, text) {
    let mark = row.querySelector(":scope > .day");
    if (!text) {
      if (mark) mark.remove();
      return;
    }
    if (!mark) {
      mark = document.createElement("p");
      mark.className = "day";
      mark.append(document.createElement("span"));
      row.prepend(mark);
    }
    if (mark.textContent !== text) mark.firstElementChild.textContent = text;
  }

  function localize() {
    let last = "";
    for (const row of messages.children) {
      const moment = new Date(Number(row.dataset.at) * 1000);
      const time = row.querySelector("time.at");
      const shown = moment.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
      if (time.textContent !== shown) time.textContent = shown;
      markDay(row, moment.toDateString() === last ? "" : dayName(moment));
      last = moment.toDateString();
    }
  }

  // What is new

  function put(fresh, after) {
    const shown = document.getElementById(fresh.id);
    const source = fresh.outerHTML;
    const isOlder = Number(fresh.dataset.id) < Number(messages.firstElementChild?.dataset.id ?? 0);
    if (!shown && isOlder) return false; // of a part of the conversation that is not loaded
    if (!shown) {
      messages.insertBefore(fresh, after);
      asSent.set(fresh.id, source);
      return true;
    }
    const mayChange = "open" in shown.dataset || "open" in fresh.dataset;
    if (!mayChange || asSent.get(fresh.id) === source) return false;
    asSent.set(fresh.id, source);
    const doing = shown.querySelector(".doing");
    const next = fresh.querySelector(".doing");
    if (doing && next) doing.replaceWith(next);
    else shown.replaceWith(fresh);
    return false;
  }

  function forgetSent() {
    for (const row of document.querySelectorAll("#sending > [data-key]")) {
      if (messages.querySelector(`[data-key="${CSS.escape(row.dataset.key)}"]`)) row.remove();
    }
  }

  function take(page) {
    const list = page.querySelector("ol");
    if ("tooMuch" in list.dataset) {
      location.reload();
      return;
    }
    const state = document.getElementById("talk-state");
    const freshState = page.getElementById("talk-state");
    if (state.outerHTML !== freshState.outerHTML) state.replaceWith(freshState);
    if (isPast) return;
    let added = 0;
    const wasAway = isAway();
    keepPlace(() => {
      const rows = [...list.children];
      // Media that were slow to arrive belong before what was sent after them.
      const shownAfter = (at) => rows.slice(at + 1).map((row) => document.getElementById(row.id)).find(Boolean) ?? null;
      for (const [at, row] of rows.entries()) added += put(row, shownAfter(at)) ? 1 : 0;
      forgetSent();
      localize();
      if (added) document.getElementById("nothing")?.remove();
    });
    if (added && wasAway) newer.hidden = false;
  }

  function liveAddress() {
    const open = [...messages.querySelectorAll(":scope > [data-open]")].slice(-MOST_OPEN);
    const ids = [...messages.children].map((row) => Number(row.dataset.id));
    const query = new URLSearchParams({ part: "live", after: Math.max(0, ...ids) });
    for (const row of open) query.append("open", row.dataset.id);
    return `${chat.dataset.address}?${query}`;
  }

  let busy = false;
  let again = false;

  async function refresh() {
    again = true;
    if (busy) return;
    busy = true;
    while (again) {
      again = false;
      try {
        const answer = await fetch(liveAddress(), { headers: { Accept: "text/html" } });
        if (answer.ok) take(parse(await answer.text()));
        document.body.classList.toggle("lost", !answer.ok);
      } catch {
        document.body.classList.add("lost");
      }
    }
    busy = false;
  }

  function isOurs(event) {
    const data = JSON.parse(event.data).data ?? {};
    return data.provider_name === chat.dataset.provider && data.correspondent_id === chat.dataset.correspondent;
  }

  function listen() {
    const events = new EventSource(chat.dataset.events);
    for (const topic of ["message.received", "message.ready", "reply.failed"]) {
      events.addEventListener(topic, (event) => isOurs(event) && refresh());
    }
    events.addEventListener("bot.changed", refresh);
    events.addEventListener("changed", () => messages.querySelector("[data-working]") && refresh());
    events.addEventListener("open", refresh);
    setInterval(() => document.hidden || refresh(), POLL_MILLISECONDS);
    document.addEventListener("visibilitychange", () => document.hidden || refresh());
    document.addEventListener("chat:refresh", refresh);
  }

  // What was before

  let loading = false;

  async function loadOlder(link) {
    if (loading) return;
    loading = true;
    link.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(`${link.href}&part=older`, { headers: { Accept: "text/html" } });
      if (!answer.ok) throw new Error(answer.statusText);
      const page = parse(await answer.text());
      const rows = [...page.querySelector("ol").children];
      for (const row of rows) asSent.set(row.id, row.outerHTML);
      keepPlace(() => {
        messages.prepend(...rows);
        older.replaceChildren(...page.querySelectorAll(".older"));
        localize();
      });
      watchTop();
    } catch {
      link.removeAttribute("aria-busy"); // the link is still there to be followed
    } finally {
      loading = false;
    }
  }

  const top = new IntersectionObserver(
    (seen) => seen.some((each) => each.isIntersecting) && isAway() && loadOlder(older.querySelector("a")),
    { root: scroller, rootMargin: "300px 0px 0px 0px" },
  );

  function watchTop() {
    top.disconnect();
    const link = older.querySelector("a");
    if (link) top.observe(link);
  }

  older.addEventListener("click", (event) => {
    if (!event.target.closest("a") || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    loadOlder(event.target.closest("a"));
  });

  // Another try, and the way down

  chat.addEventListener("submit", async (event) => {
    if (event.target.id === "composer") return;
    event.preventDefault();
    const form = event.target;
    const button = form.querySelector("button");
    button.disabled = true;
    try {
      const answer = await fetch(form.action, {
        method: "POST",
        body: new URLSearchParams(new FormData(form)),
        headers: { Accept: "application/json" },
      });
      if (!answer.ok) throw new Error((await answer.json()).detail);
      await refresh();
    } catch (error) {
      const told = form.parentElement.querySelector(".error");
      if (told) told.textContent = error.message;
    }
    button.disabled = false;
  });

  newer.addEventListener("click", () => {
    scroller.scrollTop = 0;
    newer.hidden = true;
    scroller.focus({ preventScroll: true });
  });
  scroller.addEventListener("scroll", () => {
    if (!isAway()) newer.hidden = true;
  }, { passive: true });

  for (const row of messages.children) asSent.set(row.id, row.outerHTML);
  localize();
  watchTop();
  listen();
})();
