// Draws the Mermaid pictures of a page in the colours of its theme, and again when the theme changes.
const pictures = [...document.querySelectorAll("pre.mermaid")].map((place) => ({ place, text: place.textContent }));
const night = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.body.dataset.theme;
  return chosen === "dark" || (chosen !== "light" && night.matches);
}

let drawn = null;

async function draw() {
  if (isDark() === drawn) return;
  drawn = isDark();
  mermaid.initialize({ startOnLoad: false, securityLevel: "strict", theme: drawn ? "dark" : "neutral" });
  for (const [number, { place, text }] of pictures.entries()) {
    const { svg } = await mermaid.render(`picture-${number}`, text);
    place.innerHTML = svg;
    place.dataset.drawn = drawn ? "dark" : "light";
  }
}

draw();
night.addEventListener("change", draw);
new MutationObserver(draw).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
