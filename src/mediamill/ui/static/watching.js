// The page of one video follows it: a stream that appears or changes is taken up, by the player or with the whole page.
"use strict";

(() => {
  const player = document.getElementById("player");
  const state = document.getElementById("video-state");

  const isTyping = () => {
    const form = document.getElementById("edit-form");
    return [...form.querySelectorAll("input, textarea")].some((field) => field.value !== field.defaultValue);
  };
  state.addEventListener("morphed", () => {
    const shown = player ? player.dataset.output : "";
    const fresh = state.dataset.output;
    if (fresh === shown) return;
    if (player && fresh) {
      player.dataset.output = fresh;
      player.dispatchEvent(new Event("stream"));
    } else if (!player && !isTyping()) location.reload();
  });
  const share = document.getElementById("share");
  share.hidden = !navigator.clipboard; // browsers have it on safe lines only
  share.addEventListener("click", async (event) => {
    await navigator.clipboard.writeText(location.origin + location.pathname);
    event.target.textContent = "Copied";
  });
})();
