"""What may be said of a comparison, in sentences: a win only where the interval excludes zero, a loss as plainly; and
what wrong rewards cost at a level, and how much of that each arm won back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from geoalign.lab.analysis.comparison.table import (
    BOUND,
    EXPLORATORY,
    HEADROOM,
    PRIMARY,
    ArmRow,
    Comparison,
    LevelTable,
    Statement,
)
from geoalign.lab.analysis.detection import Detection
from geoalign.lab.analysis.statistics import (
    MIN_SEEDS,
    Interval,
    PairedDifference,
    paired_difference,
    share_interval,
)
from geoalign.lab.config.compare import CompareConfig
from geoalign.lab.text import ends, estimate, probability, short, signed

SIGNIFICANCE = 0.05


def level_statements(
    level: str, rate: float, comparisons: Sequence[Comparison], rows: Sequence[ArmRow], plan: CompareConfig
) -> list[Statement]:
    """Every sentence about one level: the headroom first, then each curator, then what the detection is worth."""
    headroom = next((item for item in comparisons if item.kind == HEADROOM), None)
    statements = [headroom_statement(level, rate, headroom, plan)]
    decidable = statements[0].verdict == "better"
    control = {item.arm: item for item in comparisons if item.against == plan.control and item.arm != plan.baseline}
    is_geoalign = {row.arm: row.is_geoalign for row in rows}
    started = {row.arm for row in rows if row.seeds}
    for item in comparisons:
        if item.arm not in started and item.kind != PRIMARY:
            continue  # Its seeds are listed as missing or failed.
        if item.kind == BOUND:
            statements.append(bound_statement(item))
        elif item.kind in (PRIMARY, EXPLORATORY):
            geoalign = is_geoalign[item.arm]
            if geoalign and item.against == plan.baseline:
                name = plan.control or "pair_count"
                statements.append(geoalign_statement(item, control.get(item.arm), name, decidable))
            elif not (geoalign and item.against == plan.control):
                statements.append(comparison_statement(item, decidable))
    statements.extend(
        detection_statement(level, row.arm, row.detection)
        for row in rows
        if row.detection is not None and row.is_geoalign
    )
    return statements


def headroom_statement(level: str, rate: float, headroom: Comparison | None, plan: CompareConfig) -> Statement:
    """Whether curators can differ at all at this level; verdict "better" only where the interval lies above zero."""
    nothing = "no verdict on any curator is possible here"
    if headroom is None:
        text = f"The headroom was not measured (no oracle, or no {plan.baseline}, at this level): {nothing}."
        return Statement(level, plan.oracle or "oracle", HEADROOM, "none", text)
    difference = headroom.difference
    words = f"Headroom, {headroom.arm} minus {headroom.against}: {amount(difference)}"
    verdict = "none"
    if rate == 0:
        text = (
            f"No reward is corrupted at this level, so the {headroom.arm} has nothing to replace ({_lower(words)}): "
            f"{nothing}."
        )
    elif not difference.defined:
        text = f"{words}. {_why_undefined(difference)}: {nothing}."
    elif difference.interval.low > 0:
        verdict, text = "better", f"{words}. There is room for a curator to show something."
    elif difference.interval.high < 0:
        worse = f"Even replacing exactly the corrupted rollouts did worse than {headroom.against}"
        verdict, text = "worse", f"{words}. {worse}: {nothing}."
    else:
        verdict, text = "undecided", f"{words}. The interval does not exclude zero: {nothing}."
    return Statement(level, headroom.arm, HEADROOM, verdict, text)


def comparison_statement(item: Comparison, decidable: bool) -> Statement:
    """An arm against another: a finding needs headroom and an interval without zero; if exploratory, Holm's p < .05."""
    verdict = finding(item) if decidable else "none"
    return Statement(item.level, item.arm, item.kind, verdict, _sentence(item, decidable))


