// Search through all texts, piece by piece, so that the page stays awake; a newer search ends an older one.

const AROUND = 40; // characters of a text shown before and after what was found

class Search {
  constructor(model, texts) {
    this.model = model;
    this.texts = texts;
    this.turn = 0;
  }

  stop() {
    this.turn++;
  }

  /**
   * Marks the rollouts that hold the words (letter case aside) in response, prompt, answer or id.
   * Returns { matches: Uint8Array, snippets: Map of group to [before, found, after] }, or null when a newer one began.
   */
  async run(words, progress) {
    const turn = ++this.turn;
    const model = this.model;
    const wanted = words.toLowerCase();
    const found = { matches: new Uint8Array(model.size), snippets: new Map() };
    const note = (row, text, at) => {
      found.matches[row] = 1;
      const group = model.group[row];
      if (!found.snippets.has(group)) found.snippets.set(group, snippet(text, at, wanted.length));
    };
    for (let row = 0; row < model.size; row++) {
      for (const text of [model.id[row], model.answer[row] ?? "", model.final_answer[row] ?? ""]) {
        const at = text.toLowerCase().indexOf(wanted);
        if (at >= 0) note(row, text, at);
      }
    }
    const starts = model.text_starts;
    let rested = performance.now();
    for (let piece = 0; piece < starts.length; piece++) {
      const { prompts, prompt, responses } = await this.texts.get(piece);
      if (turn !== this.turn) return null;
      const inPrompt = prompts.map((text) => text.toLowerCase().indexOf(wanted));
      responses.forEach((text, at) => {
        const row = starts[piece] + at;
        const place = text.toLowerCase().indexOf(wanted);
        if (place >= 0) note(row, text, place);
        else if (inPrompt[prompt[at]] >= 0) note(row, prompts[prompt[at]], inPrompt[prompt[at]]);
      });
      if (performance.now() - rested > 30) {
        progress((piece + 1) / starts.length);
        await breath();
        rested = performance.now();
        if (turn !== this.turn) return null;
      }
    }
    return found;
  }
}

function snippet(text, at, length) {
  const clean = (part) => visible(part).replace(/\s+/g, " ");
  const from = Math.max(0, at - AROUND);
  const before = (from > 0 ? "…" : "") + clean(text.slice(from, at));
  return [before, clean(text.slice(at, at + length)), clean(text.slice(at + length, at + length + 2 * AROUND))];
}
