"""What may be said of a comparison, in sentences: a win only where the interval excludes zero, a loss as plainly; and
what wrong rewards cost at a level, and how much of that each arm won back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from geoalign.lab.analysis.comparison.table import (
    BOUND,
    EXPLORATORY,
    HEADROOM,
    PRIMARY,
    ArmRow,
    Comparison,
    LevelTable,
    Recovered,
    Recovery,
    Statement,
)
from geoalign.lab.analysis.detection import Detection
from geoalign.lab.analysis.statistics import MIN_SEEDS, PairedDifference, paired_difference, share_interval
from geoalign.lab.config.compare import CompareConfig
from geoalign.lab.numbers import ends, estimate, probability, short, signed

SIGNIFICANCE = 0.05


def level_statements(
    rate: float, comparisons: Sequence[Comparison], rows: Sequence[ArmRow], plan: CompareConfig
) -> list[Statement]:
    """Every sentence about one level: the headroom first, then each curator, then what the detection is worth."""
    headroom = next((item for item in comparisons if item.kind == HEADROOM), None)
    statements = [headroom_statement(rate, headroom, plan)]
    decidable = statements[0].verdict == "better"
    control = {item.arm: item for item in comparisons if item.against == plan.control and item.arm != plan.baseline}
    arms = {row.arm: row for row in rows}
    for item in comparisons:
        geoalign = arms[item.arm].is_geoalign
        if item.kind == HEADROOM or (not arms[item.arm].seeds and item.kind != PRIMARY):
            continue  # The latter's seeds are listed as missing or failed.
        if item.kind == BOUND:
            # What the corruption costs at all: no finding on a curator.
            text = f"Without corruption: {item.arm} minus {item.against}: {amount(item.difference)}."
            statements.append(Statement(item.arm, BOUND, "none", text))
        elif geoalign and item.against == plan.baseline:
            statements.append(geoalign_statement(item, control.get(item.arm), plan.control or "pair_count", decidable))
        elif not (geoalign and item.against == plan.control):
            statements.append(comparison_statement(item, decidable))
    judged = [(row.arm, row.detection) for row in rows if row.detection is not None and row.is_geoalign]
    return [*statements, *(detection_statement(arm, found) for arm, found in judged)]


def headroom_statement(rate: float, headroom: Comparison | None, plan: CompareConfig) -> Statement:
    """Whether curators can differ at all at this level; verdict "better" only where the interval lies above zero."""
    nothing = "no verdict on any curator is possible here"
    if headroom is None:
        text = f"The headroom was not measured (no oracle, or no {plan.baseline}, at this level): {nothing}."
        return Statement(plan.oracle or "oracle", HEADROOM, "none", text)
    difference, arm = headroom.difference, headroom.arm
    words = f"Headroom, {arm} minus {headroom.against}: {amount(difference)}"
    verdict, end = finding(headroom), f": {nothing}."
    if rate == 0 and arm != "clean":
        verdict, end = "none", f". No reward is corrupted at this level, so the {arm} has nothing to replace{end}"
    elif verdict == "better":
        end = ". There is room for a curator to show something."
    else:
        why = {
            "none": _why_undefined(difference),
            "worse": f"Even the {arm} did worse than {headroom.against}",
            "undecided": "The interval does not exclude zero",
        }
        end = f". {why[verdict]}{end}"
    return Statement(arm, HEADROOM, verdict, words + end)


def comparison_statement(item: Comparison, decidable: bool) -> Statement:
    """An arm against another: a finding needs headroom and an interval without zero; if exploratory, Holm's p < .05."""
    return Statement(item.arm, item.kind, finding(item) if decidable else "none", _sentence(item, decidable))


def geoalign_statement(
    against_baseline: Comparison, against_control: Comparison | None, control: str, decidable: bool
) -> Statement:
    """GeoAlign against the baseline, never without its paired difference to the pair count.

    Better than the baseline but not than the pair count counts as what it is: no sign that the geometry adds anything.
    Without that comparison nothing is claimed.
    """
    plain = comparison_statement(against_baseline, decidable)
    if decidable and (against_control is None or not against_control.difference.defined):
        words = f"{plain.arm} minus {against_baseline.against}: {amount(against_baseline.difference)}"
        missing = "is missing"
        if against_control is not None:
            why = _why_undefined(against_control.difference)
            missing = f"has no interval ({why[:1].lower()}{why[1:]})"
        claim = f"No claim for {plain.arm}: its paired difference to {control} {missing}."
        return replace(plain, verdict="none", text=f"{words}. {claim}")
    if against_control is None:
        return plain
    alone = f"So the number of pairs alone ({control})"
    meaning = {
        "better": "The geometry adds something beyond the number of pairs.",
        "undecided": f"{alone} may explain the gain: no sign that the geometry adds anything.",
        "worse": f"{alone} does better still: here the geometry takes away.",
    }
    said = meaning[finding(against_control)] if plain.verdict == "better" else ""
    return replace(plain, text=" ".join((plain.text, _sentence(against_control, decidable), said)).strip())


