"""The folded tables of a comparison's page: scores, every seed, stability, cost, detection, proxy and gold reward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from geoalign.console.numbers import ends, megabytes, percent, probability, score_writers, short, signed
from geoalign.lab.compare.settings import METRICS, CompareConfig
from geoalign.lab.compare.table import EXPLORATORY, ArmRow, Comparison, LevelTable, Measure
from geoalign.lab.runs.detection import OWN_SCORE, SCORES
from geoalign.lab.runs.logged import APPLIED, OBSERVED
from geoalign.statistics import Interval, PairedDifference, spread
from geoalign.text import DASH, visible

# Roles that a reader needs beside an arm's name.
_ROLES = ("baseline", "primary", "control", "oracle")


@dataclass(frozen=True)
class Entry:
    """A cell of a table: what stands in it, and below that smaller words."""

    text: str
    note: str = ""


@dataclass(frozen=True)
class Sheet:
    """A table of the page: rows begin with the arm; `note` says how to read it."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    note: str = ""


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
    return [shown for sheet in sheets if (shown := _without_empty_columns(sheet)).rows and len(shown.heads) > 1]


def _without_empty_columns(sheet: Sheet) -> Sheet:
    kept = [
        at for at in range(len(sheet.heads)) if at == 0 or any(row[at].text not in ("", DASH) for row in sheet.rows)
    ]
    heads = [sheet.heads[at] for at in kept]
    rows = [[row[at] for at in kept] for row in sheet.rows]
    return Sheet(sheet.title, heads, rows, sheet.note)


# --- cells ------------------------------------------------------------------------------------------------------------


def _arm(row: ArmRow) -> Entry:
    role = row.role if row.role in _ROLES and row.role != row.arm else ""
    return Entry(visible(row.arm, 60), role)


def _of_interval(found: Interval, write: Callable[[float], str] = short) -> Entry:
    return Entry(write(found.estimate), "" if math.isnan(found.low) else ends(found, write))


def _paired(measure: Measure, write: Callable[[float], str] = short) -> Entry:
    """The mean over the seeds of the difference to the baseline; of an arm without any over all that it has."""
    return _of_interval(measure.paired if measure.difference.pairs else measure.interval, write)


def _gain(found: PairedDifference, write: Callable[[float], str]) -> Entry:
    if found.defined or not found.pairs:
        return _of_interval(found.interval, write)
    return Entry(write(found.interval.estimate), f"no interval ({found.pairs} paired)")


def _with_gain(row: ArmRow, measure: Measure, plan: CompareConfig) -> Entry:
    """A mean, and below it how far it lies from the baseline's."""
    mean = measure.paired if measure.difference.pairs else measure.interval
    if row.arm == plan.baseline or not measure.difference.pairs:
        return Entry(short(mean.estimate))
    difference = measure.difference.interval
    interval = "" if math.isnan(difference.low) else f" ({ends(difference, signed)})"
    return Entry(short(mean.estimate), f"{signed(difference.estimate)}{interval}")


def _p(item: Comparison) -> Entry:
    if item.kind == EXPLORATORY:
        return Entry(probability(item.adjusted_p), "exploratory, Holm's p")
    return Entry(probability(item.difference.p), item.kind)


# --- tables -----------------------------------------------------------------------------------------------------------


def _scores(level: LevelTable, plan: CompareConfig) -> Sheet:
    write, write_difference = score_writers(plan.metric)
    rows = []
    for row in level.rows:
        if not row.seeds and not row.failures:
            continue
        item = level.comparison(row.arm, plan.baseline)
        gain = Entry("") if item is None else _gain(item.difference, write_difference)
        p = Entry("") if item is None else _p(item)
        rows.append([_arm(row), _seeds(row), _paired(row.score, write), _spread(row), gain, p])
    heads = [
        "arm",
        "seeds",
        f"final {METRICS[plan.metric]}",
        "sd over seeds",
        f"gain over {visible(plan.baseline, 30)}",
    ]
    note = (
        f"The final score is the mean over the last {plan.last_evaluations} evaluations. Gains are paired by seed. "
        "Primary comparisons were fixed beforehand and show their own p; the others count only after Holm's "
        "correction over the level. Intervals are Student's t at 95%, from three seeds on."
    )
    return Sheet("Scores and gains", [*heads, "p"], rows, note)


def _metric(level: LevelTable, plan: CompareConfig) -> str:
    """What is compared: a reward is called a proxy where the truth behind it is known."""
    gold = any(not math.isnan(row.gold.interval.estimate) for row in level.rows)
    return "proxy reward" if plan.metric == "reward" and gold else METRICS[plan.metric]


def _seeds(row: ArmRow) -> Entry:
    pairs, finished = row.score.difference.pairs, len(row.seeds)
    counted = f"{pairs} of {finished}" if 0 < pairs < finished else str(finished)
    missing = [f"{len(row.failures)} failed"] if row.failures else []
    missing += [f"{len(row.missing)} missing"] if row.missing else []
    return Entry(counted, ", ".join(missing))


def _spread(row: ArmRow) -> Entry:
    values = row.score.paired_values if row.score.difference.pairs else row.score.values
    return Entry(short(spread(list(values.values()))))


