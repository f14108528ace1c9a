"""What may be said of a comparison, in sentences: a win only where the interval excludes zero, a loss as plainly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from geoalign.console.numbers import ends, probability, signed
from geoalign.lab.compare.settings import CompareConfig
from geoalign.lab.compare.table import BOUND, EXPLORATORY, HEADROOM, PRIMARY, Comparison, LevelTable, Statement
from geoalign.lab.runs.detection import Detection
from geoalign.lab.runs.generations import SCORES
from geoalign.statistics import MIN_SEEDS, PairedDifference

SIGNIFICANCE = 0.05


def level_statements(level: LevelTable, plan: CompareConfig) -> list[Statement]:
    """Every sentence about one level: the headroom first, then each curator, then what its detection is worth."""
    detections = [
        detection_statement(row.arm, row.detection)
        for row in level.rows
        if row.detection is not None and row.is_geoalign
    ]
    seeds = max((len(row.seeds) for row in level.rows), default=0)
    if 0 < seeds < MIN_SEEDS:
        return [*_illustration(seeds, level.comparisons, plan), *detections]
    headroom = next((item for item in level.comparisons if item.kind == HEADROOM), None)
    statements = [headroom_statement(level.rate, headroom, plan)]
    decidable = statements[0].verdict == "better"
    row_of = {row.arm: row for row in level.rows}
    for item in level.comparisons:
        row = row_of[item.arm]
        # An arm of a primary comparison without any seed is mentioned all the same.
        without_results = not row.seeds and item.kind != PRIMARY
        if item.kind == HEADROOM or without_results:
            continue
        if item.kind == BOUND:
            # What the wrong rewards cost at all: no finding on a curator.
            rewards = "no wrong rewards" if row.rate == 0 else "other wrong rewards"
            text = f"{item.arm} ({rewards}) minus {item.against}: {amount(item.difference)}."
            statements.append(Statement(item.arm, BOUND, "none", text))
        elif row.is_geoalign and item.against == plan.baseline:
            control = level.comparison(item.arm, plan.control)
            statements.append(geoalign_statement(item, control, plan.control or "pair_count", decidable))
        elif not (row.is_geoalign and item.against == plan.control):
            statements.append(comparison_statement(item, decidable))
    return [*statements, *detections]


def _illustration(seeds: int, comparisons: Sequence[Comparison], plan: CompareConfig) -> list[Statement]:
    """The differences of a level with too few seeds for an interval, which claim nothing; the headroom first."""
    nothing = f"Nothing is concluded from {_counted_seeds(seeds)}: an interval needs {MIN_SEEDS}."
    headroom = Statement(plan.oracle or "oracle", HEADROOM, "none", nothing)
    others = []
    for item in comparisons:
        if item.difference.pairs == 0:
            continue
        text = f"{item.arm} minus {item.against}: {amount(item.difference)}."
        if item.kind == HEADROOM:
            headroom = Statement(item.arm, HEADROOM, "none", f"{nothing} Headroom, {text}")
        else:
            others.append(Statement(item.arm, item.kind, "none", text))
    return [headroom, *others]


def headroom_statement(rate: float, headroom: Comparison | None, plan: CompareConfig) -> Statement:
    """Whether curators can differ at all at this level; verdict "better" only where the interval lies above zero."""
    consequence = "no curator can be judged here"
    if headroom is None:
        text = f"The headroom was not measured (no oracle, or no {plan.baseline}, at this level): {consequence}."
        return Statement(plan.oracle or "oracle", HEADROOM, "none", text)
    difference = headroom.difference
    arm = headroom.arm
    measured = f"Headroom, {arm} minus {headroom.against}: {amount(difference)}"
    if rate == 0 and arm != "clean":
        text = f"{measured}. No reward is wrong at this level, so the {arm} has nothing to replace: {consequence}."
        return Statement(arm, HEADROOM, "none", text)
    verdict = comparison_verdict(headroom)
    if verdict == "better":
        return Statement(arm, HEADROOM, verdict, f"{measured}. A curator has something to gain here.")
    reasons = {
        "none": _why_undefined(difference),
        "worse": f"Even the {arm} did worse than {headroom.against}",
        "undecided": "The interval does not exclude zero",
    }
    return Statement(arm, HEADROOM, verdict, f"{measured}. {reasons[verdict]}: {consequence}.")


def comparison_statement(item: Comparison, decidable: bool) -> Statement:
    """An arm against another: a finding needs headroom and an interval without zero; if exploratory, Holm's p < .05."""
    return Statement(item.arm, item.kind, comparison_verdict(item) if decidable else "none", _sentence(item, decidable))