def detection_statement(arm: str, detection: Detection) -> Statement:
    """Whether the arm's own score ranks corrupted rewards better than the pair count alone."""
    if not detection.control:
        text = f"{arm}: no pair count was recorded, so its score's ranking of corrupted rewards has no control."
        return Statement(arm, "detection", "none", text)
    gain, numbers = detection.gain, f"AUROC of its score minus that of {detection.control}: {amount(detection.gain)}"
    if not gain.defined:
        return Statement(arm, "detection", "none", f"{arm}: {numbers}. {_why_undefined(gain)}.")
    verdict = "undecided" if not gain.excludes_zero else "better" if gain.interval.low > 0 else "worse"
    meaning = f"its score ranks corrupted rewards {verdict} than the number of pairs alone"
    if verdict == "undecided":
        meaning = "its score and the number of pairs alone cannot be told apart in ranking corrupted rewards"
    return Statement(arm, "detection", verdict, f"{arm}: {meaning} ({numbers}).")


def finding(item: Comparison) -> str:
    """ "better", "worse", "undecided" or "none" (no interval), by the raw interval or, exploratory, by Holm's p."""
    difference = item.difference
    if not difference.defined:
        return "none"
    if not difference.excludes_zero or (item.kind == EXPLORATORY and not item.adjusted_p < SIGNIFICANCE):
        return "undecided"
    return "better" if difference.interval.low > 0 else "worse"


def amount(difference: PairedDifference) -> str:
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


# --- what wrong rewards cost ------------------------------------------------------------------------------------------

# With more arms beside the oracle the headline names the primary ones alone; the figure has all.
_MOST_NAMED = 4


def recovery(level: LevelTable, plan: CompareConfig) -> Recovery | None:
    """The cost of wrong rewards at a level and what was recovered of it; None without any, or without results."""
    baseline = level.row(plan.baseline)
    if baseline is None or not baseline.seeds or not level.rate > 0:
        return None
    plain = (row for row in level.rows if row.role == BOUND and row.seeds and row.curator == baseline.curator)
    if (clean := next(plain, None)) is None:
        return None
    arms = [_recovered(row, baseline, clean) for row in level.rows if row.seeds and row not in (baseline, clean)]
    measured = [arm for arm in arms if not math.isnan(arm.gain.interval.estimate)]
    best_first = tuple(sorted(measured, key=lambda arm: -arm.gain.interval.estimate))
    cost = paired_difference(clean.score.values, baseline.score.values)
    # A shortcut's share is of the responses that take it.
    rate = math.nan if "shortcut" in level.corruption else level.rate
    found = Recovery(rate, baseline, clean, cost, best_first)
    return replace(found, headline=_headline(found, plan), footnote=_footnote(found))


def _recovered(row: ArmRow, baseline: ArmRow, clean: ArmRow) -> Recovered:
    mine, theirs, best = row.score.values, baseline.score.values, clean.score.values
    seeds = [seed for seed in mine if not any(math.isnan(of.get(seed, math.nan)) for of in (mine, theirs, best))]
    share = share_interval([mine[seed] - theirs[seed] for seed in seeds], [best[seed] - theirs[seed] for seed in seeds])
    return Recovered(row, paired_difference(mine, theirs), share)


def _headline(found: Recovery, plan: CompareConfig) -> str:
    """What wrong rewards cost and what was recovered, in one or two sentences without any verdict."""
    score, cost = found.baseline.score.interval.estimate, found.cost.interval
    share, clean = "Some" if math.isnan(found.rate) else f"{found.rate:.0%}", found.clean.score.interval.estimate
    first = f"{share} of the rewards were wrong: {found.baseline.arm} ends at {short(score)} instead of {short(clean)}"
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


def _footnote(found: Recovery) -> str:
    """What the shares are of, and how far they can be trusted."""
    shares = f"Shares are of the loss, {found.clean.arm} minus {found.baseline.arm}, by final scores."
    if found.cost.pairs == 1:
        return f"{shares} One seed shows what happens, and proves nothing: other seeds give other numbers."
    if not found.cost.defined:
        return f"{shares} {found.cost.pairs} seeds give no interval."
    return f"{shares} Intervals are Fieller's over {found.cost.pairs} paired seeds, uncorrected."


def _share(arm: Recovered) -> str:
    return estimate(arm.share, "{:.0%}".format)
