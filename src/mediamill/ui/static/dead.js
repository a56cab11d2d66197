// The dead letter: one box ticks all of the page.
"use strict";

document.addEventListener("change", (event) => {
  if (event.target.id !== "every") return;
  for (const box of document.querySelectorAll("#chosen input[name=job]")) box.checked = event.target.checked;
});
