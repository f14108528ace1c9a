// Which tokens stand on one side only. Exact for texts of ordinary length; beyond a budget whole blocks count as changed.

const WORK = 6e6; // steps of the search, some tens of milliseconds
const EXACT = 4000; // tokens of both sides up to which a block is searched without splitting it at rare words first
const ISLAND = 2; // so few equal words between two changes read better as changed

/**
 * Marks in `left` and `right` (numbers, equal where the tokens are) what has no partner on the other side.
 * Returns { left, right: Uint8Array, exact: whether the search came to its end }.
 */
function diff(left, right, work = WORK) {
  const marks = { left: new Uint8Array(left.length), right: new Uint8Array(right.length), exact: true };
  const budget = { left: work };
  const blocks = [[0, left.length, 0, right.length]];
  while (blocks.length) {
    let [a0, a1, b0, b1] = blocks.pop();
    while (a0 < a1 && b0 < b1 && left[a0] === right[b0]) a0++, b0++;
    while (a0 < a1 && b0 < b1 && left[a1 - 1] === right[b1 - 1]) a1--, b1--;
    const cuts = a0 === a1 || b0 === b1 ? null : splits(left, a0, a1, right, b0, b1, budget);
    if (cuts) {
      for (let at = 0; at + 1 < cuts.length; at++) {
        blocks.push([cuts[at][0], cuts[at + 1][0], cuts[at][1], cuts[at + 1][1]]);
      }
    } else {
      marks.left.fill(1, a0, a1);
      marks.right.fill(1, b0, b1);
    }
  }
  marks.exact = budget.left >= 0;
  drownIslands(marks);
  return marks;
}

/** Points on a good path through the block, its corners included; null: nothing in common, or the budget is spent. */
function splits(left, a0, a1, right, b0, b1, budget) {
  const corners = (points) => [[a0, b0], ...points, [a1, b1]];
  if (a1 - a0 + b1 - b0 > EXACT) {
    const rare = anchors(left, a0, a1, right, b0, b1);
    if (rare.length) return corners(rare);
  }
  const point = middle(left, a0, a1, right, b0, b1, budget);
  return point && corners([point]);
}

/** Tokens that stand exactly once on either side, as many as keep their order: a longest rising subsequence. */
function anchors(left, a0, a1, right, b0, b1) {
  const seen = new Map();
  for (let at = a0; at < a1; at++) seen.set(left[at], seen.has(left[at]) ? null : [at, -1]);
  for (let at = b0; at < b1; at++) {
    const place = seen.get(right[at]);
    if (place) place[1] = place[1] === -1 ? at : -2;
  }
  const pairs = [...seen.values()].filter((place) => place && place[1] >= 0);
  const tails = [];
  const before = new Array(pairs.length).fill(-1);
  pairs.forEach((pair, number) => {
    let low = 0;
    let high = tails.length;
    while (low < high) {
      const half = (low + high) >> 1;
      if (pairs[tails[half]][1] < pair[1]) low = half + 1;
      else high = half;
    }
    if (low) before[number] = tails[low - 1];
    tails[low] = number;
  });
  const chain = [];
  for (let at = tails.length ? tails[tails.length - 1] : -1; at >= 0; at = before[at]) chain.push(pairs[at]);
  return chain.reverse();
}

/** Myers' middle point, where the searches from both corners meet (E. W. Myers, 1986); null as for `splits`. */
function middle(left, a0, a1, right, b0, b1, budget) {
  const n = a1 - a0;
  const m = b1 - b0;
  const most = Math.ceil((n + m) / 2);
  const offset = most;
  const size = 2 * most + 2;
  const front = new Int32Array(size).fill(-1);
  const back = new Int32Array(size).fill(-1);
  front[offset + 1] = 0;
  back[offset + 1] = 0;
  const delta = n - m;
  const odd = delta % 2 !== 0;
  let frontLow = 0, frontHigh = 0, backLow = 0, backHigh = 0;
  for (let d = 0; d < most; d++) {
    budget.left -= 2 * d + 2;
    if (budget.left < 0) return null;
    for (let k = -d + frontLow; k <= d - frontHigh; k += 2) {
      const at = offset + k;
      let x = k === -d || (k !== d && front[at - 1] < front[at + 1]) ? front[at + 1] : front[at - 1] + 1;
      let y = x - k;
      while (x < n && y < m && left[a0 + x] === right[b0 + y]) x++, y++;
      front[at] = x;
      if (x > n) frontHigh += 2;
      else if (y > m) frontLow += 2;
      else if (odd) {
        const other = offset + delta - k;
        if (other >= 0 && other < size && back[other] !== -1 && x >= n - back[other]) return [a0 + x, b0 + y];
      }
    }
    for (let k = -d + backLow; k <= d - backHigh; k += 2) {
      const at = offset + k;
      let x = k === -d || (k !== d && back[at - 1] < back[at + 1]) ? back[at + 1] : back[at - 1] + 1;
      let y = x - k;
      while (x < n && y < m && left[a1 - x - 1] === right[b1 - y - 1]) x++, y++;
      back[at] = x;
      if (x > n) backHigh += 2;
      else if (y > m) backLow += 2;
      else if (!odd) {
        const other = offset + delta - k;
        if (other >= 0 && other < size && front[other] !== -1) {
          const fx = front[other];
          const fy = offset + fx - other;
          if (fx >= n - x) return [a0 + fx, b0 + fy];
        }
      }
    }
  }
  return null; // nothing in common
}

/** Marks short equal runs that stand between larger changes, on both sides alike. */
function drownIslands({ left, right }) {
  let a = 0;
  let b = 0;
  const runs = []; // [changed tokens before, start left, start right, length]
  while (a < left.length || b < right.length) {
    const before = a + b;
    while (a < left.length && left[a]) a++;
    while (b < right.length && right[b]) b++;
    const changed = a + b - before;
    const start = [a, b];
    while (a < left.length && b < right.length && !left[a] && !right[b]) a++, b++;
    runs.push([changed, start[0], start[1], a - start[0]]);
    if (!changed && a === start[0]) break;
  }
  for (let at = 0; at + 1 < runs.length; at++) {
    const [changed, startLeft, startRight, length] = runs[at];
    if (length && length <= ISLAND && changed > length && runs[at + 1][0] > length) {
      left.fill(1, startLeft, startLeft + length);
      right.fill(1, startRight, startRight + length);
    }
  }
}
