// The page of one asset: moments of a video are jumped to and followed, arrows go to the neighbours.
"use strict";

(() => {
  const film = document.getElementById("film");
  const links = [...document.querySelectorAll("#moments a")];
  const marks = [...document.querySelectorAll("#timeline a")];

  function jump(seconds) {
    film.currentTime = seconds;
    film.play().catch(() => {});
    film.scrollIntoView({ block: "nearest" });
  }

  function follow() {
    const now = film.currentTime + 0.01;
    const at = links.findLastIndex((link) => Number(link.dataset.start) <= now);
    for (const list of [links, marks])
      list.forEach((link, index) => {
        if (index === at) link.setAttribute("aria-current", "true");
        else link.removeAttribute("aria-current");
      });
  }

  if (film) {
    for (const link of [...links, ...marks])
      link.addEventListener("click", (event) => {
        if (event.ctrlKey || event.metaKey || event.shiftKey) return;
        event.preventDefault();
        jump(Number(link.dataset.start));
        history.replaceState(null, "", link.getAttribute("href"));
      });
    film.addEventListener("timeupdate", follow);
    film.addEventListener("seeked", follow);
    const ready = () => {
      document.getElementById("only-clip").hidden = !film.currentSrc.endsWith("/clip.mp4");
      const start = Number(film.dataset.start || 0);
      if (start && Math.abs(film.currentTime - start) > 0.1) film.currentTime = start;
      follow();
    };
    if (film.readyState >= 1) ready();
    else film.addEventListener("loadedmetadata", ready, { once: true });
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select, video")) return;
    const id = { ArrowLeft: "newer", ArrowRight: "older" }[event.key];
    const link = id && document.getElementById(id);
    if (link) location.assign(link.href);
  });
  document.getElementById("asset-state").addEventListener("morphed", (event) => {
    const shown = document.querySelector(".stage img, .stage video");
    if (!shown && event.target.dataset.output) location.reload();
  });
})();
