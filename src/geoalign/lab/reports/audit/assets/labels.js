// What a reader takes out of the page: the flagged rollouts, and labels of his own, as CSV files for `--labels`.

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
    this.changed = () => {};
  }

  /** Buttons that say whether a rollout is right; none where rewards are no verdicts. */
  buttons(row) {
    if (!this.model.binary) return null;
    const verdicts = [["right", this.model.highest], ["wrong", this.model.lowest]];
    const buttons = verdicts.map(([name, reward]) => {
      const button = el("button", { type: "button", class: "quiet-button label-button", text: name });
      button.addEventListener("click", () => {
        if (this.given.get(row) === reward) this.given.delete(row);
        else this.given.set(row, reward);
        mark();
        this.changed();
      });
      return { button, reward };
    });
    const mark = () => {
      for (const { button, reward } of buttons) button.setAttribute("aria-pressed", String(this.given.get(row) === reward));
    };
    mark();
    return el("p", { class: "labels", role: "group", "aria-label": "Label this response" }, "In truth it is ", ...buttons.map(({ button }) => button));
  }

  /** The facts by which `--labels` finds a rollout, and those that a reader wants beside them. */
  facts(row) {
    const model = this.model;
    const group = model.group[row];
    return [
      model.index[row], model.group_step[group], model.files[model.group_file[group]], model.line[row], model.sample[row], model.id[row],
      model.group_id[group], model.score[row], model.reward[row], model.probability_wrong[row], model.characters[row],
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

  /** The flagged rollouts of the page, highest score of each step first. */
  flagged() {
    const model = this.model;
    const rows = model.index.map((_, row) => row).filter((row) => model.flagged[row]);
    const step = (row) => model.group_step[model.group[row]];
    return rows.sort((a, b) => compare(step(a), step(b)) || compare(descending(model.score[a]), descending(model.score[b])) || a - b);
  }

  /** The buttons above the list. */
  downloads() {
    const flagged = this.flagged();
    const all = el("button", { type: "button", class: "quiet-button", id: "download-flagged", text: `Download flagged.csv (${whole(flagged.length)})` });
    all.addEventListener("click", async () => save("flagged.csv", await this.table(flagged)));
    const own = el("button", { type: "button", class: "quiet-button", id: "download-labels" });
    own.addEventListener("click", async () => save("labels.csv", await this.table([...this.given.keys()].sort((a, b) => a - b))));
    this.changed = () => {
      own.textContent = `Download labels.csv (${whole(this.given.size)})`;
      own.hidden = !this.given.size;
    };
    this.changed();
    return [flagged.length ? all : null, own].filter((button) => button !== null);
  }
}
