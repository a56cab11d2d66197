// A grid of any length. Months have known counts, so every cell has a known place; only what is near the window is in the
// page, fetched in stretches. Browsers cannot scroll beyond some ten million pixels: the page holds a slab of the whole, and
// when the reader comes near its end, another slab is laid under the window without a move to be seen.
import { Scrubber } from "./scrubber.js";

const grid = document.getElementById("grid");
const STRETCH = grid ? Number(grid.dataset.stretch) : 0;
const SLAB = 2_000_000; // pixels that are scrolled natively
const GAP = 4;
const HEADING = 44;
const FETCH_AFTER_MILLISECONDS = 60; // what only rushes by is not fetched
const KEY = `grid ${location.pathname}${location.search}`;
const NAMES = new Intl.DateTimeFormat("en", { month: "long", year: "numeric", timeZone: "UTC" });

class Month {
  constructor(name, count) {
    this.name = name;
    this.count = count;
    this.title = NAMES.format(new Date(`${name}-01T00:00:00Z`));
    this.marks = new Map([[0, ""]]); // index -> the place behind which it begins
    this.heading = null;
    this.chunks = new Map(); // number -> Chunk, those in the page
  }

  /** The nearest place known before an index, and how many are between. */
  placeBefore(index) {
    let best = 0;
    for (const known of this.marks.keys()) if (known <= index && known > best) best = known;
    return { after: this.marks.get(best), skip: index - best };
  }
}

class Chunk {
  constructor(month, number) {
    this.month = month;
    this.number = number;
    this.first = number * STRETCH;
    this.list = document.createElement("ol");
    this.list.className = "cells chunk";
    this.list.dataset.month = month.name;
    this.aborter = new AbortController();
    this.blank();
  }

  blank() {
    const amount = Math.min(STRETCH, this.month.count - this.first);
    this.list.replaceChildren(
      ...Array.from({ length: amount }, () => {
        const cell = document.createElement("li");
        cell.className = "cell";
        return cell;
      }),
    );
  }

