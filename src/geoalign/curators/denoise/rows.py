"""Rows as the noise model reads them, of one batch or of several."""

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
# Of the groups: of a first batch's cross-fit, and left out in turn for intervals.
FOLDS = 5


@dataclass(frozen=True, eq=False)
class NoisyRows:
    """Rows as the noise model reads them: on the CPU, in sorted order, numbers in float64.

    Attributes:
        rewards: [N] as observed, or the component that is noisy; NaN where unscored.
        group: [N] dense group index.
        fold: [N] fold of the row's group, by the group's content, so that no group id matters.
        response: [N] rows of equal number gave the same response.
        answer: [N] rows of equal number gave the same answer or, without one, the same response.
        answered: [N] whether the row has an answer.
        trusted: [N] whether the reward is known to be true.
        unseen: [N] whether the fits have not seen the row's prompt before.
        predictions: [N, S, 2] by each state, fitted on either kind of rows (`fitted_on`) of other batches.
        inflation: [N] factor on the variance of the predictions' agreement with the rewards.
        weights: [N] weight in the fits, equal within a group.
    """

    rewards: Float[Tensor, " n"]
    group: Int[Tensor, " n"]
    fold: Int[Tensor, " n"]
    response: Int[Tensor, " n"]
    answer: Int[Tensor, " n"]
    answered: Bool[Tensor, " n"]
    trusted: Bool[Tensor, " n"]
    unseen: Bool[Tensor, " n"]
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
    def accompanied(self) -> Bool[Tensor, " n"]:
        """Scored rows of groups with two rewards at least."""
        return self.scored & (torch.bincount(self.group, weights=self.scored.double()) >= 2)[self.group]

    @property
    def contradicted(self) -> Bool[Tensor, " n"]:
        """Scored rows whose response was also given another reward."""
        low, high = extremes(self.standardised.masked_fill(~self.scored, torch.nan), self.response)
        return self.scored & (high - low > ROUNDING)[self.response]

    @property
    def fitted_on(self) -> Bool[Tensor, "n 2"]:
        """[N, 2] the rows that states are fitted to and tested on: all of unequal groups, or those between extremes.

        Rewards that are wrong by far stand at the extremes of their groups, where right ones are rare: between them
        the rewards may agree with the states where over all rows they do not. Trusted rows have a fit of their own.
        """
        unequal = (self.standardised != 0) & ~self.trusted
        low, high = extremes(self.rewards, self.group)
        between = (self.rewards > low[self.group]) & (self.rewards < high[self.group])
        return torch.stack([unequal, unequal & between], dim=1)


def noisy_rows(
    rollouts: Rollouts,
    order: GroupedRows,
    *,
    answers: bool,
    rewards: Float[Tensor, " b"] | None = None,
    seen: Int[Tensor, " p"] | None = None,
) -> NoisyRows:
    """The batch in sorted order, without predictions; rows without `response_keys` are responses of their own.

    Args:
        rewards: [B] the noisy part of the rewards; None: the rewards.
        seen: prompt keys of earlier batches.
    """
    permutation, group = order.order.cpu(), order.group.cpu()
    rows = permutation.tolist()
    keys = rows if rollouts.response_keys is None else rollouts.response_keys.cpu()[permutation].tolist()
    given = [None] * len(rows) if rollouts.answers is None or not answers else [rollouts.answers[row] for row in rows]
    groups = group.tolist()
    labels = [
        (index, "response", key) if answer is None else (index, "answer", answer)
        for index, key, answer in zip(groups, keys, given, strict=True)
    ]
    noisy = (rollouts.rewards if rewards is None else rewards).cpu().double()[permutation]
    trusted, unseen = torch.zeros(2, len(rows), dtype=torch.bool)
    if rollouts.trusted is not None:
        trusted = rollouts.trusted.cpu()[permutation] & ~noisy.isnan()
    if seen is not None and rollouts.prompt_keys is not None:
        unseen = torch.isin(rollouts.prompt_keys.cpu()[permutation], seen)
    content = noisy.nan_to_num() if rollouts.hidden is None else rollouts.hidden[order.order].double().sum(1).cpu()
    # Of trusted rows the fits learn nothing.
    unseen = ~unseen | trusted
    return NoisyRows(
        rewards=noisy,
        group=group,
        fold=content_folds(content, group),
        response=_dense(list(zip(groups, keys, strict=True))),
        answer=_dense(labels),
        answered=torch.tensor([answer is not None for answer in given]),
        trusted=trusted,
        unseen=unseen,
        predictions=noisy.new_zeros(len(rows), 0, 2),
        inflation=torch.ones_like(noisy),
        weights=torch.ones_like(noisy),
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


def extremes(values: Float[Tensor, " n"], label: Int[Tensor, " n"]) -> tuple[Float[Tensor, " m"], Float[Tensor, " m"]]:
    """The least and the greatest value of each label, NaN left out; inf and -inf where there is none."""
    known = ~values.isnan()
    empty = values.new_full((int(label.max()) + 1,), torch.inf)
    low = empty.scatter_reduce(0, label[known], values[known], "amin")
    return low, (-empty).scatter_reduce(0, label[known], values[known], "amax")


def total(values: Tensor, label: Int[Tensor, " n"], size: int) -> Float[Tensor, " m"]:
    """[M] the sum over the rows of each label."""
    return torch.zeros(size, dtype=torch.float64).index_add_(0, label, values.double())


def content_folds(content: Float[Tensor, " n"], group: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
    """Groups dealt to folds in the order of their content."""
    sums = total(content, group, int(group.max()) + 1)
    return (sums.argsort(stable=True).argsort() % FOLDS)[group]


def _dense(labels: Sequence[object]) -> Int[Tensor, " n"]:
    """Equal labels get equal numbers, from 0 in order of appearance."""
    known: dict[object, int] = {}
    return torch.tensor([known.setdefault(label, len(known)) for label in labels], dtype=torch.long)
