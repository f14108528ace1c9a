// The compressed pieces inside the page, opened on demand and kept while there is room.

// Characters of opened pieces that are kept; the least recently used go first.
const ROOM = 60e6;

function bytes(base64) {
  const text = atob(base64);
  const found = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at++) found[at] = text.charCodeAt(at);
  return found;
}

/** The value packed in the element `id`: base64 of deflated JSON. */
async function unpacked(id) {
  const stream = new Blob([bytes(byId(id).textContent)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const text = await new Response(stream).text();
  return { value: JSON.parse(text), size: text.length };
}

class Pieces {
  constructor(prefix) {
    this.prefix = prefix;
    this.open = new Map(); // number -> promise; the order is that of use
    this.sizes = new Map();
  }

  get(number) {
    const known = this.open.get(number);
    if (known) {
      this.open.delete(number);
      this.open.set(number, known);
      return known;
    }
    const opening = unpacked(`${this.prefix}-${number}`).then(({ value, size }) => {
      this.sizes.set(number, size);
      this.forget(number);
      return value;
    });
    this.open.set(number, opening);
    return opening;
  }

  forget(keep) {
    let total = 0;
    for (const size of this.sizes.values()) total += size;
    for (const number of [...this.open.keys()]) {
      if (total <= ROOM) return;
      if (number === keep || !this.sizes.has(number)) continue;
      total -= this.sizes.get(number);
      this.open.delete(number);
      this.sizes.delete(number);
    }
  }
}

/** The last place in the rising `starts` that is at most `value`. */
function pieceOf(starts, value) {
  let low = 0;
  let high = starts.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= value) low = middle;
    else high = middle - 1;
  }
  return low;
}
