// The flagged rewards prompt by prompt: what was answered, what it was rewarded, why that looks wrong, is it right.

const CARDS = 6; // prompts that are added at a time

class Cards {
  constructor(model, texts, labels, settings, open) {
    Object.assign(this, { model, texts, labels, settings, open });
    this.box = byId("cards");
    this.turn = 0;
    byId("more-cards").firstElementChild.addEventListener("click", () => this.add(this.turn));
  }

  /** Shows the flagged rollouts that pass, the prompt with the most suspicious one first. */
  show(passes) {
    const model = this.model;
    const bySuspicion = (a, b) => model.suspicion[a] - model.suspicion[b];
    this.waiting = model.rows
      .map((rows) => rows.filter((row) => model.flagged[row] && passes[row]).sort(bySuspicion))
      .filter((rows) => rows.length)
      .sort((one, other) => bySuspicion(one[0], other[0]));
    this.prompts = this.waiting.length;
    this.rewards = this.waiting.reduce((sum, rows) => sum + rows.length, 0);
    this.turn++;
    this.box.replaceChildren();
    if (!this.prompts) this.box.append(el("p", { class: "quiet empty", text: "No flagged reward passes these filters." }));
    return this.add(this.turn);
  }

  async add(turn) {
    const next = this.waiting.splice(0, CARDS);
    this.tell();
    for (const rows of next) {
      const texts = this.settings.redacted ? [] : await Promise.all(rows.map((row) => this.texts(row)));
      if (turn !== this.turn) return;
      this.box.append(this.card(rows, texts));
    }
  }

  tell() {
    const left = this.waiting.length;
    byId("more-cards").hidden = !left;
    byId("more-cards").firstElementChild.textContent = `Show more (${many(left, "group")} left)`;
  }

  card(rows, texts) {
    const model = this.model;
    const group = model.group[rows[0]];
    const size = model.rows[group].length;
    const gold = model.answer[rows[0]];
    const prompt = texts.length ? this.text(this.opened(texts[0].prompt), "text prompt", "Prompt") : null;
    const all = el("button", { type: "button", class: "link", text: `See all ${many(size, "response")} to this prompt` });
    all.addEventListener("click", () => this.open(rows[0]));
    const facts = [
      model.steps > 1 ? `step ${model.group_step[group]} · ` : "",
      `${whole(rows.length)} of ${many(size, "response")} flagged`,
    ].join("");
    return el("article", { class: "card", "data-group": group },
      prompt,
      el("p", { class: "card-facts quiet" }, facts, gold === null ? null : el("span", {}, " · gold answer ", el("bdi", { text: visible(gold) })), " ", all),
      ...this.together(rows, texts).map(({ same, response }) => this.flag(same, response)));
  }

  /** A prompt from where it differs from others, if it does so after a long beginning. */
  opened(prompt) {
    const rest = prompt.slice(this.settings.common);
    return this.settings.common && rest.trim() ? `…${rest}` : prompt;
  }

  /** Rollouts of a group with the same response and reward, as one: [{ same: rows, response }]. */
  together(rows, texts) {
    if (!texts.length) return rows.map((row) => ({ same: [row] }));
    const found = new Map();
    rows.forEach((row, at) => {
      const key = JSON.stringify([texts[at].response, this.model.reward[row]]);
      if (!found.has(key)) found.set(key, { same: [], response: texts[at].response });
      found.get(key).same.push(row);
    });
    return [...found.values()];
  }

  flag(rows, response) {
    const model = this.model;
    const [row] = rows;
    const answer = model.final_answer[row];
    const likely = model.probability_wrong[row];
    const lines = [...new Set(rows.map((one) => model.line[one]))].map(whole);
    const place = `${lines.length === 1 ? "line" : "lines"} ${lines.join(", ")}`;
    return el("section", { class: "flag", "data-index": model.index[row] },
      el("p", { class: "flag-facts" }, el("b", { text: `reward ${short(model.reward[row])}` }),
        answer === null ? null : el("span", {}, " answer ", el("bdi", { text: visible(answer) }), ...this.besideGold(row)),
        rows.length > 1 ? el("span", { text: ` ${whole(rows.length)} times` }) : null,
        el("span", { class: "quiet", text: ` ${place}` })),
      response === undefined ? null : this.text(response, "text", `Response, ${place}`),
      el("div", { class: "flag-end" },
        el("p", { class: "why" }, `Why flagged: ${visible(model.why[row] ?? "")}. `,
          isNumber(likely) && !model.checked[row] ? el("span", { class: "quiet", text: `Estimated chance to be wrong: ${rough(likely)}.` }) : null),
        this.labels.buttons(rows)));
  }

  /** How a flagged answer stands to the gold answer; nothing where that is not known. */
  besideGold(row) {
    const same = this.model.is_gold[row];
    if (same === null) return [];
    const said = same ? "is the gold answer" : `differs from gold answer ${visible(this.model.answer[row])}`;
    return [" ", el("bdi", { class: "quiet", text: said })];
  }

  text(words, kind, name) {
    const box = el("div", { class: kind, tabindex: 0, role: "region", "aria-label": name });
    const ready = prepared(words);
    written(box, ready);
    if (ready.rest) box.append(el("span", { class: "quiet", text: ` … ${many(ready.rest, "more character")}` }));
    return box;
  }
}
