"""The finding of a level as a headline: final scores, what wrong rewards cost, how much of that each arm won back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from pandas import DataFrame

from geoalign.console.numbers import ends, score_writers, share, whole_percent
from geoalign.lab.compare.settings import METRICS, CompareConfig
from geoalign.lab.compare.statements import comparison_verdict
from geoalign.lab.compare.table import EXPLORATORY, HEADROOM, PRIMARY, ArmRow, Comparison, LevelTable
from geoalign.statistics import MIN_SEEDS, Interval, PairedDifference, mean, paired_difference, share_interval
from geoalign.text import enumerated, seed_ranges

# With more arms beside the oracle the headline names the primary ones alone.
_MOST_NAMED = 4


@dataclass(frozen=True, eq=False)
class HeadlineNumbers:
    """What the arms of a headline came to. Every number is of the same seeds, which all of these arms have finished.

    Attributes:
        baseline: the arm that believes every reward; `clean`: the one that had no wrong rewards, None where there is
            none to compare with; `other_arms`: the others.
        scores: the final scores of these arms, a row for each seed, a column for each arm in the order of the headline:
            the baseline first, the clean arm last; `truths`: their gold rewards.
        left_out: seeds that only some arms have; `absent`: arms that lack some of the seeds.
    """

    baseline: str
    other_arms: tuple[str, ...]
    clean: str | None
    scores: DataFrame
    truths: DataFrame
    left_out: tuple[int, ...]
    absent: tuple[str, ...]

    @property
    def arms(self) -> list[str]:
        """The arms in the order of the headline."""
        return self.scores.columns.tolist()

    @property
    def is_illustration(self) -> bool:
        """Whether there are too few seeds for an interval, and so for any claim."""
        return len(self.scores) < MIN_SEEDS

    @property
    def cost(self) -> PairedDifference | None:
        """What wrong rewards cost: the clean arm's final score minus the baseline's, paired by seed."""
        if self.clean is None:
            return None
        clean = dict(enumerate(self.scores[self.clean]))
        return paired_difference(clean, dict(enumerate(self.scores[self.baseline])))

    def share(self, arm: str) -> Interval:
        """The share of that cost which an arm won back, with Fieller's interval."""
        lowest = self.scores[self.baseline]
        return share_interval(self.scores[arm] - lowest, self.scores[self.clean] - lowest)


def headline_numbers(level: LevelTable, plan: CompareConfig) -> HeadlineNumbers | None:
    """What the arms of a level's headline came to; None where the baseline has no result.

    An arm that shares no seed with those before it is left out, as are arms that would leave too few for an interval.
    """
    scores = DataFrame({row.arm: row.score.values for row in level.rows}).dropna(axis="columns", how="all")
    if plan.baseline not in scores:
        return None
    curators = {row.arm: row.curator for row in level.rows}
    clean = next(
        (row.arm for row in level.rows if row.rate == 0 and row.curator == curators[plan.baseline]),
        None,
    )
    if level.rate > 0 and clean in scores and len(scores[[plan.baseline, clean]].dropna()):
        return _outcome(level, plan, scores.sort_index(), clean)
    return _outcome(level, plan, scores.sort_index(), None)


def _outcome(level: LevelTable, plan: CompareConfig, scores: DataFrame, clean: str | None) -> HeadlineNumbers:
    """The outcome with or without a clean arm; `scores`: final scores of the arms that have some, by seed."""
    first = [plan.baseline] if clean is None else [plan.baseline, clean]
    others = [row for row in level.rows if row.arm in scores and row.arm not in first]
    arms = list(first)
    for row in _rows_to_name(others, plan):
        seeds = len(scores[arms].dropna())
        shared = len(scores[[*arms, row.arm]].dropna())
        # An arm that is not primary must leave seeds enough for an interval, where there were as many without it.
        if shared and (row.role == PRIMARY or shared >= min(seeds, MIN_SEEDS)):
            arms.append(row.arm)
    named = [arm for arm in arms if arm not in first]
    in_order = [plan.baseline, *named] if clean is None else [plan.baseline, *named, clean]
    kept = scores[in_order].dropna()
    truths = DataFrame({row.arm: row.gold.values for row in level.rows}).reindex(kept.index)[in_order]
    lacking = scores.loc[kept.index].isna().any()
    return HeadlineNumbers(
        baseline=plan.baseline,
        other_arms=tuple(named),
        clean=clean,
        scores=kept,
        truths=truths,
        left_out=tuple(seed for seed in scores.dropna(how="all").index if seed not in kept.index),
        absent=tuple(row.arm for row in others if lacking[row.arm]),
    )


