// A text of a model as nodes: what differs from another is marked, and formulas stand as their source in monospace.

const WORDS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{M}\p{N}_]{1,64}|\S/gu;
const FORMULA = new RegExp(
  [
    String.raw`\$\$[^$]{1,3000}?\$\$`,
    String.raw`\\\[[^]{1,3000}?\\\]`,
    String.raw`\\\([^]{1,1500}?\\\)`,
    String.raw`(?<![\\$\w])\$(?![\s$])(?:[^$\\\n]|\\[^\n]){1,600}?(?<!\s)\$(?![\d$])`,
  ].join("|"),
  "g",
);
const SHOWN = 50_000; // characters of a text; a button shows the rest

/** The text in parts: { text, formula }, where `formula` says that the part is a formula, with its delimiters. */
function formulaParts(text) {
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(FORMULA)) {
    if (found.index > last) parts.push({ text: text.slice(last, found.index), formula: false });
    parts.push({ text: found[0], formula: true });
    last = found.index + found[0].length;
  }
  if (last < text.length) parts.push({ text: text.slice(last), formula: false });
  return parts;
}

/** Text made visible, its formulas found, its words as places: what `marked` and `written` work on. */
function prepared(text, all = false) {
  const cut = !all && text.length > SHOWN;
  const clean = visible(cut ? text.slice(0, SHOWN) : text);
  const parts = formulaParts(clean);
  const words = [];
  let at = 0;
  for (const part of parts) {
    if (part.formula) {
      // A formula is one word: it differs as a whole.
      words.push({ key: part.text.replace(/\s+/g, ""), start: at, end: at + part.text.length });
    } else {
      for (const found of part.text.matchAll(WORDS)) {
        words.push({ key: found[0], start: at + found.index, end: at + found.index + found[0].length });
      }
    }
    at += part.text.length;
  }
  return { parts, words, rest: cut ? text.length - SHOWN : 0 };
}

/** Ranges of either text that the other has not: { left, right: arrays of [start, end], exact }. */
function marked(left, right) {
  const numbers = new Map();
  const number = ({ key }) => {
    if (!numbers.has(key)) numbers.set(key, numbers.size);
    return numbers.get(key);
  };
  const marks = diff(Int32Array.from(left.words, number), Int32Array.from(right.words, number));
  return { left: ranges(left.words, marks.left), right: ranges(right.words, marks.right), exact: marks.exact };
}

function ranges(words, marks) {
  const found = [];
  words.forEach((word, at) => {
    if (!marks[at]) return;
    if (at && marks[at - 1]) found[found.length - 1][1] = word.end;
    else found.push([word.start, word.end]);
  });
  return found;
}

/** Fills `box` with the text, with `changed` ranges as marks. */
function written(box, { parts }, changed = []) {
  const whole = document.createDocumentFragment();
  const inMark = (node, inside) => (inside ? el("mark", {}, node) : node);
  let at = 0;
  let next = 0;
  for (const part of parts) {
    const start = at;
    const end = start + part.text.length;
    while (at < end) {
      while (next < changed.length && changed[next][1] <= at) next++;
      const range = changed[next];
      const inside = Boolean(range) && range[0] <= at;
      if (part.formula) {
        whole.append(inMark(el("span", { class: "tex", text: part.text }), inside));
        at = end;
      } else {
        const stop = Math.min(end, range ? (inside ? range[1] : range[0]) : end);
        whole.append(inMark(part.text.slice(at - start, stop - start), inside));
        at = stop;
      }
    }
  }
  box.replaceChildren(whole);
}

/** Highlights what was searched for, where the browser can without touching the nodes. */
function highlight(root, words) {
  if (!window.Highlight || !CSS.highlights) return;
  CSS.highlights.delete("found");
  const wanted = words.toLowerCase();
  if (!wanted) return;
  const found = new Highlight();
  for (const box of root.querySelectorAll(".text")) {
    const walker = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const text = node.data.toLowerCase();
      if (text.length !== node.data.length) continue; // letters whose lower case is longer would shift the places
      for (let at = text.indexOf(wanted); at >= 0 && found.size < 2000; at = text.indexOf(wanted, at + wanted.length)) {
        const range = document.createRange();
        range.setStart(node, at);
        range.setEnd(node, at + wanted.length);
        found.add(range);
      }
    }
  }
  CSS.highlights.set("found", found);
}
