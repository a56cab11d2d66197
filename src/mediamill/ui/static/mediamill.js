// The plot of the first page, and four courtesies: parts that did not change are left alone, a lost connection shows, and
// neither what happened before the page was listening nor the last of much news is missed.
"use strict";

(() => {
  const box = document.getElementById("plot");
  const tone = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let plot = null;

  const size = () => ({ width: box.clientWidth, height: box.clientHeight });
  const hourAndMinute = (seconds) =>
    new Date(seconds * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

  function readData() {
    const rows = [...document.querySelectorAll("#throughput tbody tr")].map((row) => row.dataset);
    const column = (name) => rows.map((row) => Number(row[name]));
    const completed = column("completed");
    const failed = column("failed");
    // Stacked: the failed ones stand on the completed ones, so the sum is drawn first and the completed over it.
    return [column("at"), completed.map((count, index) => count + failed[index]), completed, failed];
  }

  function tellMinute(self) {
    const index = self.cursor.idx;
    const out = box.querySelector(".hover");
    if (index == null) {
      out.textContent = "";
      return;
    }
    out.textContent = `${hourAndMinute(self.data[0][index])}: ${self.data[2][index]} completed, ${self.data[3][index]} failed`;
  }

  function draw() {
    if (!box || typeof uPlot === "undefined") return;
    if (plot) plot.destroy();
    box.replaceChildren();
    const hover = document.createElement("p");
    hover.className = "hover";
    box.append(hover);
    const axis = { stroke: tone("--quiet"), grid: { stroke: tone("--line"), width: 1 }, ticks: { show: false } };
    const font = "12px system-ui, sans-serif";
    const bars = uPlot.paths.bars({ size: [0.72, 14], radius: 0.2 });
    const bar = (color) => ({ paths: bars, fill: color, stroke: color, width: 0, points: { show: false } });
    const clock = (_, marks) => marks.map(hourAndMinute);
    plot = new uPlot(
      {
        ...size(),
        padding: [10, 6, 0, 0],
        legend: { show: false },
        cursor: { y: false, points: { show: false }, drag: { setScale: false } },
        scales: {
          x: { range: (_, low, high) => [low - 30, high + 30] },
          y: { range: (_, low, high) => [0, Math.max(4, high * 1.08)] },
        },
        axes: [
          { ...axis, font, grid: { show: false }, values: clock, space: 64, size: 22, gap: 4 },
          { ...axis, font, size: 46, gap: 6, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 5e4, 1e5, 1e6] },
        ],
        series: [{}, bar(tone("--bad-fill")), bar(tone("--accent-fill")), { show: false }],
        hooks: { setCursor: [tellMinute] },
      },
      readData(),
      box,
    );
  }

  draw();
  if (box) {
    new ResizeObserver(() => plot && plot.setSize(size())).observe(box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  }

  document.body.addEventListener("htmx:oobBeforeSwap", (event) => {
    const fresh = event.detail.fragment.firstElementChild;
    if (fresh && fresh.innerHTML === event.detail.target.innerHTML) event.detail.shouldSwap = false;
  });
  document.body.addEventListener("htmx:oobAfterSwap", (event) => {
    if (event.detail.target.id === "throughput" && plot) plot.setData(readData());
  });
  document.body.addEventListener("htmx:sendError", () => document.body.classList.add("lost"));
  document.body.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.xhr.status) document.body.classList.remove("lost"); // one that was overtaken tells nothing
  });

  // Between the page and its stream, and while a stream was broken, things go on.
  document.body.addEventListener("htmx:sseOpen", () => {
    for (const part of document.querySelectorAll('[hx-trigger*="sse:"]')) {
      htmx.trigger(part, part.getAttribute("hx-trigger").match(/sse:[\w.]+/)[0]);
    }
  });

  // What comes within a throttle of htmx is dropped, also if nothing comes after it: so it is told once more behind it,
  // and again if more came meanwhile, for that telling may itself be within the throttle of one that came just before.
  const late = new Map(); // whether more came
  document.body.addEventListener("htmx:sseMessage", ({ target }) => {
    const [, news, seconds] = target.getAttribute("hx-trigger")?.match(/(sse:[\w.]+) throttle:(\d+)s/) ?? [];
    if (!news) return;
    const isTold = late.has(target);
    late.set(target, isTold);
    if (!isTold) tellLate(target, news, seconds * 1000 + 50);
  });
  function tellLate(target, news, milliseconds) {
    setTimeout(() => {
      const more = late.get(target);
      late.delete(target);
      htmx.trigger(target, news);
      if (!more) return;
      late.set(target, false);
      tellLate(target, news, milliseconds);
    }, milliseconds);
  }
})();