def _rows_to_name(rows: Sequence[ArmRow], plan: CompareConfig) -> list[ArmRow]:
    """The arms that a headline names, the primary ones first and the oracle last."""
    oracle = [row for row in rows if row.arm == plan.oracle]
    primary = [row for row in rows if row.role == PRIMARY and row not in oracle]
    further = [row for row in rows if row not in primary and row not in oracle]
    if len(primary) + len(further) > _MOST_NAMED:
        further = []
    return primary + further + oracle


# --- the headline -----------------------------------------------------------------------------------------------------


def level_headline(level: LevelTable, plan: CompareConfig) -> str:
    """The finding of a level in a few sentences, the truth first where the reward is only a proxy of it.

    Fewer seeds than an interval needs are called an illustration, of which nothing is concluded. Empty where nothing
    has finished.
    """
    found = headline_numbers(level, plan)
    if found is None:
        return ""
    with_truth = plan.metric == "reward" and not found.truths.isna().any(axis=None)
    explained = [_explained(arm, found, plan) for arm in found.arms]
    averaged = _averaged(level, found)
    sentences = []
    if found.is_illustration:
        sentences.append(f"{'One seed' if len(found.scores) == 1 else 'Two seeds'}, an illustration.")
    sentences.append(_wrong_rewards(level))
    if with_truth:
        truths = _final_values(explained, found.truths, plan)
        sentences.append(f"The true (gold) reward after training{averaged}: {truths}.")
        scores = _final_values(found.arms, found.scores, plan)
        sentences.append(f"The proxy reward, which the models were trained on: {scores}.")
    else:
        metric = METRICS[plan.metric].capitalize()
        sentences.append(f"{metric} after training{averaged}: {_final_values(explained, found.scores, plan)}.")
    conclusion = "" if found.is_illustration else _conclusion(level, found, plan)
    if conclusion:
        sentences.append(f"By the proxy reward: {conclusion}" if with_truth else conclusion)
    if with_truth:
        sentences.append(_misleading_proxy(found))
    if not found.is_illustration:
        sentences.append(f"Means of {len(found.scores)} seeds.")
    return " ".join(sentence for sentence in sentences if sentence)


def footnote(level: LevelTable, plan: CompareConfig) -> str:
    """Explains what the shares of a headline refer to, and names the seeds and arms that its numbers leave out."""
    found = headline_numbers(level, plan)
    if found is None or found.clean is None:
        return ""
    seeds = found.scores.index.tolist()
    parts = []
    if _claims_shares(level, found):
        parts.append(
            f"The loss is the final score of {found.clean} minus that of {found.baseline}. Its shares have "
            f"Fieller's intervals over {len(seeds)} paired seeds, without a correction for several arms."
        )
    if found.left_out:
        ranges = f"seed{'s' if len(seeds) > 1 else ''} {seed_ranges(seeds)}"
        parts.append(f"The numbers are of {ranges}, which all these arms have finished.")
    if found.absent:
        parts.append(f"Left out, for they lack one of these seeds: {', '.join(found.absent)}.")
    return " ".join(parts)


def _wrong_rewards(level: LevelTable) -> str:
    """How many rewards were wrong; left out for a shortcut, whose share counts only the responses that take it."""
    if "shortcut" in level.corruption:
        return "Some of the rewards were wrong."
    if math.isnan(level.rate):
        return "How many of the rewards were wrong is not known."
    return f"{share(level.rate)} of the rewards were wrong." if level.rate > 0 else "No reward was wrong."


def _explained(arm: str, found: HeadlineNumbers, plan: CompareConfig) -> str:
    """The name of an arm; of the oracle and the clean arm also what they are."""
    if arm == found.clean:
        return f"{arm} (no wrong rewards)"
    return f"{arm} (knows the wrong rewards)" if arm == plan.oracle else arm


