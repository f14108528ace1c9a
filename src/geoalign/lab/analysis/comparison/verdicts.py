"""What may be said of a comparison, in sentences: a win only where the interval excludes zero, a loss as plainly; and
what wrong rewards cost at a level, and how much of that each arm won back."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
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
from geoalign.lab.analysis.statistics import (
    MIN_SEEDS,
    Interval,
    PairedDifference,
    paired_difference,
    seed_interval,
    share_interval,
)
from geoalign.lab.config.compare import METRICS, CompareConfig
from geoalign.lab.numbers import ends, estimate, probability, share, short, signed, whole_percent

SIGNIFICANCE = 0.05


def level_statements(
    rate: float, comparisons: Sequence[Comparison], rows: Sequence[ArmRow], plan: CompareConfig
) -> list[Statement]:
    """Every sentence about one level: the headroom first, then each curator, then what the detection is worth."""
    seeds = max((len(row.seeds) for row in rows), default=0)
    if 0 < seeds < MIN_SEEDS:
        return [*_illustration(seeds, comparisons, plan), *_detections(rows)]
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
            under = "Without corruption" if arms[item.arm].rate == 0 else "Under other corruption"
            text = f"{under}: {item.arm} minus {item.against}: {amount(item.difference)}."
            statements.append(Statement(item.arm, BOUND, "none", text))
        elif geoalign and item.against == plan.baseline:
            statements.append(geoalign_statement(item, control.get(item.arm), plan.control or "pair_count", decidable))
        elif not (geoalign and item.against == plan.control):
            statements.append(comparison_statement(item, decidable))
    return [*statements, *_detections(rows)]


def _illustration(seeds: int, comparisons: Sequence[Comparison], plan: CompareConfig) -> list[Statement]:
    """The differences of a level with too few seeds for an interval, which claim nothing; the headroom first."""
    opening = "One seed: an illustration." if seeds == 1 else "Two seeds: an illustration."
    statements = [Statement(plan.oracle or "oracle", HEADROOM, "none", opening)]
    for item in comparisons:
        difference = item.difference
        if difference.pairs == 0:
            continue
        pairs = "one seed" if difference.pairs == 1 else "two seeds"
        text = f"{item.arm} minus {item.against}: {signed(difference.interval.estimate)} ({pairs})."
        if item.kind == HEADROOM:
            statements[0] = Statement(item.arm, HEADROOM, "none", f"{opening} {text}")
        else:
            statements.append(Statement(item.arm, item.kind, "none", text))
    return statements


def _detections(rows: Sequence[ArmRow]) -> list[Statement]:
    """What the score of each GeoAlign arm is worth in ranking corrupted rewards."""
    judged = [(row.arm, row.detection) for row in rows if row.detection is not None and row.is_geoalign]
    return [detection_statement(arm, found) for arm, found in judged]


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
    """The cost of wrong rewards at a level and what was recovered of it; None without any, or without results.

    All its numbers are of the seeds that the baseline, the clean arm and every arm of the headline have finished. An
    arm that shares no seed with those before it is left out, as are further arms that lack one of these seeds.
    """
    baseline = level.row(plan.baseline)
    if baseline is None or not level.rate > 0:
        return None
    clean = next((row for row in level.rows if row.rate == 0 and row.curator == baseline.curator), None)
    if clean is None:
        return None
    seeds = _known_seeds(baseline) & _known_seeds(clean)
    if not seeds:
        return None
    others = [row for row in level.rows if row not in (baseline, clean) and _known_seeds(row)]
    named = []
    for row in _named(others, plan):
        shared = seeds & _known_seeds(row)
        if shared:
            seeds = shared
            named.append(row)
    shown = [row for row in others if seeds <= _known_seeds(row)]
    arms = {row.arm: _recovered(row, baseline, clean, seeds) for row in shown}
    every_seed = set().union(*(_known_seeds(row) for row in (baseline, clean, *others)))
    found = Recovery(
        # A shortcut's share is of the responses that take it.
        rate=math.nan if "shortcut" in level.corruption else level.rate,
        seeds=tuple(sorted(seeds)),
        left_out=tuple(sorted(every_seed - seeds)),
        absent=tuple(row.arm for row in others if row not in shown),
        baseline=_recovered(baseline, baseline, clean, seeds),
        clean=_recovered(clean, baseline, clean, seeds),
        cost=paired_difference(_at(clean.score.values, seeds), _at(baseline.score.values, seeds)),
        arms=tuple(sorted(arms.values(), key=lambda arm: -arm.score.estimate)),
        named=tuple(arms[row.arm] for row in named),
    )
    decidable = any(item.kind == HEADROOM and item.verdict == "better" for item in level.statements)
    # Too few seeds, no loss or no headroom: then no share of the loss is claimed.
    loss = found.cost.interval.low > 0
    claimed = decidable and loss and bool(found.named) and not found.is_illustration
    headline = _headline(found, plan, claimed=claimed)
    return replace(found, headline=headline, footnote=_footnote(found, claimed=claimed))


def _named(rows: Sequence[ArmRow], plan: CompareConfig) -> list[ArmRow]:
    """The arms that a headline names, the primary ones first and the oracle last."""
    oracle = [row for row in rows if row.arm == plan.oracle]
    primary = [row for row in rows if row.role == PRIMARY and row not in oracle]
    further = [row for row in rows if row not in primary and row not in oracle]
    if len(primary) + len(further) > _MOST_NAMED:
        further = []
    return primary + further + oracle


def _known_seeds(row: ArmRow) -> set[int]:
    """The seeds whose final score is known."""
    return {seed for seed, score in row.score.values.items() if not math.isnan(score)}


def _at(values: Mapping[int, float], seeds: Collection[int]) -> dict[int, float]:
    """The values of these seeds alone; NaN for one that is not there."""
    return {seed: values.get(seed, math.nan) for seed in sorted(seeds)}


def _recovered(row: ArmRow, baseline: ArmRow, clean: ArmRow, seeds: Collection[int]) -> Recovered:
    mine, theirs, best = (_at(of.score.values, seeds) for of in (row, baseline, clean))
    gains = [mine[seed] - theirs[seed] for seed in mine]
    costs = [best[seed] - theirs[seed] for seed in mine]
    truth = list(_at(row.gold.values, seeds).values())
    unknown = Interval(math.nan, math.nan, math.nan)
    return Recovered(
        row=row,
        score=seed_interval(list(mine.values())),
        truth=unknown if any(map(math.isnan, truth)) else seed_interval(truth),
        share=share_interval(gains, costs),
    )


def _headline(found: Recovery, plan: CompareConfig, *, claimed: bool) -> str:
    """What wrong rewards cost and what was recovered, the truth first where the reward is only a proxy of it.

    Too few seeds for an interval are called an illustration, with the final scores alone. `claimed`: the shares of the
    loss are told.
    """
    wrong = (
        "Some of the rewards were wrong" if math.isnan(found.rate) else f"{share(found.rate)} of the rewards were wrong"
    )
    score, best = found.baseline.score.estimate, found.clean.score.estimate
    loss = f"{found.baseline.row.arm} ends at {short(score)} instead of {short(best)}"
    metric = METRICS[plan.metric]
    first = f"{wrong}: {loss} in {metric}"
    if plan.metric == "reward" and found.truth_known:
        first = f"{wrong}: {_truths(found)}. By the {metric}, a proxy of it, {loss}"
    if found.is_illustration:
        seeds = "One seed" if len(found.seeds) == 1 else "Two seeds"
        others = ", ".join(f"{arm.row.arm} at {short(arm.score.estimate)}" for arm in found.named)
        return f"{seeds}: an illustration. {first}{'; ' if others else ''}{others}."
    if not found.cost.interval.estimate > 0:
        return f"{first}. That is no loss, so there was nothing to recover."
    if not found.cost.defined:
        return f"{first}. All seeds lose the same, which gives no spread to judge it by."
    if not found.cost.excludes_zero:
        return f"{first}. The loss is not distinguishable from zero."
    if not claimed:
        return f"{first}."
    return f"{first}. Recovered of that loss: {'; '.join(_share(arm, plan) for arm in found.named)}."


def _truths(found: Recovery) -> str:
    """The gold utility of every arm that the headline names, the baseline first and the clean arm last."""
    arms = (found.baseline, *found.named, found.clean)
    values = ", ".join(f"{arm.row.arm} {short(arm.truth.estimate)}" for arm in arms)
    return f"the true utility ({METRICS['gold_utility']}) ends at {values}"


def _footnote(found: Recovery, *, claimed: bool) -> str:
    """What the shares are of, how far they can be trusted, and which seeds and arms are not in them."""
    clean, baseline = found.clean.row.arm, found.baseline.row.arm
    parts = [f"{clean} had no wrong rewards."]
    if len(found.seeds) == 1:
        parts.append("One seed shows what happens, and proves nothing: other seeds give other numbers.")
    elif found.is_illustration:
        parts.append("Two seeds give no interval, and prove nothing.")
    if claimed:
        parts.append(f"Shares are of the loss, {clean} minus {baseline}, by final scores.")
        parts.append(f"Intervals are Fieller's over {len(found.seeds)} paired seeds, uncorrected.")
    if found.left_out:
        seeds = ", ".join(map(str, found.seeds))
        parts.append(
            f"All numbers are of seed{'s' if len(found.seeds) > 1 else ''} {seeds}, which all these arms have."
        )
    if found.absent:
        parts.append(f"Left out, for they lack one of these seeds: {', '.join(found.absent)}.")
    return " ".join(parts)


def _share(arm: Recovered, plan: CompareConfig) -> str:
    """An arm's share of the loss; of the oracle also what it is."""
    name = arm.row.arm
    if name == plan.oracle:
        name = f"{name}, which knows the wrong ones,"
    return f"{name} {estimate(arm.share, whole_percent)}"
