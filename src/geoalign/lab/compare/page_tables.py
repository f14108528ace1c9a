"""The folded tables of a comparison's page: scores, every seed, stability, cost, detection, proxy and gold reward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from geoalign.console.numbers import ends, megabytes, percent, probability, score_writers, short, signed
from geoalign.lab.compare.settings import METRICS, CompareConfig
from geoalign.lab.compare.table import EXPLORATORY, ArmRow, Comparison, LevelTable, Measure, metric_words
from geoalign.lab.runs.generations import OWN_SCORE, SCORES
from geoalign.lab.runs.numbers import APPLIED, OBSERVED
from geoalign.statistics import Interval, PairedDifference, spread
from geoalign.text import DASH

# Roles that a reader needs beside an arm's name.
_ROLES = ("baseline", "primary", "control", "oracle")


@dataclass(frozen=True)
class Entry:
    """A cell of a table: what stands in it, and below that smaller words."""

    text: str
    note: str = ""


@dataclass(frozen=True)
class Sheet:
    """A table of the page: its rows by column, the first of which names the arm; `note` says how to read it."""

    title: str
    rows: Sequence[dict[str, Entry]]
    note: str = ""

    @property
    def heads(self) -> list[str]:
        """The columns in which some row has a number."""
        columns = list(self.rows[0]) if self.rows else []
        return [head for head in columns if head == "arm" or any(row[head].text not in ("", DASH) for row in self.rows)]


def level_sheets(level: LevelTable, plan: CompareConfig) -> list[Sheet]:
    """The tables of a level, those without any number left out."""
    sheets = [
        _scores(level, plan),
        _control(level, plan),
        _every_seed(level, plan),
        _gold(level, plan),
        _detection(level),
        _stability(level, plan),
        _cost(level),
    ]
    return [sheet for sheet in sheets if len(sheet.heads) > 1]


# --- cells ------------------------------------------------------------------------------------------------------------


def _arm(row: ArmRow) -> Entry:
    role = row.role if row.role in _ROLES and row.role != row.arm else ""
    return Entry(row.arm, role)


def _interval(found: Interval, write: Callable[[float], str] = short) -> Entry:
    return Entry(write(found.estimate), "" if math.isnan(found.low) else ends(found, write))


def _gain(found: PairedDifference, write: Callable[[float], str]) -> Entry:
    if found.defined or not found.pairs:
        return _interval(found.interval, write)
    return Entry(write(found.interval.estimate), f"no interval ({found.pairs} paired)")


def _with_gain(row: ArmRow, measure: Measure, plan: CompareConfig) -> Entry:
    """A mean, and below it how far it lies from the baseline's."""
    mean = short(measure.shown.estimate)
    if row.arm == plan.baseline or not measure.difference.pairs:
        return Entry(mean)
    difference = measure.difference.interval
    interval = "" if math.isnan(difference.low) else f" ({ends(difference, signed)})"
    return Entry(mean, f"{signed(difference.estimate)}{interval}")


def _p(item: Comparison) -> Entry:
    if item.kind == EXPLORATORY:
        return Entry(probability(item.adjusted_p), "exploratory, Holm's p")
    return Entry(probability(item.difference.p), item.kind)


def _seeds(row: ArmRow) -> Entry:
    """How many seeds the numbers of a row are of, and below that how many failed or are missing."""
    pairs = row.score.difference.pairs
    finished = len(row.seeds)
    counted = f"{pairs} of {finished}" if 0 < pairs < finished else str(finished)
    failed = [f"{len(row.failures)} failed"] if row.failures else []
    missing = [f"{len(row.missing)} missing"] if row.missing else []
    return Entry(counted, ", ".join(failed + missing))


# --- tables -----------------------------------------------------------------------------------------------------------


def _scores(level: LevelTable, plan: CompareConfig) -> Sheet:
    """Final scores, their spread over seeds, gains over the baseline and p."""
    write, write_difference = score_writers(plan.metric)
    rows = []
    for row in level.rows:
        if not row.seeds and not row.failures:
            continue
        item = level.comparison(row.arm, plan.baseline)
        values = row.score.paired_values if row.score.difference.pairs else row.score.values
        rows.append(
            {
                "arm": _arm(row),
                "seeds": _seeds(row),
                f"final {METRICS[plan.metric]}": _interval(row.score.shown, write),
                "sd over seeds": Entry(short(spread(list(values.values())))),
                f"gain over {plan.baseline}": _gain(item.difference, write_difference) if item else Entry(""),
                "p": _p(item) if item else Entry(""),
            }
        )
    note = (
        f"The final score is the mean over the last {plan.last_evaluations} evaluations. Gains are paired by seed. "
        "Primary comparisons were fixed beforehand and show their own p; the others count only after Holm's "
        "correction over the level. Intervals are Student's t at 95%, from three seeds on."
    )
    return Sheet("Scores and gains", rows, note)


def _control(level: LevelTable, plan: CompareConfig) -> Sheet:
    """What GeoAlign's arms have above the control that knows the number of pairs alone."""
    _, write = score_writers(plan.metric)
    rows = []
    for item in level.against(plan.control):
        gain = _gain(item.difference, write)
        rows.append({"arm": Entry(item.arm), f"gain over {item.against}": gain, "p": _p(item)})
    return Sheet("GeoAlign compared with the number of pairs alone", rows)


