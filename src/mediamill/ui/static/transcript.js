// The transcript beside the player: a line leads to its moment, the line that is being said is marked and in view, and
// words can be looked for.
"use strict";

(() => {
  const film = document.getElementById("film");
  const player = document.getElementById("player");
  const beside = document.getElementById("beside");
  const state = document.getElementById("video-state");
  const HANDS_OFF_MILLISECONDS = 4000; // whoever scrolls wants to read
  if (!film) return;
  let handled = 0;
  let current = null;

  const lines = () => [...beside.querySelectorAll("#lines a")];

  function follow() {
    const at = film.currentTime;
    const said = lines().find((line) => at >= Number(line.dataset.start) && at < Number(line.dataset.end)) || null;
    if (said === current) return;
    current?.removeAttribute("aria-current");
    current = said;
    if (!said) return;
    said.setAttribute("aria-current", "true");
    const list = beside.querySelector("#lines");
    if (performance.now() - handled < HANDS_OFF_MILLISECONDS || list.contains(document.activeElement)) return;
    list.scrollTo({ top: said.offsetTop - list.clientHeight / 3, behavior: "smooth" });
  }

  function markWords(line, words) {
    const text = line.querySelector("span");
    const whole = text.textContent;
    text.replaceChildren(whole);
    if (!words) return true;
    const at = whole.toLowerCase().indexOf(words);
    if (at < 0) return false;
    const mark = document.createElement("mark");
    mark.textContent = whole.slice(at, at + words.length);
    text.replaceChildren(whole.slice(0, at), mark, whole.slice(at + words.length));
    return true;
  }

  function find(words) {
    let hits = 0;
    for (const line of lines()) {
      const hit = markWords(line, words.trim().toLowerCase());
      line.parentElement.hidden = !hit;
      hits += hit ? 1 : 0;
    }
    beside.querySelector("#found").textContent = words.trim() ? `${hits} line${hits === 1 ? "" : "s"}` : "";
  }

  film.addEventListener("timeupdate", follow);
  film.addEventListener("seeked", follow);
  for (const name of ["wheel", "touchmove", "pointerdown"]) beside.addEventListener(name, () => (handled = performance.now()), { passive: true });
  beside.addEventListener("input", (event) => event.target.id === "find" && find(event.target.value));
  beside.addEventListener("click", (event) => {
    const line = event.target.closest("a[data-start]");
    if (!line || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    film.currentTime = Number(line.dataset.start) + 0.01;
    film.play().catch(() => null);
    player.scrollIntoView({ block: "nearest", behavior: "smooth" });
  });

  // Captions that are written while one watches

  state.addEventListener("morphed", async () => {
    const isThere = Boolean(beside.querySelector("#transcript"));
    if (state.dataset.captions !== "ready" || isThere) return;
    const answer = await fetch(`/videos/${player.dataset.video}?part=transcript`).catch(() => null);
    if (!answer?.ok || beside.querySelector("#transcript")) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    beside.replaceChildren(...page.body.children);
    document.getElementById("watch").classList.toggle("with-transcript", beside.children.length > 0);
    const track = Object.assign(document.createElement("track"), { kind: "captions", label: "Captions", src: `/api/videos/${player.dataset.video}/captions.vtt` });
    film.append(track);
    player.dispatchEvent(new Event("captioned"));
  });
})();
