// The chosen group: its prompt, its responses, one response beside another, and the pairs behind the score.

const MOST_ANSWERS = 12;
const SINGLE = window.matchMedia("(max-width: 45rem)"); // each response stands by itself, the chosen one's text below all

class Detail {
  constructor(box, model, stores, settings) {
    Object.assign(this, { box, model, stores, settings });
    this.turn = 0;
    this.marks = true;
    this.words = "";
    this.back = () => {};
  }

  clear(message) {
    this.turn++;
    this.group = null;
    this.box.replaceChildren(el("p", { class: "quiet empty", text: message }));
  }

  /** Shows a group with one of its rollouts chosen. */
  show(group, row) {
    const model = this.model;
    this.group = group;
    const rows = [...model.rows[group]].sort((a, b) => compare(descending(model.score[a]), descending(model.score[b])) || a - b);
    this.names = this.naming(model.rows[group]);
    const title = el("h3", { tabindex: -1, id: "detail-title", text: `Group ${model.groups[group]}` });
    const back = el("button", { type: "button", class: "back quiet-button", text: "← All groups" });
    back.addEventListener("click", () => this.back());
    this.prompt = el("div", { class: "text prompt", tabindex: 0, role: "region", "aria-label": "Prompt" });
    this.compared = el("div", { class: "compared" });
    this.pairs = el("div", { class: "pairs" });
    this.box.replaceChildren(
      el("div", { class: "detail-head" }, back, title, el("p", { class: "quiet", text: this.place(group) })),
      ...(this.settings.redacted ? [] : [this.prompt]),
      ...this.clusters(group),
      this.table(rows, row),
      this.compared,
      this.pairs,
    );
    this.box.scrollTop = 0;
    this.choose(row);
  }

  place(group) {
    const model = this.model;
    const facts = model.facts[group];
    const step = model.steps > 1 ? `step ${model.group_step[group]}, ` : "";
    return [
      `${step}${model.files[model.group_file[group]]}, row ${whole(model.row[model.rows[group][0]])}`,
      many(model.rows[group].length, "response"),
      `mean reward ${short(facts.mean)}`,
      facts.flagged ? `${whole(facts.flagged)} flagged` : "none flagged",
      this.settings.compares ? many(model.group_pairs[group], "pair") : null,
    ].filter((fact) => fact !== null).map(visible).join(" · ");
  }

  /** Names of a group's rollouts: their place among the responses where that tells them apart, else their index. */
  naming(rows) {
    const apart = new Set(rows.map((row) => this.model.sample[row])).size === rows.length;
    return (row) => (apart && this.model.group[row] === this.group ? String(this.model.sample[row]) : `#${this.model.index[row]}`);
  }

