"""Whether a fit of the model of noisy verdicts may be believed, and how wide its intervals must be.

The fit takes every verdict to err by itself. Three things can be wrong with that:

- *Errors repeat with the answer.* Then verdicts on equal answers contradict each other less often than errors of the
  fitted rates would: at most a share phi of the errors repeats, where as few contradictions as were seen are still
  likely with 1 - phi of them. The rates may then be higher by 1 / (1 - phi).
- *Errors go with the prompt or come in clusters.* Tables drawn from the fit show how far counts that such errors move
  (`_counts`) vary by chance; one that lies far outside refutes the fit.
- *Whole prompts are refused, or their gold answer is wrong.* The fit then believes that no answer to them is right, or
  another one, which can be true as well. The intervals reach to the rates that follow if the most frequent answer is
  right to every prompt without a believed one, and to those that follow if an answer is right on which enough rollouts
  of a prompt agree, though it is believed to be wrong.

And errors may sit on prompts of a kind that was not met: none in K prompts leaves 1 - (1 - level)^(1 / K) at either
end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from geoalign.intervals import Interval
from geoalign.noise.channel import LEVEL, NoiseFit
from geoalign.noise.doubts import BY_CHANCE, CLUSTERED, FEW, HARDLY
from geoalign.noise.units import Units
from geoalign.noise.verdict_patterns import Patterns

# Above this share of errors that may repeat, or with fewer expected contradictions, there are no intervals.
MOST_REPEATED = 1 / 3
LEAST_EXPECTED = 10.0
# Number of tables that are drawn from the fit, and the most groups of each.
DRAWS = 64
GROUPS = 4000
# Rollouts agree on an answer if at least this many rows of a prompt, and this share of them, give it.
AGREED_ROWS = 3
AGREED_SHARE = 0.5
# In standard deviations: beyond it a count refutes the fit; one end of an interval.
REFUTED = 2.5
ONE_END = 1.96


class _Copies(NamedTuple):
    """The units of single groups, no longer of patterns of them.

    Attributes:
        units: U units, each of weight 1.
        group: [U] the group of each unit.
        groups: G, how many there are.
    """

    units: Units
    group: Int[Tensor, " u"]
    groups: int

    def by_group(self, values: Tensor) -> Float[Tensor, " g"]:
        """[G] the sums over the units of each group."""
        return torch.bincount(self.group, weights=values.double(), minlength=self.groups)


def checked_intervals(
    patterns: Patterns, fit: NoiseFit, sampled: Sequence[Interval], *, by_chance: bool
) -> list[Interval] | str:
    """The intervals of the two rates, widened; or why there are none.

    Counts of the verdicts are compared with the same counts of tables that are drawn from the fit. Contradictions, the
    first count, tell the share phi of errors that may repeat; any count that lies far outside refutes the fit.

    Args:
        sampled: the intervals of the false positive and of the false negative rate by the draw of groups alone.
        by_chance: whether chance explains the verdicts nearly as well as the fit does. This is no reason of its own
            where errors repeat, for then a poor fit is their work.
    """
    copies = _copies(patterns)
    # The fit's rates, for errors that strike verdicts one by one.
    independent = fit._replace(correlation=torch.zeros_like(fit.correlation))
    observed = _counts(copies, copies.units.counts, independent)
    generator = Generator().manual_seed(0)
    of_draws = []
    for _ in range(DRAWS):
        verdicts = _drawn_verdicts(copies, independent, generator)
        of_draws.append(_counts(copies, verdicts, independent))
    mean = torch.stack(of_draws).mean(dim=0)
    deviation = torch.stack(of_draws).std(dim=0)

    contradictions = float(observed[0])
    expected = float(mean[0])
    if expected < LEAST_EXPECTED:
        return FEW
    fewest_likely = contradictions - ONE_END * float(deviation[0])
    repeated = max(0.0, 1 - fewest_likely / expected)
    if 1 - contradictions / expected > MOST_REPEATED:
        return HARDLY.format(seen=contradictions, expected=expected)
    if repeated > MOST_REPEATED:
        return FEW

    if by_chance:
        return BY_CHANCE
    distance = (observed - mean) / deviation.clamp(min=1)
    farthest = int(distance.abs().argmax())
    if abs(float(distance[farthest])) > REFUTED:
        less, more = _COUNTS[farthest]
        return CLUSTERED.format(what=less if distance[farthest] < 0 else more)
    return _widened(patterns, fit, sampled, repeated)


_COUNTS = (
    ("fewer contradictions between equal answers", "more contradictions between equal answers"),
    ("verdicts on equal answers vary less", "verdicts on equal answers vary more"),
    ("verdicts on the answers to one prompt are less alike", "verdicts on the answers to one prompt are more alike"),
    ("fewer prompts are refused as a whole", "more prompts are refused as a whole"),
    ("fewer frequent answers are always refused", "more frequent answers are always refused"),
    ("fewer answers are always rewarded", "more answers are always rewarded"),
    ("fewer prompts have two rewarded answers", "more prompts have two rewarded answers"),
)


def _counts(copies: _Copies, counts: Float[Tensor, "u 2"], fit: NoiseFit) -> Float[Tensor, " s"]:
    """[7] what errors that repeat with the answer, or go with the prompt, would change; in the order of `_COUNTS`.

    With n verdicts on a unit, of which v are 1, and t the probability that it is right, these are the contradictions
    n0 n1; how much v varies; how alike the surprises v - E[v] of a prompt's units are; and four counts of prompts or
    answers.

    Args:
        counts: [U, 2] how many verdicts 0 and 1 each unit got.
    """
    right = replace(copies.units, counts=counts).probabilities(fit)[1]
    missed, false_positive = fit.error_rates
    true_positive = 1 - missed
    refused, rewarded = counts.unbind(1)
    rows = refused + rewarded
    repeated = rows >= 2

    def squared_deviation(rate: Tensor) -> Tensor:
        """(v - n p)^2 / (n p (1 - p)), which is 1 on average where v is binomial."""
        variance = rows * rate * (1 - rate)
        return (rewarded - rows * rate).square() / variance.clamp(min=1e-3)

    contradictions = counts.prod(dim=1)
    variation = right * squared_deviation(true_positive) + (1 - right) * squared_deviation(false_positive)

    surprise = rewarded - rows * (right * true_positive + (1 - right) * false_positive)
    # The sum over a prompt squared holds the products of different units, and the squares.
    products_within_prompts = copies.by_group(surprise).square().sum() - surprise.square().sum()

    prompt_refused = (copies.by_group(rewarded) == 0) & (copies.by_group(rows) >= 2)
    most_rows = torch.zeros(copies.groups).double().scatter_reduce(0, copies.group, rows, "amax")
    frequent = repeated & (rows == most_rows[copies.group])
    mostly_rewarded = repeated & (2 * rewarded > rows)
    found = [
        contradictions.sum(),
        variation[repeated].sum(),
        products_within_prompts,
        prompt_refused.sum(),
        (frequent & (rewarded == 0)).sum(),
        (repeated & (refused == 0)).sum(),
        (copies.by_group(mostly_rewarded) >= 2).sum(),
    ]
    return torch.stack([each.double() for each in found])


def _drawn_verdicts(copies: _Copies, fit: NoiseFit, generator: Generator) -> Float[Tensor, "u 2"]:
    """[U, 2] verdicts 0 and 1 as the fit would have them.

    First the truth is drawn: of each exclusive set one unit is right, or none, by its prior and by what trusted rows
    tell. Then each verdict errs by itself.
    """
    units = copies.units
    chances = units.chances_of_truth(fit)
    labels = int(units.exclusive_set.max()) + 1
    none_right = 1 - torch.bincount(units.exclusive_set, weights=chances, minlength=labels)

    def with_gumbel_noise(chance: Tensor) -> Tensor:
        """Adds Gumbel noise to log-probabilities: each entry is the largest with its own probability."""
        uniform = torch.rand(len(chance), generator=generator, dtype=torch.float64)
        return chance.clamp(min=1e-300).log() - (-uniform.log()).log()

    of_units = with_gumbel_noise(chances)
    best = with_gumbel_noise(none_right).scatter_reduce(0, units.exclusive_set, of_units, "amax")
    right = of_units == best[units.exclusive_set]
    missed, false_positive = fit.error_rates
    rows = units.counts.sum(dim=1)
    chance_of_reward = torch.where(right, 1 - missed, false_positive)
    rewarded = torch.binomial(rows, chance_of_reward, generator=generator)
    return torch.stack([rows - rewarded, rewarded], dim=1)


def _copies(patterns: Patterns) -> _Copies:
    """The groups that the patterns stand for, one by one, of more than `GROUPS` a random choice."""
    units = patterns.units
    number = len(patterns.times)
    pattern_of_group = torch.arange(number).repeat_interleave(patterns.times.long())
    if len(pattern_of_group) > GROUPS:
        shuffled = torch.randperm(len(pattern_of_group), generator=Generator().manual_seed(0))
        pattern_of_group = pattern_of_group[shuffled[:GROUPS]]
    groups = len(pattern_of_group)
    # The units of a pattern lie side by side once sorted, from `start` on.
    sorted_units = patterns.pattern.argsort(stable=True)
    size = torch.bincount(patterns.pattern, minlength=number)
    start = size.cumsum(0) - size
    size_of_group = size[pattern_of_group]
    group = torch.arange(groups).repeat_interleave(size_of_group)
    first_of_group = size_of_group.cumsum(0) - size_of_group
    place_in_group = torch.arange(len(group)) - first_of_group[group]
    unit = sorted_units[start[pattern_of_group][group] + place_in_group]
    exclusive_set = units.exclusive_set[unit] * groups + group
    copied = replace(
        units,
        group=group,
        counts=units.counts[unit],
        known_log_odds=units.known_log_odds[unit],
        features=units.features[unit],
        fixed_log_odds=units.fixed_log_odds[unit],
        weight=torch.ones(len(unit)).double(),
        exclusive_set=exclusive_set.unique(return_inverse=True)[1],
        shared=units.shared[unit],
    )
    return _Copies(copied, group, groups)


def _widened(patterns: Patterns, fit: NoiseFit, sampled: Sequence[Interval], repeated: float) -> list[Interval]:
    """The intervals with room for errors that repeat, for agreed answers that are refused, and for prompts not met.

    Args:
        repeated: phi, the share of errors that may repeat with the answer.
    """
    right = patterns.units.probabilities(fit)[1]
    rates_if_strict = _rates(patterns, _right_if_strict(patterns, right))
    rates_if_other_gold = _rates(patterns, _right_if_other_gold(patterns, right))
    rows = patterns.units.counts.sum(dim=1)
    widened = []
    for interval, share, if_strict, if_other_gold in zip(
        sampled, (1 - right, right), rates_if_strict, rates_if_other_gold, strict=True
    ):
        # Prompts that have a row of this kind, wrong or right; on others errors may be of a kind that was not met.
        prompts_met = float(patterns.times @ patterns.sums(share * rows).clamp(max=1))
        unmet = 1 - (1 - LEVEL) ** (1 / max(prompts_met, 1.0))
        low = min(interval.low, if_strict) - unmet
        high = max(interval.high / (1 - repeated), if_strict, if_other_gold)
        high = 1 - (1 - high) * (1 - unmet)
        widened.append(Interval(interval.estimate, low=max(low, 0.0), high=min(high, 1.0)))
    return widened


def _right_if_strict(patterns: Patterns, right: Float[Tensor, " c"]) -> Float[Tensor, " c"]:
    """[C] P(right) if the most frequent answer is right to every prompt to which none is believed."""
    rows = patterns.units.counts.sum(dim=1)
    nothing_believed = patterns.sums(right) < 0.5
    raised = _leads(patterns) & _may_be_right(patterns) & (rows >= 2) & nothing_believed[patterns.pattern]
    return torch.where(raised, torch.ones_like(right), right)


def _right_if_other_gold(patterns: Patterns, right: Float[Tensor, " c"]) -> Float[Tensor, " c"]:
    """[C] P(right) if an answer on which rollouts agree, though it is believed to be wrong, is right, and no other one
    that it excludes."""
    rows = patterns.units.counts.sum(dim=1)
    rows_of_prompt = patterns.sums(rows)[patterns.pattern]
    many = (rows >= AGREED_ROWS) & (rows >= AGREED_SHARE * rows_of_prompt)
    agreed = _leads(patterns) & _may_be_right(patterns) & many & (right < 0.5)
    has_agreed = patterns.sums(agreed) > 0
    settled = agreed | (has_agreed[patterns.pattern] & ~patterns.units.shared)
    return torch.where(settled, agreed.double(), right)


def _may_be_right(patterns: Patterns) -> Bool[Tensor, " c"]:
    """[C] whether no trusted row tells that the unit is wrong, or that one of its pattern that excludes it is right."""
    known = patterns.units.known_log_odds
    is_solved = patterns.sums((known > 0) & ~patterns.units.shared) > 0
    return (known == 0) & ~is_solved[patterns.pattern]


def _rates(patterns: Patterns, right: Float[Tensor, " c"]) -> tuple[float, float]:
    """False positive and false negative rate where the units are right with these probabilities."""
    refused, rewarded = patterns.units.counts.unbind(1)
    rows = refused + rewarded

    def over_all_groups(values: Tensor) -> Tensor:
        return patterns.times @ patterns.sums(values)

    wrong_rows = over_all_groups((1 - right) * rows)
    right_rows = over_all_groups(right * rows)
    false_positive = over_all_groups((1 - right) * rewarded) / wrong_rows.clamp(min=1e-30)
    false_negative = over_all_groups(right * refused) / right_rows.clamp(min=1e-30)
    return float(false_positive), float(false_negative)


def _leads(patterns: Patterns) -> Bool[Tensor, " c"]:
    """[C] whether the unit has the most rows of its pattern; of several such units the one that was refused most often.

    For who leads is believed to be right where the verifier refused it, and errs the more.
    """
    refused, rewarded = patterns.units.counts.unbind(1)
    rows = refused + rewarded
    has_most_rows = rows == _most(rows, patterns)
    refusals = refused.masked_fill(~has_most_rows, -1)
    is_refused_most = refusals == _most(refusals, patterns)
    place = torch.arange(len(rows)).double()
    # Of units with equal verdicts any may lead.
    last_place = _most(place.masked_fill(~(has_most_rows & is_refused_most), -1), patterns)
    return place == last_place


def _most(values: Float[Tensor, " c"], patterns: Patterns) -> Float[Tensor, " c"]:
    """[C] the highest of the values among the units of the unit's pattern."""
    lowest = torch.full((len(patterns.times),), -torch.inf).double()
    return lowest.scatter_reduce(0, patterns.pattern, values, "amax")[patterns.pattern]
