// LaTeX in a model's text, shown as MathML. Temml reads it; what stands in the page is built here from a list of
// elements and attributes, so that no command can link, load, style or hide anything. What it refuses stays source.

const FORMULA = new RegExp(
  [
    String.raw`\$\$([^$]{1,3000}?)\$\$`,
    String.raw`\\\[([^]{1,3000}?)\\\]`,
    String.raw`\\\(([^]{1,1500}?)\\\)`,
    String.raw`(?<![\\$\w])\$(?![\s$])((?:[^$\\\n]|\\[^\n]){1,600}?)(?<!\s)\$(?![\d$])`,
    String.raw`(\\begin\{(align|aligned|equation|gather|multline|[bpvBV]?matrix|cases|array)(\*?)\}[^]{1,3000}?\\end\{\6\7\})`,
  ].join("|"),
  "g",
);
// Definitions can make a short source grow without bound; the others have no place in a formula that is only looked at.
const REFUSED =
  /\\(?:[gex]?def|let|futurelet|(?:re)?newcommand|providecommand|newenvironment|DeclareMathOperator|global|href|url|includegraphics|html\w*|class|cssId|id|style|data|label|tag|ref|char|catcode|mathchoice|toggle|surd\w+)(?![a-zA-Z])/;
const DEEPEST = 40;

const MATH = "http://www.w3.org/1998/Math/MathML";
const ELEMENTS = new Set(
  ("math mrow mi mn mo mtext mspace ms mfrac msqrt mroot mstyle mpadded msub msup msubsup munder mover munderover " +
    "mmultiscripts mprescripts none mtable mtr mtd").split(" "),
);
const WORD = /^(?:[a-z]+(?: [a-z]+)*|[+-]?\d{1,2})$/;
const LENGTH = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:em|ex|px|pt|mu|%)?$/;
const ATTRIBUTES = new Map([
  ...["display", "displaystyle", "scriptlevel", "mathvariant", "stretchy", "fence", "separator", "form", "symmetric"],
  ...["largeop", "movablelimits", "accent", "accentunder", "columnalign", "columnspan", "rowspan", "columnlines"],
].map((name) => [name, WORD]));
for (const name of ["lspace", "rspace", "minsize", "maxsize", "linethickness", "rowspacing", "columnspacing"]) {
  ATTRIBUTES.set(name, LENGTH);
}
const TURNS = /[\u202a-\u202e\u2066-\u2069]/g;
const WIDEST = 12; // em: space that pushes text out of sight is not kept

/** The text in parts: { text } or { tex, display, text }; `text` is what stands in the source. */
function formulaParts(text) {
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(FORMULA)) {
    if (found.index > last) parts.push({ text: text.slice(last, found.index) });
    const tex = found[1] ?? found[2] ?? found[3] ?? found[4] ?? found[5];
    const display = found[3] === undefined && found[4] === undefined;
    parts.push({ text: found[0], tex, display });
    last = found.index + found[0].length;
  }
  if (last < text.length) parts.push({ text: text.slice(last) });
  return parts;
}

const drawn = new Map(); // source -> element or null; formulas repeat within a group

/** A new <math> element for LaTeX, or null where it cannot or must not be shown as a formula. */
function formula(tex, display) {
  const key = (display ? "d" : "i") + tex;
  if (!drawn.has(key)) {
    if (drawn.size > 4000) drawn.clear();
    drawn.set(key, newFormula(tex, display));
  }
  return drawn.get(key)?.cloneNode(true) ?? null;
}

function newFormula(tex, display) {
  if (REFUSED.test(tex) || nesting(tex) > DEEPEST) return null;
  let tree;
  try {
    tree = temml.__renderToMathMLTree(tex, {
      displayMode: display, throwOnError: true, trust: false, maxExpand: 300, maxSize: [WIDEST, WIDEST], wrap: "none",
    });
  } catch (error) {
    return null; // not LaTeX that Temml knows
  }
  const built = element(tree, 0);
  if (!(built instanceof Element) || !built.textContent.trim()) return null;
  if (display) built.setAttribute("display", "block");
  return built;
}

/** How deep braces and environments nest. */
function nesting(tex) {
  let depth = 0;
  let deepest = 0;
  for (const found of tex.matchAll(/\\.|[{}]|\\begin|\\left/g)) {
    if (found[0] === "{" || found[0] === "\\b" || found[0] === "\\l") deepest = Math.max(deepest, ++depth);
    else if (found[0] === "}") depth = Math.max(0, depth - 1);
  }
  return deepest;
}

/** A node of Temml's tree as an element of the page; what is not on the list gives way to its children. */
function element(node, depth) {
  // The source was made visible before; what is invisible here is Temml's own, such as the application of a function.
  if (typeof node.text === "string" && !node.children) return document.createTextNode(node.text.replace(TURNS, ""));
  if (depth > 200) return document.createTextNode("…");
  const children = (node.children ?? []).map((child) => element(child, depth + 1));
  if (!ELEMENTS.has(node.type)) {
    const row = document.createElementNS(MATH, "mrow");
    row.append(...children);
    look(node, row);
    return row;
  }
  const made = document.createElementNS(MATH, node.type);
  for (const [name, value] of Object.entries(node.attributes ?? {})) {
    const rule = ATTRIBUTES.get(name);
    const word = String(value);
    if (rule?.test(word) && !(rule === LENGTH && Math.abs(parseFloat(word)) > WIDEST)) made.setAttribute(name, word);
  }
  if (node.type === "mspace" && LENGTH.test(node.attributes?.width ?? "")) {
    made.setAttribute("width", `${Math.min(Math.max(parseFloat(node.attributes.width), 0), WIDEST)}em`);
  }
  made.append(...children);
  look(node, made);
  return made;
}

/** Lines, frames, strokes and alignment as classes of our own: of Temml's styles only the gaps of cells are taken. */
function look(node, made) {
  const style = node.style ?? {};
  const notation = node.type === "menclose" ? String(node.attributes?.notation ?? "") : "";
  const classes = [
    notation === "top" && "over", notation === "bottom" && "under", /strike/.test(notation) && "strike",
    (style.border || notation === "box") && "box", node.type === "mphantom" && "phantom",
    style.borderTop && "line-top", style.borderBottom && "line-bottom",
    style.borderLeft && "line-left", style.borderRight && "line-right",
    node.classes?.includes("tml-left") && "to-left", node.classes?.includes("tml-right") && "to-right",
  ].filter(Boolean);
  if (classes.length) made.setAttribute("class", classes.join(" "));
  if (node.type !== "mtd") return;
  for (const side of ["paddingLeft", "paddingRight"]) {
    const gap = String(style[side] ?? "");
    if (LENGTH.test(gap) && parseFloat(gap) >= 0 && parseFloat(gap) <= WIDEST) made.style[side] = gap;
  }
}