def geoalign_statement(
    against_baseline: Comparison, against_control: Comparison | None, control: str, decidable: bool
) -> Statement:
    """GeoAlign against the baseline, never without its paired difference to the pair count.

    Better than the baseline but not than the pair count counts as what it is: no sign that the geometry adds anything.
    Without that comparison nothing is claimed.
    """
    plain = comparison_statement(against_baseline, decidable)
    if decidable and (against_control is None or not against_control.difference.defined):
        measured = f"{plain.arm} minus {against_baseline.against}: {amount(against_baseline.difference)}"
        missing = "is missing"
        if against_control is not None:
            why = _why_undefined(against_control.difference)
            missing = f"has no interval ({why[:1].lower()}{why[1:]})"
        claim = f"No claim for {plain.arm}: its paired difference to {control} {missing}."
        return replace(plain, verdict="none", text=f"{measured}. {claim}")
    if against_control is None:
        return plain
    alone = f"So the number of pairs alone ({control})"
    meaning = {
        "better": "The geometry adds something beyond the number of pairs.",
        "undecided": f"{alone} may explain the gain: no sign that the geometry adds anything.",
        "worse": f"{alone} does better still: here the geometry takes away.",
    }
    conclusion = meaning[comparison_verdict(against_control)] if plain.verdict == "better" else ""
    return replace(plain, text=" ".join((plain.text, _sentence(against_control, decidable), conclusion)).strip())


def detection_statement(arm: str, detection: Detection) -> Statement:
    """Whether the arm's own score ranks wrong rewards better than the pair count alone."""
    if not detection.control:
        text = f"{arm}: no pair count was recorded, so its score's ranking of wrong rewards has no control."
        return Statement(arm, "detection", "none", text)
    gain = detection.gain
    numbers = f"AUROC of its score minus that of the {SCORES[detection.control]}: {amount(gain)}"
    if not gain.defined:
        return Statement(arm, "detection", "none", f"{arm}: {numbers}. {_why_undefined(gain)}.")
    verdict = "undecided" if not gain.excludes_zero else "better" if gain.interval.low > 0 else "worse"
    meaning = f"its score ranks wrong rewards {verdict} than the number of pairs alone"
    if verdict == "undecided":
        meaning = "its score and the number of pairs alone cannot be told apart in ranking wrong rewards"
    return Statement(arm, "detection", verdict, f"{arm}: {meaning} ({numbers}).")


def comparison_verdict(item: Comparison) -> str:
    """ "better", "worse", "undecided" or "none" (no interval), by the raw interval or, exploratory, by Holm's p."""
    difference = item.difference
    if not difference.defined:
        return "none"
    if not difference.excludes_zero or (item.kind == EXPLORATORY and not item.adjusted_p < SIGNIFICANCE):
        return "undecided"
    return "better" if difference.interval.low > 0 else "worse"


def amount(difference: PairedDifference) -> str:
    """A difference with its interval and the number of seeds: +0.1 (95% interval +0.05 to +0.15, 6 of 20 seeds)."""
    if math.isnan(difference.interval.estimate):
        return "unknown (no seed has both)"
    every = difference.pairs + difference.left_out
    seeds = f"{difference.pairs} of {every} seeds" if difference.left_out else _counted_seeds(difference.pairs)
    bounds = f"95% interval {ends(difference.interval, signed)}" if difference.defined else "no interval"
    return f"{signed(difference.interval.estimate)} ({bounds}, {seeds})"


def _counted_seeds(count: int) -> str:
    return "one seed" if count == 1 else f"{count} seeds"


def _sentence(item: Comparison, decidable: bool) -> str:
    """A comparison in words: the verdict, the difference and its p; without headroom (`decidable`) the difference."""
    difference = item.difference
    measured = f"{item.arm} minus {item.against}: {amount(difference)}"
    mark = "Exploratory: " if item.kind == EXPLORATORY else ""
    if not decidable:
        return f"{mark}{measured}."
    if not difference.defined:
        return f"{mark}{measured}. {_why_undefined(difference)}: no verdict."
    tested = f"Holm-adjusted {_p(item.adjusted_p)}" if item.kind == EXPLORATORY else _p(difference.p)
    verdict = comparison_verdict(item)
    words = {
        "better": f"{item.arm} scored better than {item.against}",
        "worse": f"{item.arm} scored worse than {item.against}",
        "undecided": f"{item.arm} and {item.against} cannot be told apart",
    }[verdict]
    note = ""
    if verdict == "undecided" and difference.excludes_zero:
        note = " The unadjusted interval excludes zero, which among so many comparisons is no finding."
    return f"{mark}{words}: {amount(difference)}, {tested}.{note}"


def _p(value: float) -> str:
    return "p < 0.0001" if value < 0.0001 else f"p = {probability(value)}"


def _why_undefined(difference: PairedDifference) -> str:
    """Why a difference has no interval."""
    if difference.pairs == 0:
        return f"No seed has both (at least {MIN_SEEDS} seeds are needed)"
    if difference.pairs < MIN_SEEDS:
        verb = "gives" if difference.pairs == 1 else "give"
        seeds = _counted_seeds(difference.pairs)
        return f"{seeds[:1].upper()}{seeds[1:]} {verb} no interval (at least {MIN_SEEDS} are needed)"
    return "All seeds differ by the same amount, which gives no spread to judge it by"
