"""What wrong rewards cost at a level, and how much of that each arm won back."""

from __future__ import annotations

import math
from dataclasses import dataclass

from geoalign.lab.analysis.comparison.table import BOUND, PRIMARY, ArmRow, LevelTable
from geoalign.lab.analysis.statistics import Interval, PairedDifference, paired_difference, share_interval
from geoalign.lab.config.compare import CompareConfig
from geoalign.lab.text import short

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
    """What wrong rewards cost the baseline at a level.

    Attributes:
        rate: share of wrong rewards, all kinds together.
        baseline: the arm that believes every reward.
        clean: the arm without wrong rewards.
        cost: its final score minus the baseline's, paired by seed.
        arms: all others, the oracle included, best first.
    """

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
    cost = paired_difference(clean.score.values, baseline.score.values)
    arms = [_recovered(row, baseline, clean) for row in level.rows if row.seeds and row not in (baseline, clean)]
    known = [arm for arm in arms if not math.isnan(arm.gain.interval.estimate)]
    return Recovery(
        rate=level.rate,
        baseline=baseline,
        clean=clean,
        cost=cost,
        arms=tuple(sorted(known, key=lambda arm: -arm.gain.interval.estimate)),
    )


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
    parts = [f"{arm.row.arm} {_percent(arm.share)}" for arm in shown]
    parts += [
        f"{arm.row.arm}, which knows the wrong ones, {_percent(arm.share)}" for arm in found.arms if arm not in named
    ]
    return f"{first}. Recovered of that loss: {'; '.join(parts)}." if parts else f"{first}."


def footnote(found: Recovery) -> str:
    """What the shares are of, and how far they can be trusted."""
    shares = f"Shares are of the loss, {found.clean.arm} minus {found.baseline.arm}, by final scores."
    if found.cost.pairs == 1:
        return f"{shares} One seed shows what happens, and proves nothing: other seeds give other numbers."
    if not found.cost.defined:
        return f"{shares} {found.cost.pairs} seeds give no interval."
    return f"{shares} Intervals are Fieller's over {found.cost.pairs} paired seeds, uncorrected."


def _percent(share: Interval) -> str:
    text = f"{share.estimate:.0%}"
    return text if math.isnan(share.low) else f"{text} ({share.low:.0%} to {share.high:.0%})"
