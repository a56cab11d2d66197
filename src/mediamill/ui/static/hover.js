// Whoever rests on the picture of a video sees how it begins, without sound.
"use strict";

(() => {
  const REST_MILLISECONDS = 220;
  let clip = null;
  let timer = 0;

  function stop() {
    clearTimeout(timer);
    if (!clip) return;
    clip.pause();
    clip.removeAttribute("src");
    clip.load(); // lets go of what was fetched
    clip.remove();
    clip = null;
  }

  function play(link) {
    clip = document.createElement("video");
    Object.assign(clip, { muted: true, loop: true, playsInline: true, className: "clip", src: link.dataset.clip });
    clip.setAttribute("aria-hidden", "true");
    clip.addEventListener("error", stop);
    link.append(clip);
    clip.play().catch(() => {});
  }

  document.addEventListener("pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const link = event.target.closest("[data-clip]");
    if (link && clip && clip.parentNode === link) return;
    stop();
    if (link) timer = setTimeout(play, REST_MILLISECONDS, link);
  });
  document.documentElement.addEventListener("pointerleave", stop);
})();