def geoalign_statement(
    against_baseline: Comparison, against_control: Comparison | None, control: str, decidable: bool
) -> Statement:
    """GeoAlign against the baseline, never without its paired difference to the pair count.

    Better than the baseline but not than the pair count counts as what it is: no sign that the geometry adds anything.
    Without that comparison nothing is claimed.
    """
    arm, level, kind = against_baseline.arm, against_baseline.level, against_baseline.kind
    first = _sentence(against_baseline, decidable)
    if not decidable:
        second = f" {_sentence(against_control, decidable)}" if against_control else ""
        return Statement(level, arm, kind, "none", first + second)
    if against_control is None or not against_control.difference.defined:
        plain = f"{arm} minus {against_baseline.against}: {amount(against_baseline.difference)}"
        missing = f"its paired difference to {control} is missing"
        if against_control is not None:
            why = _lower(_why_undefined(against_control.difference))
            missing = f"its paired difference to {control} has no interval ({why})"
        return Statement(level, arm, kind, "none", f"{plain}. No claim for {arm}: {missing}.")
    verdict, above = finding(against_baseline), finding(against_control)
    alone = f"So the number of pairs alone ({control})"
    meaning = {
        ("better", "better"): "The geometry adds something beyond the number of pairs.",
        ("better", "undecided"): f"{alone} may explain the gain: no sign that the geometry adds anything.",
        ("better", "worse"): f"{alone} does better still: here the geometry takes away.",
    }.get((verdict, above), "")
    text = " ".join(part for part in (first, _sentence(against_control, decidable), meaning) if part)
    return Statement(level, arm, kind, verdict, text)


def bound_statement(item: Comparison) -> Statement:
    """What the corruption costs at all: the arm without it against the baseline. A bound, no finding on a curator."""
    text = f"Without corruption: {item.arm} minus {item.against}: {amount(item.difference)}."
    return Statement(item.level, item.arm, BOUND, "none", text)


def detection_statement(level: str, arm: str, detection: Detection) -> Statement:
    """Whether the arm's own score ranks corrupted rewards better than the pair count alone."""
    if not detection.control:
        text = f"{arm}: no pair count was recorded, so its score's ranking of corrupted rewards has no control."
        return Statement(level, arm, "detection", "none", text)
    numbers = f"AUROC of its score minus that of {detection.control}: {amount(detection.gain)}"
    if not detection.gain.defined:
        return Statement(level, arm, "detection", "none", f"{arm}: {numbers}. {_why_undefined(detection.gain)}.")
    verdict = "undecided"
    meaning = "its score and the number of pairs alone cannot be told apart in ranking corrupted rewards"
    if detection.gain.excludes_zero:
        verdict = "better" if detection.gain.interval.low > 0 else "worse"
        meaning = f"its score ranks corrupted rewards {verdict} than the number of pairs alone"
    return Statement(level, arm, "detection", verdict, f"{arm}: {meaning} ({numbers}).")


def finding(item: Comparison) -> str:
    """ "better", "worse", "undecided" or "none" (no interval), by the raw interval or, exploratory, by Holm's p."""
    difference = item.difference
    if not difference.defined:
        return "none"
    if not difference.excludes_zero or (item.kind == EXPLORATORY and not item.adjusted_p < SIGNIFICANCE):
        return "undecided"
    return "better" if difference.interval.low > 0 else "worse"


def amount(difference: PairedDifference) -> str:
    """A difference in words: estimate, interval, number of paired seeds."""
    if math.isnan(difference.interval.estimate):
        return "unknown (no seed has both)"
    seeds = "1 paired seed" if difference.pairs == 1 else f"{difference.pairs} paired seeds"
    left = f", {difference.left_out} left out" if difference.left_out else ""
    bounds = f"95% interval {ends(difference.interval, signed)}" if difference.defined else "interval undefined"
    return f"{signed(difference.interval.estimate)} ({bounds}, {seeds}{left})"


def _sentence(item: Comparison, decidable: bool) -> str:
    difference = item.difference
    numbers = f"{item.arm} minus {item.against}: {amount(difference)}"
    mark = "Exploratory: " if item.kind == EXPLORATORY else ""
    if not decidable:
        return f"{mark}{numbers}; without headroom no verdict."
    if not difference.defined:
        return f"{mark}{numbers}. {_why_undefined(difference)}: no verdict."
    tested = f"p = {probability(difference.p)}"
    if item.kind == EXPLORATORY:
        tested = f"Holm-adjusted p = {probability(item.adjusted_p)}"
    verdict = finding(item)
    words = {
        "better": f"{item.arm} scored better than {item.against}",
        "worse": f"{item.arm} scored worse than {item.against}",
        "undecided": f"{item.arm} is not distinguishable from {item.against}",
    }[verdict]
    note = ""
    if verdict == "undecided" and difference.excludes_zero:
        note = " The unadjusted interval excludes zero, which among so many comparisons is no finding."
    return f"{mark}{words}: {amount(difference)}, {tested}.{note}"


