"""The verdicts on the answers to a prompt as counts, prompts with equal counts as one."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from geoalign.noise.rows import NoisyRows, total
from geoalign.noise.units import Units


class Patterns(NamedTuple):
    """The units with verdicts, groups with equal counts of verdicts as one pattern."""

    units: Units
    pattern: Int[Tensor, " c"]  # of each unit
    times: Float[Tensor, " p"]  # groups that a pattern stands for


def patterns_of(rows: NoisyRows, units: Units) -> Patterns:
    """The units with verdicts, groups with equal counts of verdicts as one: with the group of each unit, and how many
    groups each stands for.

    Of n rows of an answer among N answered ones, o of the most frequent other answer and A answers, its log-odds are a
    function of log n/N and log (n + 1/2) / (o + 1/2), their squares, log A and n = 1: of counts alone, so that the
    verdicts are independent of them given the truth.
    """
    judged = units.counts.sum(dim=1) > 0
    group = torch.zeros(len(judged), dtype=torch.long).index_put((units.of_row,), rows.group)
    count = total(rows.answered, units.of_row)
    kinds = torch.cat([torch.stack([count, judged.double()], dim=1), units.counts], dim=1)
    kinds = kinds.unique(dim=0, return_inverse=True)[1]
    # Two groups are alike where the sums of 62 random bits for each kind of unit are equal.
    codes = torch.randint(2**62, (int(kinds.max()) + 1,), generator=Generator().manual_seed(0))
    alike = torch.zeros(int(group.max()) + 1, dtype=torch.long)
    alike = alike.index_add(0, group, codes[kinds] * (judged | (count > 0)))
    pattern, times = alike.unique(return_inverse=True, return_counts=True)[1:]
    first = torch.full((len(times),), len(pattern)).scatter_reduce(0, pattern, torch.arange(len(pattern)), "amin")
    kept = judged & (first[pattern[group]] == group)
    n, answered = count.clamp(min=1), (count > 0).double()
    most = count.new_zeros(len(pattern)).scatter_reduce(0, group, count, "amax")[group]
    leads = count == most
    second = count.new_zeros(len(pattern)).scatter_reduce(0, group, count.masked_fill(leads, 0), "amax")[group]
    other = torch.where(leads & (total(leads, group)[group] == 1), second, most)
    share = (n / total(rows.answered, rows.group)[group].clamp(min=1)).log()
    ahead, answers = ((n + 0.5) / (other + 0.5)).log(), total(answered, group)[group].clamp(min=1).log()
    features = [answered, share, share.square(), ahead, ahead.square(), answers, (count == 1).double()]
    told = torch.stack(features, dim=1) * answered[:, None]
    told = torch.cat([told, units.features[:, 3:4]], dim=1)
    start = torch.nn.functional.one_hot(torch.tensor(1), told.shape[1]) * units.prior_theta[1]
    of = pattern[group[kept]]
    distinct = replace(
        units,
        group=of,
        counts=units.counts[kept],
        known_log_odds=units.known_log_odds[kept],
        features=told[kept],
        fixed_log_odds=units.fixed_log_odds[kept],
        weight=times[of].double(),
        exclusive=units.exclusive[kept].unique(return_inverse=True)[1],
        prior_theta=start,
        least_theta=torch.full_like(start, -torch.inf),
    )
    return Patterns(distinct, of, times.double())