  table(rows, chosen) {
    const model = this.model;
    const has = (column) => rows.some((row) => column[row] !== null);
    const truth = has(model.true_reward);
    const wrong = has(model.probability_wrong);
    const given = has(model.final_answer);
    const scores = !wrong && has(model.score);
    const flags = rows.some((row) => model.flagged[row]);
    const changed = rows.some((row) => this.outcome(row) !== "kept");
    const heads = [
      "", "response", "reward", wrong && "chance to be wrong", truth && "true reward",
      scores && this.settings.score, flags && "flagged", changed && "in training", has(model.correct) && "marked correct",
      given && "answer", has(model.answer) && "gold answer", "characters",
    ].filter((head) => head !== false);
    const body = el("tbody");
    for (const row of rows) {
      const radio = el("input", { type: "radio", name: "rollout", value: row, "aria-label": this.sentence(row) });
      radio.checked = row === chosen;
      radio.addEventListener("change", () => this.choose(row));
      const line = el("tr", { class: model.flagged[row] ? "flagged" : null },
        el("td", {}, radio), el("th", { scope: "row", text: this.names(row) }), this.bar(model.reward[row], this.rewardShare(row)),
        wrong ? this.probability(row) : null,
        truth ? el("td", { text: short(model.true_reward[row]) }) : null,
        scores ? this.bar(model.score[row], this.scoreShare(row), model.flagged[row] ? "suspect" : "calm") : null,
        flags ? el("td", { class: "outcome", text: model.flagged[row] ? "flagged" : "" }) : null,
        changed ? el("td", { class: "fate", text: this.outcome(row) }) : null,
        has(model.correct) ? el("td", { text: { 1: "yes", 0: "no" }[model.correct[row]] ?? "–" }) : null,
        given ? el("td", {}, this.answer(model.final_answer[row])) : null,
        has(model.answer) ? el("td", {}, this.answer(model.answer[row])) : null,
        el("td", { text: whole(model.characters[row]) + (model.truncated[row] === 1 ? " (cut)" : "") }));
      // A narrow window shows each response by itself, its values beside their names.
      [...line.children].forEach((cell, at) => heads[at] && cell.setAttribute("data-head", heads[at]));
      line.addEventListener("click", (event) => {
        if (event.target !== radio) return radio.click();
        if (SINGLE.matches) this.compared.scrollIntoView();
      });
      body.append(line);
    }
    return el("div", { class: "scroll rollouts", role: "radiogroup", "aria-label": "Responses to this prompt, most suspicious first" },
      el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((head) => el(head ? "th" : "td", { scope: head ? "col" : null, text: head })))), body));
  }

  probability(row) {
    const wrong = this.model.probability_wrong[row];
    const cell = this.bar(wrong, wrong ?? 0, this.model.flagged[row] ? "suspect" : "calm");
    cell.lastChild.textContent = isNumber(wrong) ? rough(wrong) : "–";
    return cell;
  }

  /** The group's answers, each with its verdicts; nothing where no rollout gives an answer. */
  clusters(group) {
    const model = this.model;
    const found = model.clusters(group);
    if (!found.length) return [];
    const denoised = model.rows[group].some((row) => isNumber(model.denoised_reward[row]) && model.denoised_reward[row] !== model.reward[row]);
    const mean = (rows, column) => {
      const known = rows.map((row) => column[row]).filter(isNumber);
      return known.length ? known.reduce((a, b) => a + b, 0) / known.length : null;
    };
    const body = el("tbody");
    for (const [answer, rows] of found.slice(0, MOST_ANSWERS)) {
      const verdicts = [model.highest, model.lowest].map((verdict) => rows.filter((row) => model.reward[row] === verdict).length);
      const cells = model.binary ? verdicts.map(whole) : [short(mean(rows, model.reward))];
      const mixed = answer !== null && model.binary && verdicts.every((count) => count > 0);
      body.append(el("tr", {},
        el("th", { scope: "row" }, answer === null ? "no answer" : this.answer(answer)), el("td", { text: whole(rows.length) }),
        ...cells.map((text) => el("td", { text, class: mixed ? "mixed" : null })),
        denoised ? el("td", { text: short(model.rounded(mean(rows, model.denoised_reward))) }) : null,
        el("td", { class: "mixed", text: !mixed ? "" : rows.some((row) => model.by_spelling[row]) ? "judged by its spelling" : "rewarded and refused" })));
    }
    const heads = ["answer", "responses", ...(model.binary ? ["rewarded", "refused"] : ["mean reward"]), denoised && "corrected reward", ""].filter((head) => head !== false);
    const rest = found.length - MOST_ANSWERS;
    return [el("div", { class: "scroll clusters", tabindex: 0, role: "region", "aria-label": "Answers of this group" },
      el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((head) => el(head ? "th" : "td", { scope: head ? "col" : null, text: head })))), body),
      rest > 0 ? el("p", { class: "quiet", text: `and ${many(rest, "other answer")}` }) : null)];
  }

  answer(text) {
    const clean = visible(text ?? "–");
    return el("bdi", { class: "answer", title: clean }, clean);
  }

  bar(value, share, kind = "") {
    const fill = el("i", { class: kind });
    fill.style.width = `${Math.round(100 * Math.min(Math.max(share, 0), 1))}%`;
    return el("td", { class: "bar-cell" }, el("span", { class: "bar", "aria-hidden": "true" }, fill), el("span", { text: short(value) }));
  }

  rewardShare(row) {
    return this.model.rewardShare(this.model.reward[row]);
  }

  scoreShare(row) {
    return this.model.topScore > 0 ? (this.model.score[row] ?? 0) / this.model.topScore : 0;
  }

  /** What a training would make of a rollout. */
  outcome(row) {
    const model = this.model;
    if (model.reward[row] === null) return "no reward";
    const other = isNumber(model.new_reward[row]) && model.new_reward[row] !== model.reward[row];
    const fates = {
      stays: other ? `reward ${short(model.rounded(model.new_reward[row]))}` : "kept",
      replaced: `replaced by ${model.source[row] >= 0 ? this.names(model.source[row]) : ""}`,
      "left out": "left out",
      gone: "replaced by one outside this page",
    };
    const fate = fates[model.fate(row)];
    if (model.weight[row] === 1) return fate;
    const weight = `weight ${short(model.weight[row])}`;
    return fate === "kept" ? weight : `${fate}, ${weight}`;
  }

  sentence(row) {
    const model = this.model;
    const flagged = model.flagged[row] ? ", flagged" : "";
    const correct = { 1: ", marked correct", 0: ", marked not correct" }[model.correct[row]] ?? "";
    return `Response ${this.names(row)}: ${this.judged(row)}${flagged}${correct}, ${this.outcome(row)}`;
  }

  /** A rollout's reward and how likely it is wrong, or else its score. */
  judged(row) {
    const model = this.model;
    const likely = model.probability_wrong[row];
    const parts = [`reward ${short(model.reward[row])}`];
    if (isNumber(likely)) parts.push(`estimated chance to be wrong ${rough(likely)}`);
    else if (!model.estimates && isNumber(model.score[row])) parts.push(`${this.settings.score} ${short(model.score[row])}`);
    return parts.join(", ");
  }

  /** Puts a rollout on the left and, by default, what would stand in its place on the right. */
  choose(row, beside = undefined) {
    const model = this.model;
    this.row = row;
    this.beside = beside !== undefined ? beside : model.fate(row) === "replaced" ? model.source[row] : null;
    for (const radio of this.box.querySelectorAll("input[name=rollout]")) {
      radio.checked = Number(radio.value) === row;
      radio.closest("tr").classList.toggle("chosen", radio.checked);
    }
    this.chosen?.(row);
    return this.fill().catch((error) => {
      this.compared.replaceChildren(el("p", { class: "quiet", text: `These texts could not be opened: ${error.message}` }));
    });
  }

  /** Puts the chosen texts and pairs in; `all`: however long they are. */
  async fill(all = false) {
    const turn = ++this.turn;
    const wanted = () => turn === this.turn;
    if (this.settings.redacted) {
      this.compared.replaceChildren(el("p", { class: "quiet", text: "The texts were left out of this folder (--redact)." }));
    } else {
      const texts = await Promise.all([this.row, this.beside].map((row) => (row === null ? null : this.text(row))));
      if (!wanted()) return;
      this.compare(texts[0], texts[1], all);
    }
    const pairs = await this.pairsOf(this.group);
    if (wanted()) this.list(pairs);
  }

  async text(row) {
    const starts = this.model.text_starts;
    const number = pieceOf(starts, row);
    const piece = await this.stores.texts.get(number);
    const at = row - starts[number];
    return { prompt: piece.prompts[piece.prompt[at]], response: piece.responses[at] };
  }

  compare(left, right, all) {
    const prompt = prepared(left.prompt, all);
    const texts = [left, right].map((text) => text && prepared(text.response, all));
    const marks = right && this.marks ? marked(texts[0], texts[1]) : null;
    const sides = [this.side(this.row, false)];
    if (right) sides.push(this.side(this.beside, true));
    written(this.prompt, prompt);
    sides.forEach(({ text }, at) => written(text, texts[at], marks ? [marks.left, marks.right][at] : []));
    const rest = Math.max(...[prompt, ...texts].filter(Boolean).map((text) => text.rest));
    this.compared.replaceChildren(
      this.tools(marks),
      el("div", { class: right ? "sides two" : "sides" }, ...sides.map(({ node }) => node)),
      ...(rest ? [this.more(rest)] : []),
    );
    highlight(this.box, this.words);
  }

  more(rest) {
    const button = el("button", { type: "button", class: "quiet-button", text: `Show the other ${whole(rest)} characters` });
    button.addEventListener("click", () => this.fill(true));
    return button;
  }

  side(row, other) {
    const model = this.model;
    const role = !other ? "" : model.source[this.row] === row ? "replaces it in training" : "compared with it";
    const tags = [
      model.flagged[row] ? el("span", { class: "tag", text: "flagged" }) : null,
      model.correct[row] === 1 ? el("span", { class: "tag calm", text: "marked correct" }) : null,
      model.correct[row] === 0 ? el("span", { class: "tag calm", text: "marked not correct" }) : null,
    ];
    const text = el("div", {
      class: other ? "text right" : "text left", tabindex: 0, role: "region", "aria-label": `Response ${this.names(row)}`,
    });
    const facts = `${this.judged(row)}, ${many(model.characters[row], "character")}`;
    const why = model.why[row] === null ? null : el("p", { class: "why", text: `Why flagged: ${visible(model.why[row])}.` });
    const node = el("section", { class: "side" },
      el("h4", {}, `Response ${this.names(row)} `, role ? el("small", { text: role }) : null, ...tags),
      el("p", { class: "quiet", text: facts }), why, text, this.labels.buttons([row]));
    return { node, text };
  }

  tools(marks) {
    const choice = el("select", { id: "beside" }, el("option", { value: "", text: "nothing" }));
    const others = this.model.rows[this.group].filter((row) => row !== this.row);
    const source = this.model.source[this.row];
    if (source >= 0 && source !== this.row && !others.includes(source)) others.unshift(source);
    for (const row of others) {
      const stands = row === source ? ", replaces it in training" : "";
      choice.append(el("option", { value: row, text: `${this.names(row)}: reward ${short(this.model.reward[row])}${stands}` }));
    }
    choice.value = this.beside === null ? "" : String(this.beside);
    choice.addEventListener("change", async () => {
      await this.choose(this.row, choice.value === "" ? null : Number(choice.value));
      byId("beside")?.focus();
    });
    const only = (side, row) => el("mark", { class: side, text: `only in ${this.names(row)}` });
    const legend = marks && el("span", { class: "legend quiet" }, only("left", this.row), " ", only("right", this.beside),
      marks.exact ? null : " (long texts: whole passages may be marked)");
    return el("div", { class: "compare-tools" },
      el("label", {}, "Compare with: ", choice),
      this.toggle(), legend);
  }

  /** Turns the marks of differences on and off. */
  toggle() {
    const box = el("input", { type: "checkbox", id: "show-marks" });
    box.checked = this.marks;
    box.addEventListener("change", async () => {
      this.marks = box.checked;
      await this.fill();
      byId("show-marks")?.focus();
    });
    return el("label", { class: "chip" }, box, " differences");
  }

  /** The saved pairs of a group as [better, worse, deviation, raw cosine, projected cosine]; null where there are none. */
  async pairsOf(group) {
    const starts = this.model.pair_groups;
    if (!starts.length || starts[0] > group) return [];
    const piece = await this.stores.pairs.get(pieceOf(starts, group));
    const found = [];
    for (let at = piece.group.indexOf(group); at >= 0 && piece.group[at] === group; at++) {
      found.push([piece.better[at], piece.worse[at], piece.deviation[at], piece.raw_cosine[at], piece.projected_cosine[at]]);
    }
    return found;
  }

  list(all) {
    const model = this.model;
    const title = el("h4", { text: `Pairs of response ${this.names(this.row)}` });
    const say = (text) => this.pairs.replaceChildren(title, el("p", { class: "quiet", text }));
    if (!this.settings.compares) return this.pairs.replaceChildren();
    if (!model.group_pairs[this.group]) return say("All rewards of this group are equal, so it has no pairs and no scores.");
    if (!all.length) return say("The pairs of this group were not kept; those of groups with a flagged rollout were.");
    const mine = all.filter(([better, worse]) => better === this.row || worse === this.row).sort((a, b) => b[2] - a[2]);
    if (!mine.length) return say("No response of the group has another reward.");
    const body = el("tbody");
    for (const [better, worse, deviation, raw, projected] of mine) {
      const other = better === this.row ? worse : better;
      const button = el("button", { type: "button", class: "link", text: this.names(other), "aria-label": `Compare with response ${this.names(other)}` });
      button.addEventListener("click", () => this.choose(this.row, other));
      body.append(el("tr", { class: model.flagged[other] ? "flagged" : null },
        el("th", { scope: "row" }, button), el("td", { text: better === this.row ? "worse" : "better" }),
        el("td", { text: short(model.reward[better] - model.reward[worse]) }), this.bar(deviation, (deviation ?? 0) / 2, deviation > 1 ? "suspect" : "calm"),
        el("td", { text: short(raw) }), el("td", { text: short(projected) })));
    }
    const heads = ["other", "it is", "by reward", "deviation", "cosine before", "after projection"];
    this.pairs.replaceChildren(title,
      el("p", { class: "quiet", text: "Widest deviation first. 0: the pair points where most pairs point; 2: the opposite way. The score adds up a response's pairs." }),
      el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Pairs of this response" },
        el("table", {}, el("thead", {}, el("tr", {}, ...heads.map((head) => el("th", { scope: "col", text: head })))), body)));
  }
}
