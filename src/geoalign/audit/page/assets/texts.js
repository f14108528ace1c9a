// A text of a model as nodes: what differs from another is marked, formulas are drawn a few at a time.

const WORDS = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]|[\p{L}\p{M}\p{N}_]{1,64}|\S/gu;
const AT_ONCE = 12; // milliseconds of formulas before the browser may draw
const SHOWN = 50_000; // characters of a text; a button shows the rest

/** Text made visible, its formulas found, its words as places: what `marked` and `written` work on. */
function prepared(text, { formulas, all = false }) {
  const cut = !all && text.length > SHOWN;
  const clean = visible(cut ? text.slice(0, SHOWN) : text);
  const parts = formulas ? formulaParts(clean) : [{ text: clean }];
  const words = [];
  let at = 0;
  for (const part of parts) {
    if (part.tex === undefined) {
      for (const found of part.text.matchAll(WORDS)) {
        words.push({ key: found[0], start: at + found.index, end: at + found.index + found[0].length });
      }
    } else {
      words.push({ key: `$${part.tex.replace(/\s+/g, "")}`, start: at, end: at + part.text.length });
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

/** Fills `box` with the text, `changed` ranges as marks; returns the formulas to be drawn. */
function written(box, { parts }, changed = []) {
  const formulas = [];
  const whole = document.createDocumentFragment();
  let at = 0;
  let next = 0;
  const inMark = (text, made) => (made ? el("mark", {}, text) : text);
  for (const part of parts) {
    const end = at + part.text.length;
    while (at < end) {
      while (next < changed.length && changed[next][1] <= at) next++;
      const range = changed[next];
      const inside = Boolean(range) && range[0] <= at;
      if (part.tex !== undefined) {
        const node = el("span", { class: part.display ? "tex display" : "tex", text: part.text });
        formulas.push({ node, tex: part.tex, display: part.display });
        whole.append(inMark(node, inside));
        at = end;
      } else {
        const stop = Math.min(end, range ? (inside ? range[1] : range[0]) : end);
        const offset = at - (end - part.text.length);
        whole.append(inMark(part.text.slice(offset, offset + stop - at), inside));
        at = stop;
      }
    }
  }
  box.replaceChildren(whole);
  for (const { node, display } of formulas) if (display) closeUp(node);
  return formulas;
}

/** A formula that stands by itself begins and ends a line already: the line feeds around it would double the gap. */
function closeUp(node) {
  const outer = node.parentNode.localName === "mark" ? node.parentNode : node;
  trim(outer.previousSibling, "lastChild", withoutEnd);
  trim(outer.nextSibling, "firstChild", (text) => text.replace(/^\s*\n/, ""));
}

/** Without /[ \t]*\n\s*$/, which as a pattern would take time that grows with the square of the line feeds. */
function withoutEnd(text) {
  const kept = text.trimEnd().length;
  const feed = text.indexOf("\n", kept);
  let end = feed < 0 ? text.length : feed;
  while (feed >= 0 && end > kept && " \t".includes(text[end - 1])) end--;
  return text.slice(0, end);
}

/** Takes the gap off a text, or off the text at that end of a mark, which goes if nothing is left of it. */
function trim(neighbour, end, without) {
  const text = neighbour?.localName === "mark" ? neighbour[end] : neighbour;
  if (text?.nodeType !== Node.TEXT_NODE) return;
  text.data = without(text.data);
  if (neighbour !== text && !neighbour.textContent) neighbour.remove();
}

/** Draws formulas while `wanted()`; what cannot be drawn stays as it is written. */
async function drawFormulas(formulas, wanted) {
  let since = performance.now();
  for (const { node, tex, display } of formulas) {
    const made = formula(tex, display);
    if (made) node.replaceChildren(made);
    else node.classList.add("source");
    if (performance.now() - since > AT_ONCE) {
      await breath();
      if (!wanted()) return;
      since = performance.now();
    }
  }
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
