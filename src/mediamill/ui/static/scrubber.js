// The years beside the grid: shows where the reader is, and takes them anywhere by a drag or the keyboard.

export class Scrubber {
  /** `jump` is given how far down, between 0 and 1. */
  constructor(grid, months, jump) {
    this.months = months;
    this.jump = jump;
    this.rail = document.createElement("div");
    this.rail.className = "scrubber";
    for (const [name, value] of Object.entries({
      role: "slider", tabindex: "0", "aria-orientation": "vertical", "aria-label": "Month",
      "aria-valuemin": "0", "aria-valuemax": String(Math.max(0, months.length - 1)),
    })) this.rail.setAttribute(name, value);
    this.years = document.createElement("div");
    this.thumb = document.createElement("span");
    this.thumb.className = "thumb-mark";
    this.said = document.createElement("span");
    this.said.className = "said";
    this.thumb.append(this.said);
    this.rail.append(this.years, this.thumb);
    grid.after(this.rail);
    this.listen();
  }

  listen() {
    const drag = (event) => {
      const box = this.rail.getBoundingClientRect();
      this.jump(Math.min(1, Math.max(0, (event.clientY - box.top) / box.height)));
    };
    this.rail.addEventListener("pointerdown", (event) => {
      this.rail.setPointerCapture(event.pointerId);
      this.rail.classList.add("dragged");
      drag(event);
      event.preventDefault();
    });
    this.rail.addEventListener("pointermove", (event) => this.rail.classList.contains("dragged") && drag(event));
    for (const end of ["pointerup", "pointercancel"])
      this.rail.addEventListener(end, () => this.rail.classList.remove("dragged"));
    this.rail.addEventListener("keydown", (event) => this.press(event));
  }

  press(event) {
    const last = this.months.length - 1;
    const to = {
      ArrowDown: this.at + 1, ArrowRight: this.at + 1, ArrowUp: this.at - 1, ArrowLeft: this.at - 1,
      PageDown: this.at + 12, PageUp: this.at - 12, Home: 0, End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const month = this.months[Math.min(last, Math.max(0, to))];
    this.jump(month.top / Math.max(1, this.height - innerHeight));
  }

  /** Years where they are, but never so many that they touch. */
  layOut(height) {
    this.height = height;
    this.rail.hidden = height < 2 * innerHeight;
    const most = Math.max(2, Math.floor(this.rail.clientHeight / 26));
    const marks = [];
    let lastPlace = -1;
    let lastYear = "";
    for (const month of this.months) {
      const year = month.name.slice(0, 4);
      const place = month.top / height;
      if (year === lastYear || !month.count) continue;
      lastYear = year;
      if (lastPlace >= 0 && place - lastPlace < 1 / most) continue;
      lastPlace = place;
      const mark = document.createElement("span");
      mark.className = "year";
      mark.textContent = year;
      mark.style.top = `${100 * place}%`;
      marks.push(mark);
    }
    this.years.replaceChildren(...marks);
  }

  show(month, share) {
    this.at = this.months.indexOf(month);
    this.thumb.style.top = `${100 * Math.min(1, Math.max(0, share))}%`;
    if (this.said.textContent === month.title) return;
    this.said.textContent = month.title;
    this.rail.setAttribute("aria-valuenow", String(this.at));
    this.rail.setAttribute("aria-valuetext", month.title);
  }
}
