"""Rows as the noise models read them, of one batch or of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.method.advantages import group_advantages
from geoalign.method.groups import GroupedRows
from geoalign.types import Rollouts

# Rewards of one response that are no further apart, in deviations of the group, are one reward.
ROUNDING = 1e-3


@dataclass(frozen=True, eq=False)
class NoisyRows:
    """Rows of one batch or of several as the noise models read them: on the CPU, in sorted order, numbers in float64.

    Attributes:
        rewards: [N] as observed; NaN where unscored.
        group: [N] dense group index.
        response: [N] rows of equal number gave the same response.
        answer: [N] rows of equal number gave the same answer or, without one, the same response.
        answered: [N] whether the row has an answer.
        trusted: [N] whether the reward is known to be true.
        predictions: [N, S, 2] by each state, fitted on either kind of rows (`fitted_on`) of other batches.
        inflation: [N] factor on the variance of the predictions' agreement with the rewards.
        weights: [N] weight in the fits.
    """

    rewards: Float[Tensor, " n"]
    group: Int[Tensor, " n"]
    response: Int[Tensor, " n"]
    answer: Int[Tensor, " n"]
    answered: Bool[Tensor, " n"]
    trusted: Bool[Tensor, " n"]
    predictions: Float[Tensor, "n s 2"]
    inflation: Float[Tensor, " n"]
    weights: Float[Tensor, " n"]

    @property
    def scored(self) -> Bool[Tensor, " n"]:
        """Whether the row has a reward."""
        return ~self.rewards.isnan()

    @property
    def standardised(self) -> Float[Tensor, " n"]:
        """The rewards standardised within their groups; 0 in groups of one or of equal rewards, and where unscored."""
        return group_advantages(self.rewards, self.group)

    @property
    def deviation(self) -> Float[Tensor, " n"]:
        """The deviation of the rewards of each row's group; 0 in groups of one or of equal rewards."""
        centred = group_advantages(self.rewards, self.group, scale="none")
        total = torch.zeros(int(self.group.max()) + 1, 2, dtype=torch.float64)
        total = total.index_add_(
            0, self.group, torch.stack([centred.abs(), self.standardised.abs()], dim=1).nan_to_num()
        )
        return (total[:, 0] / total[:, 1].clamp(min=1e-30))[self.group]

    @property
    def accompanied(self) -> Bool[Tensor, " n"]:
        """Scored rows of groups with two rewards at least."""
        return self.scored & (torch.bincount(self.group, weights=self.scored.double()) >= 2)[self.group]

    @property
    def fitted_on(self) -> Bool[Tensor, "n 2"]:
        """[N, 2] the rows that states are fitted to and tested on: all of unequal groups, or those between extremes.

        Rewards that are wrong by far stand at the extremes of their groups, where right ones are rare: between them
        the rewards may agree with the states where over all rows they do not. Binary rewards have none between.
        Trusted rows have a fit of their own; the same ones may come with every batch.
        """
        unequal = (self.standardised != 0) & ~self.trusted
        return torch.stack([unequal, unequal & _between(self.rewards, self.group)], dim=1)


def noisy_rows(rollouts: Rollouts, order: GroupedRows, *, answers: bool, trusted_weight: float = 1.0) -> NoisyRows:
    """The batch in sorted order, without predictions; rows without `response_keys` are responses of their own."""
    permutation, group = order.order.cpu(), order.group.cpu()
    rows = permutation.tolist()
    keys = rows if rollouts.response_keys is None else rollouts.response_keys.cpu()[permutation].tolist()
    given = [None] * len(rows) if rollouts.answers is None or not answers else [rollouts.answers[row] for row in rows]
    groups = group.tolist()
    response = _dense(list(zip(groups, keys, strict=True)))
    labels = [
        (index, "response", key) if answer is None else (index, "answer", answer)
        for index, key, answer in zip(groups, keys, given, strict=True)
    ]
    rewards = rollouts.rewards.cpu().double()[permutation]
    trusted = torch.zeros(len(rows), dtype=torch.bool)
    if rollouts.trusted is not None:
        trusted = rollouts.trusted.cpu()[permutation] & ~rewards.isnan()
    return NoisyRows(
        rewards=rewards,
        group=group,
        response=response,
        answer=_dense(labels),
        answered=torch.tensor([answer is not None for answer in given]),
        trusted=trusted,
        predictions=rewards.new_zeros(len(rows), 0, 2),
        inflation=torch.ones_like(rewards),
        weights=torch.where(trusted, trusted_weight, 1.0).double(),
    )


def joined(batches: Sequence[NoisyRows], decay: float) -> NoisyRows:
    """Several batches as one, the last one last, with weights decay^age; groups and labels stay apart."""
    parts: dict[str, list[Tensor]] = {item.name: [] for item in fields(NoisyRows)}
    first = {"group": 0, "response": 0, "answer": 0}
    for age, batch in zip(range(len(batches) - 1, -1, -1), batches, strict=True):
        for name, values in parts.items():
            value = getattr(batch, name)
            if name in first:
                values.append(value + first[name])
                first[name] += int(value.max()) + 1
            else:
                values.append(value * decay**age if name == "weights" else value)
    return NoisyRows(**{name: torch.cat(values) for name, values in parts.items()})


def shuffled_within(group: Int[Tensor, " n"], generator: torch.Generator | None) -> Int[Tensor, " n"]:
    """A permutation of sorted rows that leaves every row in its group."""
    return torch.rand(len(group), generator=generator, dtype=torch.float64).add(group).argsort()


def contradictory_rows(rows: NoisyRows) -> Bool[Tensor, " n"]:
    """Scored rows whose response was also given another reward."""
    scored, y = rows.scored, rows.standardised
    low, high = _extremes(y.masked_fill(~scored, torch.nan), rows.response)
    return scored & (high - low > ROUNDING)[rows.response]


def _extremes(values: Float[Tensor, " n"], label: Int[Tensor, " n"]) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
    """The least and the greatest value of each label, NaN left out; inf and -inf where there is none."""
    known = ~values.isnan()
    empty = values.new_full((int(label.max()) + 1,), torch.inf)
    low = empty.scatter_reduce(0, label[known], values[known], "amin")
    return low, (-empty).scatter_reduce(0, label[known], values[known], "amax")


def _between(rewards: Float[Tensor, " n"], group: Int[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """Rows whose reward lies strictly between the least and the greatest of their group."""
    low, high = _extremes(rewards, group)
    return (rewards > low[group]) & (rewards < high[group])


def _dense(labels: Sequence[object]) -> Int[Tensor, " n"]:
    """Equal labels get equal numbers, from 0 in order of appearance."""
    known: dict[object, int] = {}
    return torch.tensor([known.setdefault(label, len(known)) for label in labels], dtype=torch.long)
