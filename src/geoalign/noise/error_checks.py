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

from geoalign.method.intervals import Interval
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
DRAWS, GROUPS = 64, 4000
# Rollouts agree on an answer that so many rows of a prompt give, and so large a share.
AGREED_ROWS, AGREED_SHARE = 3, 0.5
# In standard deviations: beyond it a count refutes the fit; one end of an interval.
REFUTED, ONE_END = 2.5, 1.96


class _Copies(NamedTuple):
    """The units of single groups, no longer of patterns of them."""

    units: Units
    group: Int[Tensor, " u"]
    groups: int

    def sums(self, values: Tensor) -> Float[Tensor, " g"]:
        return torch.bincount(self.group, weights=values.double(), minlength=self.groups)


def checked(patterns: Patterns, fit: NoiseFit, sampled: Sequence[Interval], level: float) -> list[Interval] | str:
    """The intervals of the two rates, widened; or why there are none."""
    copies = _copies(patterns)
    # What the fit says of errors that strike verdicts one by one.
    alone = fit._replace(correlation=torch.zeros_like(fit.correlation))
    seen = _counts(copies, copies.units.counts, alone)
    generator = Generator().manual_seed(0)
    drawn = torch.stack([_counts(copies, _drawn(copies, alone, generator), alone) for _ in range(DRAWS)])
    mean, deviation = drawn.mean(dim=0), drawn.std(dim=0)
    pairs, expected, spread = float(seen[0]), float(mean[0]), float(deviation[0])
    if expected < LEAST_EXPECTED:
        return FEW
    repeated = max(0.0, 1 - (pairs - ONE_END * spread) / expected)
    if 1 - pairs / expected > MOST_REPEATED:
        return HARDLY.format(seen=pairs, expected=expected)
    if repeated > MOST_REPEATED:
        return FEW
    distance = (seen - mean) / deviation.clamp(min=1)
    worst = int(distance.abs().argmax())
    if abs(float(distance[worst])) > REFUTED:
        less, more = _COUNTS[worst]
        return CLUSTERED.format(what=less if distance[worst] < 0 else more)
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

    varied = (right * excess(1 - missed) + (1 - right) * excess(false))[repeated].sum()
    surprise = rewarded - rows * (right * (1 - missed) + (1 - right) * false)
    together = copies.sums(surprise).square().sum() - surprise.square().sum()
    refused_whole = (copies.sums(rewarded) == 0) & (copies.sums(rows) >= 2)
    most = torch.zeros(copies.groups).double().scatter_reduce(0, copies.group, rows, "amax")
    frequent = repeated & (rows == most[copies.group])
    both = copies.sums(repeated & (2 * rewarded > rows)) >= 2
    found = [
        counts.prod(dim=1).sum(), varied, together, refused_whole.sum(), (frequent & (rewarded == 0)).sum(),
        (repeated & (refused == 0)).sum(), both.sum(),
    ]  # fmt: skip
    return torch.stack([each.double() for each in found])


def _drawn(copies: _Copies, fit: NoiseFit, generator: Generator) -> Float[Tensor, "u 2"]:
    """[U, 2] verdicts as the fit would have them: of each exclusive group one unit is right or none, by its prior."""
    units = copies.units
    prior = units.probabilities(fit)[0]
    choices = int(units.exclusive.max()) + 1
    none = 1 - torch.bincount(units.exclusive, weights=prior, minlength=choices)

    def gumbel(chance: Tensor) -> Tensor:
        """The largest of these is each with its chance."""
        uniform = torch.rand(len(chance), generator=generator, dtype=torch.float64)
        return chance.clamp(min=1e-300).log() - (-uniform.log()).log()

    found = gumbel(prior)
    best = gumbel(none).scatter_reduce(0, units.exclusive, found, "amax")
    right = found == best[units.exclusive]
    missed, false = fit.error_rates
    rows = units.counts.sum(dim=1)
    rewarded = torch.binomial(rows, torch.where(right, 1 - missed, false), generator=generator)
    return torch.stack([rows - rewarded, rewarded], dim=1)


def _copies(patterns: Patterns) -> _Copies:
    """The groups that the patterns stand for, one by one, of more than `GROUPS` a random choice."""
    units, of, times = patterns
    pattern = torch.arange(len(times)).repeat_interleave(times.long())
    if len(pattern) > GROUPS:
        pattern = pattern[torch.randperm(len(pattern), generator=Generator().manual_seed(0))[:GROUPS]]
    # The units of a pattern lie side by side once sorted.
    order = of.argsort(stable=True)
    size = torch.bincount(of, minlength=len(times))
    start = size.cumsum(0) - size
    group = torch.arange(len(pattern)).repeat_interleave(size[pattern])
    first = (size[pattern].cumsum(0) - size[pattern])[group]
    unit = order[start[pattern][group] + torch.arange(len(group)) - first]
    exclusive = units.exclusive[unit] * len(pattern) + group
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
    return _Copies(copied, group, len(pattern))


def _widened(
    patterns: Patterns, fit: NoiseFit, sampled: Sequence[Interval], repeated: float, level: float
) -> list[Interval]:
    """The intervals with room for errors that repeat, for agreed answers that are refused, and for prompts not met."""
    units, of, times = patterns
    right = units.probabilities(fit)[1]
    refused, rewarded = units.counts.unbind(1)
    rows = refused + rewarded
    count = len(times)

    def per_pattern(values: Tensor) -> Float[Tensor, " p"]:
        return torch.bincount(of, weights=values.double(), minlength=count)

    def rates_if(right: Tensor) -> list[float]:
        """Both rates where the units are right with these probabilities."""
        wrong_rows, right_rows = times @ per_pattern((1 - right) * rows), times @ per_pattern(right * rows)
        errors = times @ per_pattern((1 - right) * rewarded), times @ per_pattern(right * refused)
        return [float(errors[0] / wrong_rows.clamp(min=1e-30)), float(errors[1] / right_rows.clamp(min=1e-30))]

    leads = _leaders(rows, of, count)
    nothing_believed = (per_pattern(right) < 0.5)[of]
    strict = torch.where(leads & (rows >= 2) & nothing_believed, torch.ones_like(right), right)
    agreed = leads & (rows >= AGREED_ROWS) & (rows >= AGREED_SHARE * per_pattern(rows)[of]) & (right < 0.5)
    other_gold = torch.where((per_pattern(agreed) > 0)[of], agreed.double(), right)

    found = []
    for at, (interval, share) in enumerate(zip(sampled, (1 - right, right), strict=True)):
        if_strict, if_other_gold = rates_if(strict)[at], rates_if(other_gold)[at]
        prompts = float(times @ per_pattern(share * rows).clamp(max=1))
        unmet = 1 - (1 - level) ** (1 / max(prompts, 1.0))
        low = min(interval.low, if_strict) - unmet
        high = max(interval.high / (1 - repeated), if_strict, if_other_gold)
        found.append(Interval(interval.estimate, max(low, 0.0), min(1 - (1 - high) * (1 - unmet), 1.0)))
    return found


def _leaders(rows: Float[Tensor, " c"], of: Int[Tensor, " c"], patterns: int) -> Bool[Tensor, " c"]:
    """[C] the unit with the most rows of each pattern, of several the first."""
    most = torch.zeros(patterns).double().scatter_reduce(0, of, rows, "amax")
    place = torch.arange(len(rows)).masked_fill(rows < most[of], len(rows))
    first = torch.full((patterns,), len(rows)).scatter_reduce(0, of, place, "amin")
    return first[of] == torch.arange(len(rows))
