// Rollouts and groups as columns, and which of them pass the filters, in which order.

class Model {
  constructor(columns) {
    Object.assign(this, columns);
    this.size = columns.index.length;
    this.rows = this.groups.map(() => []); // group -> its rollouts, in the order of the input
    this.group.forEach((group, row) => this.rows[group].push(row));
    this.steps = new Set(this.group_step).size;
    this.place = new Map(this.index.map((index, row) => [index, row]));
    this.facts = this.rows.map((rows) => this.summary(rows));
    const rewards = this.reward.filter(isNumber);
    this.lowest = rewards.reduce((a, b) => Math.min(a, b), Infinity);
    this.highest = rewards.reduce((a, b) => Math.max(a, b), -Infinity);
    this.binary = this.lowest < this.highest && rewards.every((reward) => reward === this.lowest || reward === this.highest);
    const verdicts = rewards.every((reward) => reward === 0 || reward === 1);
    this.scale = verdicts ? [0, 1] : [this.lowest, this.highest];
    this.estimates = this.probability_wrong.some(isNumber);
    this.topScore = this.score.reduce((a, b) => (isNumber(b) && b > a ? b : a), 0);
  }

  /** How far up a reward lies on the one scale of the page: 0 to 1 for such verdicts, else the least to the largest. */
  rewardShare(reward) {
    const [low, high] = this.scale;
    if (!isNumber(reward)) return 0;
    return high > low ? (reward - low) / (high - low) : 1;
  }

  /** A reward to a ten-thousandth of what the rewards span: expected ones come near the others without meeting them. */
  rounded(reward) {
    const unit = (this.highest - this.lowest) / 1e4;
    return isNumber(reward) && unit > 0 ? Math.round(reward / unit) * unit : reward;
  }

  /** What the list shows of a group and sorts by; null where nothing is known. */
  summary(rows) {
    const rewards = rows.map((row) => this.reward[row]).filter(isNumber);
    const wrong = rows.map((row) => this.probability_wrong[row]).filter(isNumber);
    const scores = rows.map((row) => this.score[row]).filter(isNumber);
    return {
      flagged: rows.reduce((sum, row) => sum + this.flagged[row], 0),
      mean: rewards.length ? rewards.reduce((a, b) => a + b, 0) / rewards.length : null,
      spread: rewards.length ? Math.max(...rewards) - Math.min(...rewards) : null,
      wrong: wrong.length ? Math.max(...wrong) : null,
      score: scores.length ? Math.max(...scores) : null,
      length: Math.max(...rows.map((row) => this.characters[row])),
    };
  }

  /** What became of a rollout: "stays", "replaced", "left out", "gone" (by one that is not in this page). */
  fate(row) {
    const source = this.source[row];
    if (source === row) return "stays";
    return source === -1 ? "left out" : source === -2 ? "gone" : "replaced";
  }

  /** Filters rollouts and sorts the groups that have one left: { groups, passes: Uint8Array, rollouts }. */
  select(filters, matches) {
    const passes = new Uint8Array(this.size);
    const found = [];
    let rollouts = 0;
    this.rows.forEach((rows, group) => {
      if (filters.step !== null && this.group_step[group] !== filters.step) return;
      let any = false;
      for (const row of rows) {
        if (matches && !matches[row]) continue;
        if (!this.passes(row, filters)) continue;
        passes[row] = 1;
        rollouts++;
        any = true;
      }
      if (any) found.push(group);
    });
    return { groups: this.sorted(found, filters.sort), passes, rollouts };
  }

  passes(row, filters) {
    if (filters.flagged && !this.flagged[row]) return false;
    if (filters.correct && this.correct[row] !== 1) return false;
    return within(this.reward[row], filters.reward) && within(this.characters[row], filters.length);
  }

  sorted(groups, order) {
    const keys = {
      wrong: (group) => descending(this.facts[group].wrong),
      score: (group) => descending(this.facts[group].score),
      flagged: (group) => descending(this.facts[group].flagged),
      spread: (group) => descending(this.facts[group].spread),
      high: (group) => descending(this.facts[group].mean),
      low: (group) => this.facts[group].mean ?? Infinity,
      length: (group) => descending(this.facts[group].length),
      order: (group) => group,
    };
    const key = keys[order] ?? keys.order;
    const known = new Map(groups.map((group) => [group, key(group)]));
    return groups.sort((a, b) => compare(known.get(a), known.get(b)) || a - b);
  }

  /** The answers given in a group with their rollouts, most frequent first; empty where no rollout gives one. */
  clusters(group) {
    const found = new Map();
    for (const row of this.rows[group]) {
      const answer = this.compared_answer[row];
      if (!found.has(answer)) found.set(answer, []);
      found.get(answer).push(row);
    }
    if (found.size === 1 && found.has(null)) return [];
    return [...found].sort((a, b) => (a[0] === null) - (b[0] === null) || b[1].length - a[1].length);
  }

  /** The rollout to look at first: flagged before others, then the highest score, of those that pass. */
  suspect(group, passes) {
    const worth = (row) => (this.flagged[row] ? 1e9 : 0) + (this.score[row] ?? -1);
    const rows = this.rows[group];
    const chosen = rows.filter((row) => passes[row]);
    return (chosen.length ? chosen : rows).reduce((best, row) => (worth(row) > worth(best) ? row : best));
  }
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
// What is unknown comes last.
const descending = (value) => (isNumber(value) ? -value : Infinity);

/** Whether a value lies in [low, high]; an end that is null is open, an unknown value lies in no closed range. */
function within(value, [low, high]) {
  if (low === null && high === null) return true;
  return isNumber(value) && (low === null || value >= low) && (high === null || value <= high);
}
