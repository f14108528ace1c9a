// Elements, and words from a model made visible. Text only ever becomes text nodes: no markup is parsed in this page.

const byId = (id) => document.getElementById(id);

/** An element with attributes (`text`: its text; null or false: left out) and children (nodes or strings). */
function el(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "text") node.textContent = value;
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, String(value));
  node.append(...children);
  return node;
}

// Control, format (bidirectional overrides, zero-width), surrogate, private and unassigned characters, odd separators.
const HIDDEN = /(?![\n\t])[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu;
// A few combining marks on a letter are writing; towers of them overflow every box.
const TOWER = /(\p{M}{3})\p{M}+/gu;

/** Text with everything invisible written as its code point, ⟨U+202E⟩. */
function visible(text) {
  return text
    .replace(/\r\n/g, "\n")
    .replace(HIDDEN, (character) => `⟨U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`)
    .replace(TOWER, "$1");
}

const isNumber = (value) => typeof value === "number";

/** A number with about three significant digits; a dash where there is none. */
function short(value) {
  if (!isNumber(value)) return "–";
  if (Number.isInteger(value)) return whole(value);
  if (Math.abs(value) >= 1000) return whole(Math.round(value));
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

const whole = (value) => value.toLocaleString("en").replace("-", "−");

/** A probability that is only estimated, in whole percent. */
const rough = (share) => (share > 0.99 ? "over 99%" : share < 0.01 ? "under 1%" : `${Math.round(100 * share)}%`);

const many = (count, one, more = `${one}s`) => `${whole(count)} ${count === 1 ? one : more}`;

/** Lets the browser draw and take input, then goes on. */
const breath = () => new Promise((resolve) => setTimeout(resolve));
