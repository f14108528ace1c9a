"""The verdicts on the answers to a prompt as counts, prompts of which the same is known as one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from geoalign.noise.rows import NoisyRows, sum_by_label
from geoalign.noise.units import Units


@dataclass(frozen=True, eq=False)
class Patterns:
    """The units with verdicts, groups with equal counts of verdicts and equal known truths as one pattern.

    Neither the order of the rows nor the numbers of groups and answers show in it.

    Attributes:
        units: C units, those of one group of each pattern: pattern by pattern, within it by `_kinds`.
        pattern: [C] the pattern of each unit.
        times: [P] how many groups each pattern stands for.
    """

    units: Units
    pattern: Int[Tensor, " c"]
    times: Float[Tensor, " p"]

    def sums(self, values: Tensor) -> Float[Tensor, " p"]:
        """[P] the sums over the units of each pattern."""
        return torch.bincount(self.pattern, weights=values.double(), minlength=len(self.times))


def patterns_of(rows: NoisyRows, units: Units) -> Patterns:
    """The patterns of the units that got verdicts, or whose truth trusted rows tell, in groups with verdicts.

    The prior of an answer is made anew of counts alone (`_features`), so that verdicts are independent of it given the
    truth.
    """
    group = units.group
    judged = units.counts.sum(dim=1) > 0
    told = units.known_log_odds != 0
    answered_rows = sum_by_label(rows.answered, units.of_row)
    kind = _kinds(units, answered_rows)
    # Units of neither verdicts nor answers say nothing of their group.
    pattern, times = _pattern_of_groups(kind, group, judged | (answered_rows > 0))
    # Of each pattern the units of its first group are kept.
    first_group = torch.full((len(times),), len(pattern))
    first_group = first_group.scatter_reduce(0, pattern, torch.arange(len(pattern)), "amin")
    has_verdicts = sum_by_label(judged, group)[group] > 0
    is_kept = (judged | (told & has_verdicts)) & (first_group[pattern[group]] == group)
    kept = is_kept.nonzero().flatten()
    kept = kept[kind[kept].argsort(stable=True)]
    kept = kept[pattern[group[kept]].argsort(stable=True)]
    features = _features(rows, units, group, answered_rows)[kept]
    # The log share of an answer, the second feature, has the prior mean that it has among all units.
    prior_theta = torch.zeros(features.shape[1]).double()
    prior_theta[1] = units.prior_theta[1]
    of_unit = pattern[group[kept]]
    distinct = replace(
        units,
        group=of_unit,
        counts=units.counts[kept],
        known_log_odds=units.known_log_odds[kept],
        features=features,
        fixed_log_odds=units.fixed_log_odds[kept],
        weight=times[of_unit].double(),
        exclusive_set=_numbered_as_they_come(units.exclusive_set[kept]),
        shared=units.shared[kept],
        prior_theta=prior_theta,
        least_theta=torch.full_like(prior_theta, -torch.inf),
    )
    return Patterns(distinct, of_unit, times.double())


def _kinds(units: Units, answered_rows: Float[Tensor, " c"]) -> Int[Tensor, " c"]:
    """[C] units of one number are alike: in their rows with an answer, their verdicts, and what else is known of them.

    Numbers ascend with the answered rows, then with whether there are verdicts, with refusals and with rewards.
    """
    refused, rewarded = units.counts.unbind(1)
    judged = refused + rewarded > 0
    # Of units without verdicts it does not matter how likely those were held to be right.
    fixed = units.fixed_log_odds.double() * judged
    shared = units.shared.double()
    alike = [answered_rows, judged.double(), refused, rewarded, units.known_log_odds, fixed, shared]
    return torch.stack(alike, dim=1).unique(dim=0, return_inverse=True)[1]


def _pattern_of_groups(
    kind: Int[Tensor, " c"], group: Int[Tensor, " c"], counted: Bool[Tensor, " c"]
) -> tuple[Int[Tensor, " g"], Int[Tensor, " p"]]:
    """[G] the pattern of each group, and [P] how many groups have it; groups are alike in their counted units."""
    # Two groups are alike where the sums of 62 random bits for each kind of unit are equal.
    codes = torch.randint(2**62, (int(kind.max()) + 1,), generator=Generator().manual_seed(0))
    sums = torch.zeros(int(group.max()) + 1, dtype=torch.long)
    sums = sums.index_add(0, group, codes[kind] * counted)
    _, pattern, times = sums.unique(return_inverse=True, return_counts=True)
    return pattern, times


def _numbered_as_they_come(labels: Int[Tensor, " c"]) -> Int[Tensor, " c"]:
    """[C] the labels by numbers from 0, in the order in which they first occur."""
    _, number = labels.unique(return_inverse=True)
    first = torch.full((int(number.max()) + 1,), len(labels))
    first = first.scatter_reduce(0, number, torch.arange(len(labels)), "amin")
    return first.argsort().argsort()[number]


def _features(
    rows: NoisyRows, units: Units, group: Int[Tensor, " c"], answered_rows: Float[Tensor, " c"]
) -> Float[Tensor, "c f"]:
    """[C, F] what the prior of an answer is made of.

    Of n rows of an answer among N answered ones, o of the most frequent other answer and A answers, these are 1,
    log n/N and its square, log (n + 1/2) / (o + 1/2) and its square, log A, and whether n = 1. Units without an answer
    have the fourth feature of `verdict_units` alone.
    """
    groups = int(group.max()) + 1
    n = answered_rows.clamp(min=1)
    answered = (answered_rows > 0).double()
    most = answered_rows.new_zeros(groups).scatter_reduce(0, group, answered_rows, "amax")[group]
    leads = answered_rows == most
    behind = answered_rows.masked_fill(leads, 0)
    second = answered_rows.new_zeros(groups).scatter_reduce(0, group, behind, "amax")[group]
    leads_alone = leads & (sum_by_label(leads, group)[group] == 1)
    other = torch.where(leads_alone, second, most)
    answered_in_group = sum_by_label(rows.answered, rows.group)[group].clamp(min=1)
    log_share = (n / answered_in_group).log()
    log_ahead = ((n + 0.5) / (other + 0.5)).log()
    log_answers = sum_by_label(answered, group)[group].clamp(min=1).log()
    features = [
        answered,
        log_share,
        log_share.square(),
        log_ahead,
        log_ahead.square(),
        log_answers,
        (answered_rows == 1).double(),
    ]
    of_answers = torch.stack(features, dim=1) * answered[:, None]
    return torch.cat([of_answers, units.features[:, 3:4]], dim=1)