def _why_undefined(difference: PairedDifference) -> str:
    if difference.pairs < MIN_SEEDS:
        seeds = {0: "No paired seed", 1: "One paired seed"}.get(difference.pairs, f"{difference.pairs} paired seeds")
        return f"{seeds} give{'s' if difference.pairs < 2 else ''} no interval (at least {MIN_SEEDS} are needed)"
    return "All seeds differ by the same amount, which gives no spread to judge it by"


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


# --- what wrong rewards cost ------------------------------------------------------------------------------------------

# With more arms beside the oracle the headline names the primary ones alone; the figure has all.
_MOST_NAMED = 4


@dataclass(frozen=True)
class Recovered:
    """One arm's gain over the baseline, and what share of the cost that is.

    `share` has Fieller's interval over paired seeds; NaN bounds where it is undefined, as with one seed.
    """

    row: ArmRow
    gain: PairedDifference
    share: Interval


@dataclass(frozen=True)
class Recovery:
    """What wrong rewards, a share `rate` of all, cost the baseline, which believes them, at a level: the final score of
    the `clean` arm without any minus its own, paired by seed; all other arms, the oracle included, best first."""

    rate: float
    baseline: ArmRow
    clean: ArmRow
    cost: PairedDifference
    arms: tuple[Recovered, ...]


def recovery(level: LevelTable, plan: CompareConfig) -> Recovery | None:
    """The cost of wrong rewards at a level and what was recovered of it.

    None where nothing is corrupted, where the level has no arm without corruption, or where that or the baseline has no
    result.
    """
    baseline = level.row(plan.baseline)
    clean = next((row for row in level.rows if row.role == BOUND and row.seeds), None)
    if baseline is None or clean is None or not baseline.seeds or not level.rate > 0:
        return None
    arms = [_recovered(row, baseline, clean) for row in level.rows if row.seeds and row not in (baseline, clean)]
    measured = [arm for arm in arms if not math.isnan(arm.gain.interval.estimate)]
    best_first = tuple(sorted(measured, key=lambda arm: -arm.gain.interval.estimate))
    cost = paired_difference(clean.score.values, baseline.score.values)
    return Recovery(level.rate, baseline, clean, cost, best_first)


def _recovered(row: ArmRow, baseline: ArmRow, clean: ArmRow) -> Recovered:
    mine, theirs, best = row.score.values, baseline.score.values, clean.score.values
    seeds = [seed for seed in mine if not any(math.isnan(of.get(seed, math.nan)) for of in (mine, theirs, best))]
    share = share_interval([mine[seed] - theirs[seed] for seed in seeds], [best[seed] - theirs[seed] for seed in seeds])
    return Recovered(row, paired_difference(mine, theirs), share)


def headline(found: Recovery, plan: CompareConfig) -> str:
    """What wrong rewards cost and what was recovered, in one or two sentences without any verdict."""
    score, cost = found.baseline.score.interval.estimate, found.cost.interval
    first = (
        f"{found.rate:.0%} of the rewards were wrong: {found.baseline.arm} ends at {short(score)} instead of "
        f"{short(found.clean.score.interval.estimate)}"
    )
    if not cost.estimate > 0:
        return f"{first}. That is no loss, so there was nothing to recover."
    if cost.low <= 0:
        return f"{first}. The loss is not distinguishable from zero."
    named = [arm for arm in found.arms if arm.row.arm != plan.oracle]
    primary = [arm for arm in named if arm.row.role == PRIMARY]
    shown = primary + [arm for arm in named if arm not in primary] if len(named) <= _MOST_NAMED else primary
    parts = [f"{arm.row.arm} {_share(arm)}" for arm in shown]
    parts += [f"{arm.row.arm}, which knows the wrong ones, {_share(arm)}" for arm in found.arms if arm not in named]
    return f"{first}. Recovered of that loss: {'; '.join(parts)}." if parts else f"{first}."


def footnote(found: Recovery) -> str:
    """What the shares are of, and how far they can be trusted."""
    shares = f"Shares are of the loss, {found.clean.arm} minus {found.baseline.arm}, by final scores."
    if found.cost.pairs == 1:
        return f"{shares} One seed shows what happens, and proves nothing: other seeds give other numbers."
    if not found.cost.defined:
        return f"{shares} {found.cost.pairs} seeds give no interval."
    return f"{shares} Intervals are Fieller's over {found.cost.pairs} paired seeds, uncorrected."


def _share(arm: Recovered) -> str:
    return estimate(arm.share, "{:.0%}".format)