  /** Fill it. Answers whether the month has another count than was said. */
  async fetch() {
    const { after, skip } = this.month.placeBefore(this.first);
    const address = new URL(grid.dataset.cells, location.href);
    address.searchParams.set("month", this.month.name);
    if (after) address.searchParams.set("after", after);
    if (skip) address.searchParams.set("skip", skip);
    const answer = await fetch(address, { signal: this.aborter.signal });
    if (!answer.ok) throw new Error(`the server says ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("ol");
    this.list.replaceChildren(...fresh.children);
    this.list.dataset.filled = "";
    const shown = this.list.children.length;
    if (shown === STRETCH && fresh.dataset.last) this.month.marks.set(this.first + STRETCH, fresh.dataset.last);
    return this.correct(shown, "more" in fresh.dataset);
  }

  correct(shown, more) {
    const known = this.first + shown;
    const before = this.month.count;
    if (!more && known !== before) this.month.count = Math.max(known, 0);
    else if (more && known >= before) this.month.count = known + 1;
    return this.month.count !== before;
  }
}

class Grid {
  constructor(months) {
    this.months = months.map(([name, count]) => new Month(name, count));
    this.base = 0; // where in the whole the slab begins
    this.wanted = null; // the index that the keyboard is at
    this.queue = 0;
    grid.replaceChildren();
    grid.classList.add("virtual");
    document.getElementById("pages")?.remove();
    this.scrubber = new Scrubber(grid, this.months, (share) => this.jump(share * (this.height - innerHeight)));
    this.measure();
    new ResizeObserver(() => this.resize()).observe(grid);
    addEventListener("scroll", () => this.soon(), { passive: true });
    addEventListener("resize", () => this.soon());
    document.addEventListener("keydown", (event) => this.press(event));
    grid.addEventListener("focusin", (event) => this.noteFocus(event));
    addEventListener("hashchange", () => this.goToHash());
    addEventListener("pagehide", () => sessionStorage.setItem(KEY, String(this.top)));
    this.begin();
  }

  begin() {
    history.scrollRestoration = "manual";
    const back = performance.getEntriesByType("navigation")[0]?.type;
    const kept = Number(sessionStorage.getItem(KEY));
    if (location.hash) this.goToHash();
    else if (kept && (back === "back_forward" || back === "reload")) this.jump(kept);
    else this.draw();
  }

  // Places. `top` is how far down in the whole the window is; it is below 0 while the page's head is seen.

  get offset() {
    return grid.getBoundingClientRect().top + scrollY;
  }

  get top() {
    return scrollY - this.offset + this.base;
  }

  measure() {
    this.width = grid.clientWidth;
    const least = this.width < 560 ? 104 : 150;
    this.columns = Math.max(2, Math.floor((this.width + GAP) / (least + GAP)));
    this.row = Math.floor((this.width - GAP * (this.columns - 1)) / this.columns) + GAP;
    grid.style.setProperty("--columns", this.columns);
    grid.style.setProperty("--row", `${this.row - GAP}px`);
    this.place();
  }

  place() {
    let top = 0;
    let index = 0;
    for (const month of this.months) {
      month.top = top;
      month.start = index;
      month.height = month.count ? HEADING + Math.ceil(month.count / this.columns) * this.row : 0;
      top += month.height;
      index += month.count;
    }
    this.height = top;
    this.total = index;
    grid.style.height = `${Math.min(SLAB, this.height)}px`;
    this.scrubber.layOut(this.height);
  }

  resize() {
    if (grid.clientWidth === this.width) return;
    const month = this.monthAt(Math.max(0, this.top));
    const share = month.height ? (this.top - month.top) / month.height : 0;
    const wasAbove = this.top <= 0;
    this.measure();
    if (!wasAbove) this.jump(month.top + share * month.height);
    this.draw();
  }

  monthAt(place) {
    let low = 0;
    let high = this.months.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.months[middle].top <= place) low = middle;
      else high = middle - 1;
    }
    return this.months[low];
  }

  /** Show what is at a place of the whole. */
  jump(place) {
    const most = Math.max(0, this.height - innerHeight + 60);
    const target = Math.min(Math.max(place, 0), most);
    const slab = Math.min(SLAB, this.height);
    this.base = Math.min(Math.max(0, Math.round(target - slab / 2)), this.height - slab);
    scrollTo({ top: target - this.base + this.offset, behavior: "instant" });
    this.draw();
  }

  /** Another slab, if this one comes to its end and there is more. */
  rebase() {
    const inside = scrollY - this.offset;
    const slab = Math.min(SLAB, this.height);
    const margin = slab / 6;
    const nearTop = inside < margin && this.base > 0;
    const nearEnd = inside + innerHeight > slab - margin && this.base + slab < this.height;
    if (nearTop || nearEnd) this.jump(this.top);
  }

  // Drawing

  soon() {
    if (this.queue) return;
    this.queue = requestAnimationFrame(() => {
      this.queue = 0;
      this.rebase();
      this.draw();
    });
  }

  draw() {
    const from = this.top - innerHeight;
    const to = this.top + 2 * innerHeight;
    for (const month of this.months) {
      const near = month.height && month.top < to && month.top + month.height > from;
      if (near) this.drawMonth(month, from, to);
      else if (month.heading) this.clear(month);
    }
    const here = this.monthAt(Math.max(0, this.top + HEADING));
    grid.dataset.here = here.name;
    this.scrubber.show(here, Math.max(0, this.top) / Math.max(1, this.height - innerHeight));
  }

  drawMonth(month, from, to) {
    if (!month.heading) {
      month.heading = document.createElement("h2");
      month.heading.textContent = month.title;
      month.heading.dataset.month = month.name;
      grid.append(month.heading);
    }
    month.heading.style.transform = `translateY(${month.top - this.base}px)`;
    const rows = month.top + HEADING;
    const first = Math.max(0, Math.floor((from - rows) / this.row)) * this.columns;
    const last = Math.min(month.count, Math.ceil((to - rows) / this.row) * this.columns) - 1;
    const numbers = new Set();
    for (let n = Math.floor(first / STRETCH); n <= Math.floor(last / STRETCH); n += 1) numbers.add(n);
    for (const [number, chunk] of month.chunks) if (!numbers.has(number)) this.drop(chunk);
    for (const number of numbers) this.drawChunk(month, number);
  }

  drawChunk(month, number) {
    let chunk = month.chunks.get(number);
    if (!chunk) {
      chunk = new Chunk(month, number);
      month.chunks.set(number, chunk);
      grid.append(chunk.list);
      chunk.timer = setTimeout(() => this.fill(chunk), FETCH_AFTER_MILLISECONDS);
    }
    const top = month.top + HEADING + Math.floor(chunk.first / this.columns) * this.row - this.base;
    chunk.list.style.transform = `translateY(${top}px)`;
    const cell = chunk.list.firstElementChild;
    if (cell) cell.style.gridColumnStart = (chunk.first % this.columns) + 1;
  }

  async fill(chunk) {
    try {
      const differs = await chunk.fetch();
      if (differs) {
        this.place();
        for (const other of chunk.month.chunks.values()) if (!("filled" in other.list.dataset)) other.blank();
      }
      this.draw();
      this.focusWanted(false);
    } catch (error) {
      if (error.name === "AbortError") return;
      chunk.timer = setTimeout(() => this.fill(chunk), 3000);
    }
  }

  drop(chunk) {
    clearTimeout(chunk.timer);
    chunk.aborter.abort();
    chunk.list.remove();
    chunk.month.chunks.delete(chunk.number);
  }

  clear(month) {
    for (const chunk of [...month.chunks.values()]) this.drop(chunk);
    month.heading.remove();
    month.heading = null;
  }

  // The keyboard

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    // A cell that had the focus may have left the page while the next one is still fetched.
    const ours = grid.contains(event.target) || (this.wanted !== null && event.target === document.body);
    if (!ours) return;
    const rows = Math.max(1, Math.floor(innerHeight / this.row) - 1);
    const at = this.wanted ?? 0;
    const to = {
      ArrowRight: () => at + 1,
      ArrowLeft: () => at - 1,
      ArrowDown: () => this.below(at, 1),
      ArrowUp: () => this.below(at, -1),
      PageDown: () => this.below(at, rows),
      PageUp: () => this.below(at, -rows),
      Home: () => 0,
      End: () => this.total - 1,
    }[event.key];
    if (!to) return;
    event.preventDefault();
    this.wanted = Math.min(Math.max(to(), 0), this.total - 1);
    this.focusWanted(true);
  }

  /** The index so many rows further, in the same column if there is one; months begin on rows of their own. */
  below(index, rows) {
    const month = this.monthOf(index);
    const column = (index - month.start) % this.columns;
    const row = Math.floor((index - month.start) / this.columns) + rows;
    const last = Math.floor((month.count - 1) / this.columns);
    if (row >= 0 && row <= last) return month.start + Math.min(row * this.columns + column, month.count - 1);
    const step = row < 0 ? -1 : 1;
    let place = this.months.indexOf(month) + step;
    while (this.months[place] && !this.months[place].count) place += step;
    const next = this.months[place];
    if (!next) return step < 0 ? 0 : this.total - 1;
    const rowThere = step < 0 ? Math.floor((next.count - 1) / this.columns) : 0;
    return next.start + Math.min(rowThere * this.columns + column, next.count - 1);
  }

  monthOf(index) {
    return this.months.find((month) => index >= month.start && index < month.start + month.count) || this.months[0];
  }

  focusWanted(scroll) {
    if (this.wanted === null || (!scroll && !grid.contains(document.activeElement) && !this.lost)) return;
    const month = this.monthOf(this.wanted);
    const index = this.wanted - month.start;
    const top = month.top + HEADING + Math.floor(index / this.columns) * this.row;
    if (scroll && top - HEADING < this.top) this.jumpNear(top - HEADING);
    else if (scroll && top + this.row > this.top + innerHeight) this.jumpNear(top + this.row - innerHeight + GAP);
    const cell = month.chunks.get(Math.floor(index / STRETCH))?.list.children[index % STRETCH];
    const link = cell?.querySelector("a");
    this.lost = !link;
    if (link && document.activeElement !== link) link.focus({ preventScroll: true });
  }

  jumpNear(place) {
    const slab = Math.min(SLAB, this.height);
    if (place < this.base || place + innerHeight > this.base + slab) return this.jump(place);
    scrollTo({ top: place - this.base + this.offset, behavior: "instant" });
    this.draw();
  }

  noteFocus(event) {
    const cell = event.target.closest(".cell");
    if (!cell) return;
    const list = cell.parentNode;
    const month = this.months.find(({ name }) => name === list.dataset.month);
    const chunk = [...month.chunks.values()].find((each) => each.list === list);
    if (chunk) this.wanted = month.start + chunk.first + [...list.children].indexOf(cell);
  }

  goToHash() {
    const name = location.hash.slice(1);
    const month = this.months.find((each) => each.name <= name);
    if (/^\d{4}-\d{2}$/.test(name) && month) this.jump(month.top);
    else this.draw();
  }
}

if (grid) window.grid = new Grid(JSON.parse(grid.dataset.months));
