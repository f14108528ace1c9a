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
from geoalign.noise.channel import NoiseFit
from geoalign.noise.units import Units
from geoalign.noise.verdict_patterns import Patterns

NO_ANSWERS = "no rollout has an answer, and no response got both verdicts"
NEVER = "verdicts on equal answers never contradict each other, so errors that repeat with the answer would not show"
HARDLY = (
    "verdicts on equal answers hardly contradict each other (in {seen:,.0f} pairs, where errors that do not repeat "
    "would leave about {expected:,.0f}), so errors that repeat with the answer would not show"
)
FEW = "too few answers were judged twice to tell whether errors repeat with the answer"
CLUSTERED = "errors do not strike verdicts one by one: {what} than such errors would leave"

# Above this share of errors that may repeat, or with fewer expected contradictions, nothing is told.
MOST_REPEATED = 1 / 3
LEAST_EXPECTED = 10.0
# Tables drawn from the fit, of at most so many groups.
DRAWS = 64
GROUPS = 4000
# Rollouts agree on an answer that so many rows of a prompt give, and so large a share.
AGREED_ROWS = 3
AGREED_SHARE = 0.5
# In standard deviations: beyond it a count refutes the fit; one end of an interval.
REFUTED = 2.5
ONE_END = 1.96


class _Copies(NamedTuple):
    """The units of single groups, no longer of patterns of them."""

    units: Units
    group: Int[Tensor, " u"]
    groups: int

    def by_group(self, values: Tensor) -> Float[Tensor, " g"]:
        """[G] the sums over the units of each group."""
        return torch.bincount(self.group, weights=values.double(), minlength=self.groups)


def checked(patterns: Patterns, fit: NoiseFit, sampled: Sequence[Interval], level: float) -> list[Interval] | str:
    """The intervals of the two rates, widened; or why there are none.

    Args:
        sampled: the intervals of the false positive and of the false negative rate by the draw of groups alone.
    """
    copies = _copies(patterns)
    # What the fit says of errors that strike verdicts one by one.
    alone = fit._replace(correlation=torch.zeros_like(fit.correlation))
    seen = _counts(copies, copies.units.counts, alone)
    generator = Generator().manual_seed(0)
    drawn = torch.stack([_counts(copies, _drawn(copies, alone, generator), alone) for _ in range(DRAWS)])
    mean = drawn.mean(dim=0)
    deviation = drawn.std(dim=0)

    contradictions = float(seen[0])
    expected = float(mean[0])
    if expected < LEAST_EXPECTED:
        return FEW
    repeated = max(0.0, 1 - (contradictions - ONE_END * float(deviation[0])) / expected)
    if 1 - contradictions / expected > MOST_REPEATED:
        return HARDLY.format(seen=contradictions, expected=expected)
    if repeated > MOST_REPEATED:
        return FEW

    distance = (seen - mean) / deviation.clamp(min=1)
    farthest = int(distance.abs().argmax())
    if abs(float(distance[farthest])) > REFUTED:
        less, more = _COUNTS[farthest]
        return CLUSTERED.format(what=less if distance[farthest] < 0 else more)
    return _widened(patterns, fit, sampled, repeated, level)


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
    """[S] what errors that repeat, or go with the prompt, would change; in the order of `_COUNTS`."""
    units = replace(copies.units, counts=counts)
    right = units.probabilities(fit)[1]
    missed, false = fit.error_rates
    refused, rewarded = counts.unbind(1)
    rows = refused + rewarded
    repeated = rows >= 2

    def excess(rate: Tensor) -> Tensor:
        """(v - n p)^2 / (n p (1 - p)): 1 on average where v is binomial."""
        return (rewarded - rows * rate).square() / (rows * rate * (1 - rate)).clamp(min=1e-3)

    variation = (right * excess(1 - missed) + (1 - right) * excess(false))[repeated].sum()
    surprise = rewarded - rows * (right * (1 - missed) + (1 - right) * false)
    within_prompts = copies.by_group(surprise).square().sum() - surprise.square().sum()
    refused_prompts = (copies.by_group(rewarded) == 0) & (copies.by_group(rows) >= 2)
    most = torch.zeros(copies.groups).double().scatter_reduce(0, copies.group, rows, "amax")
    frequent = repeated & (rows == most[copies.group])
    two_rewarded = copies.by_group(repeated & (2 * rewarded > rows)) >= 2
    found = [
        counts.prod(dim=1).sum(),
        variation,
        within_prompts,
        refused_prompts.sum(),
        (frequent & (rewarded == 0)).sum(),
        (repeated & (refused == 0)).sum(),
        two_rewarded.sum(),
    ]
    return torch.stack([each.double() for each in found])