def _final_values(names: Sequence[str], values: DataFrame, plan: CompareConfig) -> str:
    """Each name with the mean of its column over seeds."""
    write, _ = score_writers(plan.metric)
    return ", ".join(f"{name} {write(mean(values[arm]))}" for name, arm in zip(names, values, strict=True))


def _averaged(level: LevelTable, found: HeadlineNumbers) -> str:
    """A note in brackets on how the final score is averaged: a curve that still rises ends above that mean."""
    count = max(row.evaluations for row in level.rows if row.arm in found.arms)
    return f" (mean of the last {count} evaluations)" if count > 1 else ""


def _misleading_proxy(found: HeadlineNumbers) -> str:
    """Names the arms that end above the baseline by the proxy reward and below it by the truth; else empty."""
    scores = found.scores.mean()
    truths = found.truths.mean()
    names = [arm for arm in found.arms if scores[arm] > scores[found.baseline] and truths[arm] < truths[found.baseline]]
    if not names:
        return ""
    verb = "ends" if len(names) == 1 else "end"
    return f"By the true reward {enumerated(names)} {verb} below {found.baseline}: the proxy misleads."


def _conclusion(level: LevelTable, found: HeadlineNumbers, plan: CompareConfig) -> str:
    """How much of the cost was recovered; without a clean arm, the verdict on each arm."""
    cost = found.cost
    if cost is None:
        return _verdicts(level, found, plan)
    if not cost.interval.estimate > 0:
        return "Wrong rewards cost nothing here, so there was nothing to recover."
    if not cost.defined:
        return "All seeds lose the same, which gives no spread to judge the loss by."
    if not cost.excludes_zero:
        return "The loss is not distinguishable from zero."
    if not _claims_shares(level, found):
        return _no_headroom(level)
    shares = []
    for arm in found.other_arms:
        recovered = found.share(arm)
        interval = "" if math.isnan(recovered.low) else f" (95% interval {ends(recovered, whole_percent)})"
        shares.append(f"{arm} {whole_percent(recovered.estimate)}{interval}")
    return f"Share of the loss recovered: {', '.join(shares)}."


def _claims_shares(level: LevelTable, found: HeadlineNumbers) -> bool:
    """Whether shares of the loss may be told: there are seeds enough, a loss, headroom, and an arm to tell them of."""
    cost = found.cost
    if cost is None or found.is_illustration or not found.other_arms:
        return False
    return _has_headroom(level) and cost.interval.low > 0


def _has_headroom(level: LevelTable) -> bool:
    return any(item.kind == HEADROOM and item.verdict == "better" for item in level.statements)


def _no_headroom(level: LevelTable) -> str:
    """Why no curator can be judged; empty where one can."""
    if _has_headroom(level):
        return ""
    measured = any(item.kind == HEADROOM and item.difference.defined for item in level.comparisons)
    why = "the headroom is not above zero" if measured else "the headroom was not measured"
    return f"No curator can be judged here: {why}."


def _verdicts(level: LevelTable, found: HeadlineNumbers, plan: CompareConfig) -> str:
    """What was found of each arm that the headline names, in short sentences without numbers."""
    if not _has_headroom(level):
        return _no_headroom(level)
    sentences = []
    for item in level.against(plan.baseline):
        if item.arm in found.other_arms and item.kind in (PRIMARY, EXPLORATORY):
            sentences.append(_verdict(item, level, plan))
    return " ".join(sentence for sentence in sentences if sentence)


def _verdict(item: Comparison, level: LevelTable, plan: CompareConfig) -> str:
    """What was found of one arm; of GeoAlign nothing good without its control."""
    found = comparison_verdict(item)
    if found == "none":
        return ""
    if found == "undecided":
        return f"{item.arm} and {item.against} cannot be told apart."
    row = level.row(item.arm)
    if found == "better" and row is not None and row.is_geoalign:
        control = level.comparison(item.arm, plan.control)
        if control is None or comparison_verdict(control) == "none":
            return ""
        if comparison_verdict(control) != "better":
            return f"{item.arm} scored better than {item.against}, but not better than {control.against}."
    return f"{item.arm} scored {found} than {item.against}."
