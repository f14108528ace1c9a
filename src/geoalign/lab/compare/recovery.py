"""What wrong rewards cost at a level, how much of that each arm won back, and the finding as a headline."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from geoalign.console.numbers import ends, score_writers, share, whole_percent
from geoalign.lab.compare.settings import METRICS, CompareConfig
from geoalign.lab.compare.statements import finding
from geoalign.lab.compare.table import (
    EXPLORATORY,
    HEADROOM,
    PRIMARY,
    ArmRow,
    Comparison,
    LevelTable,
    Recovered,
    Recovery,
)
from geoalign.statistics import MIN_SEEDS, UNKNOWN, Interval, paired_difference, seed_interval, share_interval
from geoalign.text import enumerated, seed_ranges

# With more arms beside the oracle the headline names the primary ones alone.
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
    others = [row for row in level.rows if row not in (baseline, clean) and _known_seeds(row)]
    named_rows, seeds = _with_shared_seeds([baseline, clean], _named(others, plan))
    if not seeds:
        return None
    shown = [row for row in others if seeds <= _known_seeds(row)]
    arms = {row.arm: _recovered(row, baseline, clean, seeds) for row in shown}
    every_seed = set().union(*(_known_seeds(row) for row in (baseline, clean, *others)))
    return Recovery(
        # A shortcut's share is of the responses that take it.
        rate=math.nan if "shortcut" in level.corruption else level.rate,
        seeds=tuple(sorted(seeds)),
        left_out=tuple(sorted(every_seed - seeds)),
        absent=tuple(row.arm for row in others if row not in shown),
        baseline=_recovered(baseline, baseline, clean, seeds),
        clean=_recovered(clean, baseline, clean, seeds),
        cost=paired_difference(_at(clean.score.values, seeds), _at(baseline.score.values, seeds)),
        arms=tuple(sorted(arms.values(), key=lambda arm: -arm.score.estimate)),
        named=tuple(arms[row.arm] for row in named_rows),
    )


def _with_shared_seeds(first: Sequence[ArmRow], rows: Iterable[ArmRow]) -> tuple[list[ArmRow], set[int]]:
    """Those of `rows` that share a seed with all before them, and the seeds that these and the first ones share.

    An arm that is not primary must leave seeds enough for an interval, where there were as many without it.
    """
    seeds = set.intersection(*(_known_seeds(row) for row in first))
    kept = []
    for row in rows:
        shared = seeds & _known_seeds(row)
        enough = row.role == PRIMARY or len(shared) >= min(len(seeds), MIN_SEEDS)
        if shared and enough:
            seeds = shared
            kept.append(row)
    return kept, seeds


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


def _recovered(row: ArmRow, baseline: ArmRow, clean: ArmRow | None, seeds: Collection[int]) -> Recovered:
    """What an arm came to over these seeds; without a clean arm there is no share."""
    scores = _at(row.score.values, seeds)
    truth = list(_at(row.gold.values, seeds).values())
    recovered = UNKNOWN
    if clean is not None:
        lowest = _at(baseline.score.values, seeds)
        highest = _at(clean.score.values, seeds)
        gains = [scores[seed] - lowest[seed] for seed in scores]
        costs = [highest[seed] - lowest[seed] for seed in scores]
        recovered = share_interval(gains, costs)
    return Recovered(
        row=row,
        score=seed_interval(list(scores.values())),
        truth=UNKNOWN if any(map(math.isnan, truth)) else seed_interval(truth),
        share=recovered,
    )


# --- the headline -----------------------------------------------------------------------------------------------------


def headline(level: LevelTable, plan: CompareConfig) -> str:
    """The finding of a level in a few sentences, the truth first where the reward is only a proxy of it.

    Fewer seeds than an interval needs are called an illustration, of which nothing is concluded. Empty where nothing
    has finished.
    """
    arms, seeds = _headline_arms(level, plan)
    if not arms:
        return ""
    illustration = len(seeds) < MIN_SEEDS
    sentences = []
    if illustration:
        sentences.append(f"{'One seed' if len(seeds) == 1 else 'Two seeds'}, an illustration.")
    sentences.append(_wrong_rewards(level))
    with_truth = plan.metric == "reward" and not any(math.isnan(arm.truth.estimate) for arm in arms)
    names = [arm.row.arm for arm in arms] if with_truth else _explained_names(arms, level, plan)
    scores = _final_values(names, [arm.score for arm in arms], plan)
    if with_truth:
        truths = _final_values(_explained_names(arms, level, plan), [arm.truth for arm in arms], plan)
        sentences.append(f"The true (gold) reward after training{_averaged(arms)}: {truths}.")
        sentences.append(f"The proxy reward, which the models were trained on: {scores}.")
    else:
        metric = METRICS[plan.metric]
        sentences.append(f"{metric[:1].upper()}{metric[1:]} after training{_averaged(arms)}: {scores}.")
    conclusion = "" if illustration else _conclusion(level, plan)
    if conclusion:
        sentences.append(f"By the proxy reward: {conclusion}" if with_truth else conclusion)
    if with_truth:
        sentences.append(_misleading_proxy(arms))
    if not illustration:
        sentences.append(f"Means of {len(seeds)} seeds.")
    return " ".join(sentence for sentence in sentences if sentence)


def _headline_arms(level: LevelTable, plan: CompareConfig) -> tuple[list[Recovered], Collection[int]]:
    """The arms that a headline names, the baseline first and the clean arm last, and the seeds that they share."""
    found = level.recovery
    if found is not None:
        return [found.baseline, *found.named, found.clean], found.seeds
    rows = [row for row in level.rows if _known_seeds(row)]
    baseline = next((row for row in rows if row.arm == plan.baseline), None)
    if baseline is None:
        return [], ()
    named, seeds = _with_shared_seeds([baseline], _named([row for row in rows if row is not baseline], plan))
    return [_recovered(row, baseline, None, seeds) for row in (baseline, *named)], seeds


def _wrong_rewards(level: LevelTable) -> str:
    if "shortcut" in level.corruption:
        return "Some of the rewards were wrong."
    if math.isnan(level.rate):
        return "How many of the rewards were wrong is not known."
    return f"{share(level.rate)} of the rewards were wrong." if level.rate > 0 else "No reward was wrong."


def _explained_names(arms: Sequence[Recovered], level: LevelTable, plan: CompareConfig) -> list[str]:
    """The names of the arms; with those of the oracle and the clean arm also what they are."""
    clean = None if level.recovery is None else level.recovery.clean.row
    names = []
    for arm in arms:
        if arm.row is clean:
            names.append(f"{arm.row.arm} (no wrong rewards)")
        elif arm.row.arm == plan.oracle:
            names.append(f"{arm.row.arm} (knows the wrong rewards)")
        else:
            names.append(arm.row.arm)
    return names


def _final_values(names: Sequence[str], values: Sequence[Interval], plan: CompareConfig) -> str:
    write, _ = score_writers(plan.metric)
    return ", ".join(f"{name} {write(value.estimate)}" for name, value in zip(names, values, strict=True))


def _averaged(arms: Sequence[Recovered]) -> str:
    """What a final score is, in brackets: a curve that is still rising ends above the mean of its last evaluations."""
    count = max(arm.row.evaluations for arm in arms)
    return f" (mean of the last {count} evaluations)" if count > 1 else ""


def _misleading_proxy(arms: Sequence[Recovered]) -> str:
    """Names the arms that end above the baseline by the proxy reward and below it by the truth; else empty."""
    baseline, *others = arms
    names = [
        arm.row.arm
        for arm in others
        if arm.score.estimate > baseline.score.estimate and arm.truth.estimate < baseline.truth.estimate
    ]
    if not names:
        return ""
    verb = "ends" if len(names) == 1 else "end"
    return f"By the true reward {enumerated(names)} {verb} below {baseline.row.arm}: the proxy misleads."


def _conclusion(level: LevelTable, plan: CompareConfig) -> str:
    found = level.recovery
    if found is None:
        return _verdicts(level, plan)
    if not found.cost.interval.estimate > 0:
        return "Wrong rewards cost nothing here, so there was nothing to recover."
    if not found.cost.defined:
        return "All seeds lose the same, which gives no spread to judge the loss by."
    if not found.cost.excludes_zero:
        return "The loss is not distinguishable from zero."
    if not _claims_shares(level):
        return _no_headroom(level)
    shares = []
    for arm in found.named:
        interval = "" if math.isnan(arm.share.low) else f" (95% interval {ends(arm.share, whole_percent)})"
        shares.append(f"{arm.row.arm} {whole_percent(arm.share.estimate)}{interval}")
    return f"Share of the loss recovered: {', '.join(shares)}."


def _claims_shares(level: LevelTable) -> bool:
    """Whether shares of the loss may be told: there are seeds enough, a loss, headroom, and an arm to tell them of."""
    found = level.recovery
    if found is None or found.is_illustration or not found.named:
        return False
    return _has_headroom(level) and found.cost.interval.low > 0


def _has_headroom(level: LevelTable) -> bool:
    return any(item.kind == HEADROOM and item.verdict == "better" for item in level.statements)


def _no_headroom(level: LevelTable) -> str:
    if _has_headroom(level):
        return ""
    measured = any(item.kind == HEADROOM and item.difference.defined for item in level.comparisons)
    why = "the headroom is not above zero" if measured else "the headroom was not measured"
    return f"No curator can be judged here: {why}."


def _verdicts(level: LevelTable, plan: CompareConfig) -> str:
    """What was found of each arm that the headline names, in short sentences without numbers."""
    if not _has_headroom(level):
        return _no_headroom(level)
    named = {arm.row.arm for arm in _headline_arms(level, plan)[0]}
    sentences = []
    for item in level.against(plan.baseline):
        if item.arm in named and item.kind in (PRIMARY, EXPLORATORY):
            sentences.append(_verdict(item, level, plan))
    return " ".join(sentence for sentence in sentences if sentence)


def _verdict(item: Comparison, level: LevelTable, plan: CompareConfig) -> str:
    found = finding(item)
    if found == "none":
        return ""
    if found == "undecided":
        return f"{item.arm} and {item.against} cannot be told apart."
    row = level.row(item.arm)
    if found == "better" and row is not None and row.is_geoalign:
        # Never without its control.
        control = None if plan.control is None else level.comparison(item.arm, plan.control)
        if control is None or finding(control) == "none":
            return ""
        if finding(control) != "better":
            return f"{item.arm} scored better than {item.against}, but not better than {control.against}."
    return f"{item.arm} scored {found} than {item.against}."


def footnote(level: LevelTable, plan: CompareConfig) -> str:
    """What the shares of a headline are of, and which seeds and arms are not in its numbers."""
    found = level.recovery
    if found is None:
        return ""
    parts = []
    if _claims_shares(level):
        parts.append(
            f"The loss is the final score of {found.clean.row.arm} minus that of {plan.baseline}. Its shares have "
            f"Fieller's intervals over {len(found.seeds)} paired seeds, without a correction for several arms."
        )
    if found.left_out:
        seeds = f"seed{'s' if len(found.seeds) > 1 else ''} {seed_ranges(found.seeds)}"
        parts.append(f"The numbers are of {seeds}, which all these arms have finished.")
    if found.absent:
        parts.append(f"Left out, for they lack one of these seeds: {', '.join(found.absent)}.")
    return " ".join(parts)
