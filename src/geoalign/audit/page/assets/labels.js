// Whether rewards are right, as a reader says: kept while the tab is open, and saved as a CSV file for `--labels`.

const CELL = 32_000; // a cell of a spreadsheet holds little more
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;
// What a spreadsheet takes for the beginning of a formula.
const RISKY = /^\s*[=+\-@＝＋－＠]|^[\t\n]/;

/** A text as `geoalign audit` writes it into flagged.csv, so that `--labels` knows it again. */
function safeText(text) {
  const characters = text.length > CELL ? [...text] : null;
  const cut = characters && characters.length > CELL
    ? `${characters.slice(0, CELL).join("")} ... (${characters.length.toLocaleString("en")} characters)` : text;
  const clean = cut.replace(/\r\n?/g, "\n").replace(CONTROLS, "\ufffd");
  return RISKY.test(clean) ? `'${clean}` : clean;
}

/** A CSV file of rows of cells: with a byte-order mark, by which spreadsheets know UTF-8. */
function csv(names, rows) {
  const cell = (value) => {
    const text = value === null || value === undefined ? "" : typeof value === "string" ? safeText(value) : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  return `\ufeff${[names, ...rows].map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

/** Saves a text under a name; nothing leaves the reader's computer. */
function save(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

class Labels {
  constructor(model, text, settings) {
    Object.assign(this, { model, text, settings });
    this.given = new Map(); // row -> its true reward
    this.saved = this.written(); // what the file of labels holds, if it was saved
    this.asks = (event) => event.preventDefault(); // by which a browser asks before it closes the tab
    this.choices = new WeakMap(); // button -> the rollouts that it labels, and their true reward
    this.changed = () => {};
    this.recall();
  }

  /** The two buttons of rollouts with the same response and reward; none where a reward is no verdict. */
  buttons(rows) {
    const reward = this.model.reward[rows[0]];
    if (!this.settings.verdicts || reward === null) return null;
    const other = this.settings.verdicts.find((verdict) => verdict !== reward);
    const choices = [["reward is right", reward], ["reward is wrong", other]].map(([name, truth]) => {
      const button = el("button", { type: "button", class: "quiet-button label-button", text: name, title: `true reward ${short(truth)}` });
      this.choices.set(button, { rows, truth });
      button.addEventListener("click", () => this.give(rows, truth));
      this.mark(button);
      return button;
    });
    const name = `Is the reward of ${this.model.id[rows[0]]} right?`;
    return el("p", { class: "labels", role: "group", "aria-label": name }, ...choices);
  }

  has(rows, truth) {
    return rows.every((row) => this.given.get(row) === truth);
  }

  /** Labels rollouts; the same label again takes it back. */
  give(rows, truth) {
    const back = this.has(rows, truth);
    for (const row of rows) {
      if (back) this.given.delete(row);
      else this.given.set(row, truth);
    }
    document.querySelectorAll(".label-button").forEach((button) => this.mark(button));
    this.remember();
    this.tell();
    this.changed();
  }

  mark(button) {
    const { rows, truth } = this.choices.get(button);
    button.setAttribute("aria-pressed", String(this.has(rows, truth)));
  }

  /** Labels outlive a reload of the page, not its tab; some browsers keep nothing for files. */
  remember() {
    try {
      sessionStorage.setItem(this.place, this.written());
      sessionStorage.setItem(`${this.place}-saved`, this.saved);
    } catch (error) {
      // They last as long as the page is open.
    }
  }

  recall() {
    try {
      const kept = JSON.parse(sessionStorage.getItem(this.place) ?? "[]");
      this.given = new Map(kept.filter(([row]) => row in this.model.reward));
      this.saved = sessionStorage.getItem(`${this.place}-saved`) ?? this.saved;
    } catch (error) {
      this.given = new Map();
    }
  }

  /** The labels as one text, whatever the order in which they were given. */
  written() {
    return JSON.stringify([...this.given].sort(([one], [other]) => one - other));
  }

  /** Lets the browser ask before the tab is closed while labels are given that were not saved. */
  guard() {
    window.removeEventListener("beforeunload", this.asks);
    if (this.given.size && this.written() !== this.saved) window.addEventListener("beforeunload", this.asks);
  }

  get place() {
    return `geoalign-labels-${this.settings.key}`;
  }

  /** The facts by which `--labels` finds a rollout, and those that a reader wants beside them. */
  facts(row) {
    const model = this.model;
    const group = model.group[row];
    return [
      model.index[row], model.group_step[group], model.files[model.group_file[group]], model.line[row], model.sample[row], model.id[row],
      model.groups[group], model.score[row], model.reward[row], model.probability_wrong[row], model.characters[row],
      model.answer[row], model.final_answer[row],
    ];
  }

  async table(rows) {
    const names = [
      "index", "step", "file", "line", "sample", "id", "group", "score", "reward", "probability_wrong", "characters", "answer", "final_answer",
    ];
    const texts = this.settings.redacted ? [] : ["prompt", "response"];
    const lines = [];
    for (const row of rows) {
      const found = texts.length ? await this.text(row) : {};
      lines.push([...this.facts(row), ...texts.map((name) => found[name]), this.given.get(row) ?? null, null]);
    }
    return csv([...names, ...texts, "label", "note"], lines);
  }

  /** The flagged rollouts of the page, the most suspicious first. */
  flagged() {
    const model = this.model;
    const rows = model.index.map((_, row) => row).filter((row) => model.flagged[row]);
    return rows.sort((a, b) => model.suspicion[a] - model.suspicion[b]);
  }

  /** Fills in the counter and the downloads above the rows. */
  start() {
    if (!byId("views")) return;
    const flagged = this.flagged();
    const own = el("button", { type: "button", class: "main-button", id: "download-labels" });
    own.addEventListener("click", async () => {
      const given = this.written();
      save(this.settings.labels_file, await this.table([...this.given.keys()].sort((a, b) => a - b)));
      this.saved = given;
      this.remember();
      this.guard();
    });
    byId("labelling")?.append(own);
    const all = el("button", { type: "button", class: "link", id: "download-flagged", text: `Save all ${whole(flagged.length)} flagged rows as flagged.csv` });
    all.addEventListener("click", async () => save("flagged.csv", await this.table(flagged)));
    byId("downloads").append(all);
    for (const id of ["labelling", "label-command", "downloads"]) byId(id)?.removeAttribute("hidden");
    this.tell();
  }

  tell() {
    this.guard();
    const box = byId("labelled");
    if (!box) return;
    const flagged = this.flagged();
    const done = flagged.filter((row) => this.given.has(row)).length;
    const others = this.given.size - done;
    const more = others ? `, and ${many(others, "other reward")}` : "";
    box.textContent = this.given.size
      ? `You have labelled ${whole(done)} of ${many(flagged.length, "flagged reward")}${more}. Labels are kept until this tab is closed.`
      : "Say of each reward whether it is right. Then save your labels and audit again with them.";
    const button = byId("download-labels");
    button.textContent = `Save ${this.settings.labels_file} (${whole(this.given.size)})`;
    button.disabled = !this.given.size;
  }
}
