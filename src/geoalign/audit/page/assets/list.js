// The list of groups: only what is in sight stands in the page, so that its length does not matter.

const BEYOND = 6; // rows kept ready above and below

class List {
  constructor(box, rows, describe, chosen) {
    Object.assign(this, { box, rows, describe, chosen });
    this.groups = [];
    this.at = -1;
    this.shown = new Map();
    this.height = 64;
    box.addEventListener("scroll", () => this.draw(), { passive: true });
    box.addEventListener("keydown", (event) => this.key(event));
    rows.addEventListener("click", (event) => {
      const row = event.target.closest("[role=option]");
      if (row) this.move(Number(row.dataset.place), true);
    });
    new ResizeObserver(() => this.measure()).observe(box);
  }

  /** Shows these groups; keeps the chosen one where it is still among them. */
  show(groups, keep) {
    this.groups = groups;
    const place = groups.indexOf(keep);
    this.at = groups.length ? Math.max(place, 0) : -1;
    this.measure();
    if (place < 0) this.box.scrollTop = 0;
    else this.reveal();
    this.draw();
    this.chosen(this.groups[this.at] ?? null, false);
  }

  measure() {
    const probe = el("div", { class: "row" });
    this.rows.append(probe);
    this.height = probe.offsetHeight || this.height;
    probe.remove();
    this.rows.style.height = `${this.groups.length * this.height}px`;
    this.draw(true);
  }

  draw(again = false) {
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.height) - BEYOND);
    const last = Math.min(this.groups.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / this.height) + BEYOND);
    for (const [place, node] of this.shown) {
      if (again || place < first || place >= last || node.dataset.group !== String(this.groups[place])) {
        node.remove();
        this.shown.delete(place);
      }
    }
    for (let place = first; place < last; place++) {
      if (!this.shown.has(place)) this.add(place);
      this.shown.get(place).setAttribute("aria-selected", String(place === this.at));
    }
    const active = this.shown.get(this.at);
    if (active) this.box.setAttribute("aria-activedescendant", active.id);
    else this.box.removeAttribute("aria-activedescendant");
  }

  add(place) {
    const group = this.groups[place];
    const node = el("div", {
      class: "row", role: "option", id: `group-${group}`, "data-place": place, "data-group": group,
      "aria-setsize": this.groups.length, "aria-posinset": place + 1,
    });
    this.describe(group, node);
    node.style.transform = `translateY(${place * this.height}px)`;
    this.rows.append(node);
    this.shown.set(place, node);
  }

  move(place, enter = false) {
    if (!this.groups.length) return;
    this.at = Math.min(Math.max(place, 0), this.groups.length - 1);
    this.reveal();
    this.draw();
    this.chosen(this.groups[this.at], enter);
  }

  reveal() {
    const top = this.at * this.height;
    const bottom = top + this.height;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (bottom > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = bottom - this.box.clientHeight;
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.height) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) this.move(this.at + steps[event.key]);
    else if (event.key === "Enter") this.move(this.at, true);
    else return;
    event.preventDefault();
  }
}