def _every_seed(level: LevelTable, plan: CompareConfig) -> Sheet:
    """The final score of each seed; nothing where there is one seed, for the scores are those."""
    write, _ = score_writers(plan.metric)
    seeds = sorted({seed for row in level.rows for seed in row.score.values})
    if len(seeds) == 1:
        seeds = []
    rows = []
    for row in level.rows:
        if row.seeds:
            scores = {f"seed {seed}": Entry(write(row.score.values.get(seed, math.nan))) for seed in seeds}
            rows.append({"arm": Entry(row.arm), **scores})
    return Sheet(f"Final {metric_words(level, plan)} of every seed", rows)


def _gold(level: LevelTable, plan: CompareConfig) -> Sheet:
    """Gold reward and proxy reward, of the arms whose gold reward is known."""
    rows = []
    for row in level.rows:
        if row.gold.has_values:
            rows.append(
                {
                    "arm": _arm(row),
                    "gold reward": _interval(row.gold.shown),
                    f"gain over {plan.baseline}": (
                        Entry("") if row.arm == plan.baseline else _gain(row.gold.difference, signed)
                    ),
                    "its deepest fall": _interval(row.measures["gold_drop"].shown),
                    "proxy reward": _interval(row.measures["reward"].shown),
                }
            )
    note = "The gold reward is the true one. A proxy reward that rises while the gold reward falls is reward hacking."
    return Sheet("Gold reward and proxy reward", rows, note)


def _detection(level: LevelTable) -> Sheet:
    """How well the arms' scores find wrong rewards, and how close their advantages come to the true ones."""
    rows = []
    for row in level.judged:
        own = control = precision = base_rate = Entry(DASH)
        found = row.detection
        if found is not None:
            scored = found.row(OWN_SCORE)
            if scored is not None:
                own = Entry(short(scored.auroc.estimate), f"average precision {short(scored.auprc.estimate)}")
            counted = found.row(found.control)
            if counted is not None:
                note = f"{SCORES[found.control]}; average precision {short(counted.auprc.estimate)}"
                control = Entry(short(counted.auroc.estimate), note)
            precision = Entry(percent(found.precision.estimate))
            base_rate = Entry(percent(found.base_rate.estimate))
        rows.append(
            {
                "arm": _arm(row),
                "AUROC of its score": own,
                "AUROC by rewards alone": control,
                "wrong among replaced": precision,
                "wrong among all": base_rate,
                "advantage cosine before curation": _interval(row.measures[OBSERVED].interval),
                "after curation": _interval(row.measures[APPLIED].interval),
            }
        )
    note = (
        "AUROC says how well a score ranks wrong rewards above the others; 0.5 is chance. For average precision "
        "chance is the share of wrong rewards. Both are means over generations, then over seeds. The control knows "
        "how many pairs a rollout is in, and nothing of its content. The cosine is that of the advantages with those "
        "of the true rewards; 1 is learning from true rewards."
    )
    return Sheet("How well wrong rewards were found", rows, note)


def _stability(level: LevelTable, plan: CompareConfig) -> Sheet:
    """How much the evaluation curve goes up and down, and how far the policy went from the one that sampled."""
    rows = []
    for row in level.rows:
        if not row.seeds:
            continue
        kl = _with_gain(row, row.measures["kl_mean"], plan)
        clipped = _with_gain(row, row.measures["clip_mean"], plan)
        if row.zero_by_construction:
            kl = clipped = Entry("0", "one update per generation")
        rows.append(
            {
                "arm": _arm(row),
                "oscillation": _with_gain(row, row.measures["oscillation"], plan),
                "largest drop": _with_gain(row, row.measures["largest_drop"], plan),
                "KL": kl,
                "clip fraction": clipped,
            }
        )
    note = (
        f"Below each mean: its difference to {plan.baseline}, descriptive and not corrected. Oscillation "
        "is the standard deviation of the evaluation curve around the line through each point's neighbours. The "
        "largest drop is the deepest fall below the best evaluation so far. KL and clip fraction are means over "
        "generations."
    )
    return Sheet("Stability and trust region", rows, note)


def _cost(level: LevelTable) -> Sheet:
    """What the curator adds to a step and to the peak memory, and what it did."""
    rows = []
    for row in level.rows:
        if not row.seeds:
            continue
        measures = row.measures
        share = percent(measures["curation_share"].interval.estimate)
        seconds = short(measures["curation_seconds"].interval.estimate)
        memory = megabytes(measures["memory"].difference.interval.estimate)
        rows.append(
            {
                "arm": _arm(row),
                "seconds added to a step": Entry(seconds, "" if share == DASH else f"{share} of it"),
                "peak memory above the baseline": Entry(DASH if row.role == "baseline" else memory),
                "rows replaced per generation": _interval(measures["replaced"].interval),
                "projector's accuracy on new groups": _interval(measures["new_group_accuracy"].interval),
            }
        )
    return Sheet("What the curator did and cost", rows)