def _drawn(copies: _Copies, fit: NoiseFit, generator: Generator) -> Float[Tensor, "u 2"]:
    """[U, 2] verdicts as the fit would have them: of each exclusive group one unit is right or none, by its prior."""
    units = copies.units
    prior = units.probabilities(fit)[0]
    labels = int(units.exclusive.max()) + 1
    none_right = 1 - torch.bincount(units.exclusive, weights=prior, minlength=labels)

    def with_gumbel_noise(chance: Tensor) -> Tensor:
        """Scores of which each is the largest with its chance."""
        uniform = torch.rand(len(chance), generator=generator, dtype=torch.float64)
        return chance.clamp(min=1e-300).log() - (-uniform.log()).log()

    of_units = with_gumbel_noise(prior)
    best = with_gumbel_noise(none_right).scatter_reduce(0, units.exclusive, of_units, "amax")
    right = of_units == best[units.exclusive]
    missed, false = fit.error_rates
    rows = units.counts.sum(dim=1)
    rewarded = torch.binomial(rows, torch.where(right, 1 - missed, false), generator=generator)
    return torch.stack([rows - rewarded, rewarded], dim=1)


def _copies(patterns: Patterns) -> _Copies:
    """The groups that the patterns stand for, one by one, of more than `GROUPS` a random choice."""
    units = patterns.units
    of_unit = patterns.pattern
    number = len(patterns.times)
    pattern_of_group = torch.arange(number).repeat_interleave(patterns.times.long())
    if len(pattern_of_group) > GROUPS:
        chosen = torch.randperm(len(pattern_of_group), generator=Generator().manual_seed(0))[:GROUPS]
        pattern_of_group = pattern_of_group[chosen]
    groups = len(pattern_of_group)
    # The units of a pattern lie side by side once sorted, from `start` on.
    sorted_units = of_unit.argsort(stable=True)
    size = torch.bincount(of_unit, minlength=number)
    start = size.cumsum(0) - size
    size_of_group = size[pattern_of_group]
    group = torch.arange(groups).repeat_interleave(size_of_group)
    first_of_group = (size_of_group.cumsum(0) - size_of_group)[group]
    place_in_group = torch.arange(len(group)) - first_of_group
    unit = sorted_units[start[pattern_of_group][group] + place_in_group]
    exclusive = units.exclusive[unit] * groups + group
    copied = replace(
        units,
        group=group,
        counts=units.counts[unit],
        known_log_odds=units.known_log_odds[unit],
        features=units.features[unit],
        fixed_log_odds=units.fixed_log_odds[unit],
        weight=torch.ones(len(unit)).double(),
        exclusive=exclusive.unique(return_inverse=True)[1],
    )
    return _Copies(copied, group, groups)


def _widened(
    patterns: Patterns, fit: NoiseFit, sampled: Sequence[Interval], repeated: float, level: float
) -> list[Interval]:
    """The intervals with room for errors that repeat, for agreed answers that are refused, and for prompts not met.

    Args:
        repeated: phi, the share of errors that may repeat with the answer.
    """
    units, of_unit, times = patterns
    number = len(times)
    right = units.probabilities(fit)[1]
    refused, rewarded = units.counts.unbind(1)
    rows = refused + rewarded

    def per_pattern(values: Tensor) -> Float[Tensor, " p"]:
        return torch.bincount(of_unit, weights=values.double(), minlength=number)

    def rates_if(right: Tensor) -> tuple[float, float]:
        """Both rates where the units are right with these probabilities."""
        wrong_rows = times @ per_pattern((1 - right) * rows)
        right_rows = times @ per_pattern(right * rows)
        accepted = times @ per_pattern((1 - right) * rewarded)
        missed = times @ per_pattern(right * refused)
        return float(accepted / wrong_rows.clamp(min=1e-30)), float(missed / right_rows.clamp(min=1e-30))

    leads = _leaders(rows, of_unit, number)
    nothing_believed = (per_pattern(right) < 0.5)[of_unit]
    if_strict = rates_if(torch.where(leads & (rows >= 2) & nothing_believed, torch.ones_like(right), right))
    agreed = leads & (rows >= AGREED_ROWS) & (rows >= AGREED_SHARE * per_pattern(rows)[of_unit]) & (right < 0.5)
    if_other_gold = rates_if(torch.where((per_pattern(agreed) > 0)[of_unit], agreed.double(), right))

    widened = []
    for rate, class_share in enumerate((1 - right, right)):
        interval = sampled[rate]
        prompts_met = float(times @ per_pattern(class_share * rows).clamp(max=1))
        unmet = 1 - (1 - level) ** (1 / max(prompts_met, 1.0))
        low = min(interval.low, if_strict[rate]) - unmet
        high = max(interval.high / (1 - repeated), if_strict[rate], if_other_gold[rate])
        widened.append(Interval(interval.estimate, max(low, 0.0), min(1 - (1 - high) * (1 - unmet), 1.0)))
    return widened


def _leaders(rows: Float[Tensor, " c"], of_unit: Int[Tensor, " c"], patterns: int) -> Bool[Tensor, " c"]:
    """[C] the unit with the most rows of each pattern, of several the first."""
    most = torch.zeros(patterns).double().scatter_reduce(0, of_unit, rows, "amax")
    place = torch.arange(len(rows)).masked_fill(rows < most[of_unit], len(rows))
    first = torch.full((patterns,), len(rows)).scatter_reduce(0, of_unit, place, "amin")
    return first[of_unit] == torch.arange(len(rows))