def _control(level: LevelTable, plan: CompareConfig) -> Sheet:
    """What GeoAlign's arms have above the control that knows the number of pairs alone."""
    _, write = score_writers(plan.metric)
    rows = []
    for item in level.against(plan.control):
        rows.append([Entry(visible(item.arm, 60)), _gain(item.difference, write), _p(item)])
    heads = ["arm", f"gain over {visible(plan.control or '', 30)}", "p"]
    return Sheet("GeoAlign compared with the number of pairs alone", heads, rows)


def _every_seed(level: LevelTable, plan: CompareConfig) -> Sheet:
    write, _ = score_writers(plan.metric)
    seeds = sorted({seed for row in level.rows for seed in row.score.values})
    if len(seeds) == 1:
        # The scores themselves.
        seeds = []
    rows = []
    for row in level.rows:
        if row.seeds:
            scores = [Entry(write(row.score.values.get(seed, math.nan))) for seed in seeds]
            rows.append([Entry(visible(row.arm, 60)), *scores])
    return Sheet(f"Final {_metric(level, plan)} of every seed", ["arm", *(f"seed {seed}" for seed in seeds)], rows)


def _gold(level: LevelTable, plan: CompareConfig) -> Sheet:
    rows = []
    for row in level.rows:
        if row.curves["gold_utility"].values.size:
            gain = Entry("") if row.arm == plan.baseline else _gain(row.gold.difference, signed)
            cells = [_paired(row.gold), gain, _paired(row.measures["gold_drop"]), _paired(row.measures["reward"])]
            rows.append([_arm(row), *cells])
    heads = ["arm", "gold reward", f"gain over {visible(plan.baseline, 30)}", "its deepest fall", "proxy reward"]
    note = "The gold reward is the true one. A proxy reward that rises while the gold reward falls is reward hacking."
    return Sheet("Gold reward and proxy reward", heads, rows, note)


def _detection(level: LevelTable) -> Sheet:
    rows = []
    for row in level.judged:
        own = control = precision = base_rate = Entry(DASH)
        found = row.detection
        if found is not None:
            for name in (OWN_SCORE, found.control):
                scored = found.row(name)
                if scored is None or math.isnan(scored.auroc.estimate):
                    continue
                area = Entry(short(scored.auroc.estimate), f"average precision {short(scored.auprc.estimate)}")
                if name == OWN_SCORE:
                    own = area
                else:
                    control = Entry(area.text, f"{SCORES[name]}; {area.note}")
            precision = Entry(percent(found.precision.estimate))
            base_rate = Entry(percent(found.base_rate.estimate))
        cosines = [_of_interval(row.measures[name].interval) for name in (OBSERVED, APPLIED)]
        rows.append([_arm(row), own, control, precision, base_rate, *cosines])
    heads = [
        "arm", "AUROC of its score", "AUROC by rewards alone", "wrong among replaced", "wrong among all",
        "advantage cosine before curation", "after curation",
    ]  # fmt: skip
    note = (
        "AUROC says how well a score ranks wrong rewards above the others; 0.5 is chance. For average precision "
        "chance is the share of wrong rewards. Both are means over generations, then over seeds. The control knows "
        "how many pairs a rollout is in, and nothing of its content. The cosine is that of the advantages with those "
        "of the true rewards; 1 is learning from true rewards."
    )
    return Sheet("How well wrong rewards were found", heads, rows, note)


def _stability(level: LevelTable, plan: CompareConfig) -> Sheet:
    rows = []
    for row in level.rows:
        if not row.seeds:
            continue
        names = ("oscillation", "largest_drop", "kl_mean", "clip_mean")
        cells = [_with_gain(row, row.measures[name], plan) for name in names]
        if row.zero_by_construction:
            cells[2:] = [Entry("0", "one update per generation")] * 2
        rows.append([_arm(row), *cells])
    note = (
        f"Below each mean: its difference to {visible(plan.baseline, 30)}, descriptive and not corrected. Oscillation "
        "is the standard deviation of the evaluation curve around the line through each point's neighbours. The "
        "largest drop is the deepest fall below the best evaluation so far. KL and clip fraction are means over "
        "generations."
    )
    heads = ["arm", "oscillation", "largest drop", "KL", "clip fraction"]
    return Sheet("Stability and trust region", heads, rows, note)


def _cost(level: LevelTable) -> Sheet:
    rows = []
    for row in level.rows:
        if not row.seeds:
            continue
        measures = row.measures
        memory = DASH if row.role == "baseline" else megabytes(measures["memory"].difference.interval.estimate)
        share = percent(measures["curation_share"].interval.estimate)
        seconds = Entry(
            short(measures["curation_seconds"].interval.estimate), "" if share == DASH else f"{share} of it"
        )
        cells = [
            seconds,
            Entry(memory),
            _of_interval(measures["replaced"].interval),
            _of_interval(measures["new_group_accuracy"].interval),
        ]
        rows.append([_arm(row), *cells])
    heads = [
        "arm", "seconds added to a step", "peak memory above the baseline", "rows replaced per generation",
        "projector's accuracy on new groups",
    ]  # fmt: skip
    return Sheet("What the curator did and cost", heads, rows)
