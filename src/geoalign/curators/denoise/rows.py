"""The rows that the noise model reads: a batch in sorted order, and the recent batches as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.method.advantages import group_advantages
from geoalign.method.groups import GroupedRows, content_folds
from geoalign.types import Rollouts

# A reward is a verdict with something added where so many rewards lie this near, in units of the gap, to two values.
_NEARLY_ALL, _NEAR = 0.95, 0.25


@dataclass(frozen=True, eq=False)
class NoisyRows:
    """Rows as the noise model reads them: on the CPU, in sorted order, numbers in float64; groups and labels dense."""

    rewards: Float[Tensor, " n"]  # as observed, or the component that is noisy; NaN where unscored
    group: Int[Tensor, " n"]
    fold: Int[Tensor, " n"]  # of the row's group
    response: Int[Tensor, " n"]  # rows of equal number gave the same response
    answer: Int[Tensor, " n"]  # rows of equal number gave the same answer or, without one, the same response
    answered: Bool[Tensor, " n"]
    trusted: Bool[Tensor, " n"]  # whether the reward is known to be true
    unseen: Bool[Tensor, " n"]  # whether the fit has not seen the row's prompt before
    prediction: Float[Tensor, " n"]  # by a fit on other batches or folds
    inflation: Float[Tensor, " n"]  # factor on the variance of the prediction's agreement with the rewards
    weights: Float[Tensor, " n"]  # in the fits, equal within a group

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
        return self.scored & (total(self.scored, self.group) >= 2)[self.group]

    @property
    def contradicted(self) -> Bool[Tensor, " n"]:
        """Scored rows whose response was also given another reward, not only rounded otherwise."""
        low, high = _extremes(self.standardised.masked_fill(~self.scored, torch.nan), self.response)
        return self.scored & (high - low > 1e-3)

    @property
    def fitted_on(self) -> Bool[Tensor, " n"]:
        """The rows that the fit is made of and tested on: of unequal groups, but for verdicts between their extremes.

        Rewards that are wrong by far stand at the extremes, where right ones are rare: between them the rewards may
        agree with the states where over all rows they do not. Where hardly any lie between, all are taken.
        """
        unequal = (self.standardised != 0) & ~self.trusted
        low, high = _extremes(self.rewards, self.group)
        between = unequal & (self.rewards > low) & (self.rewards < high)
        few = 4 * int(between.sum()) <= int(unequal.sum())
        return unequal if few or two_values(self.rewards[self.scored]) else between


def noisy_rows(
    rollouts: Rollouts,
    order: GroupedRows,
    *,
    answers: bool,
    rewards: Float[Tensor, " b"] | None = None,
    seen: Sequence[Int[Tensor, " p"]] = (),
) -> NoisyRows:
    """The batch in sorted order, without predictions; rows without `response_keys` are responses of their own.

    Args:
        rewards: [B] the noisy part of the rewards; None: the rewards.
        seen: prompt keys of earlier batches.
    """
    index, group = order.order.cpu(), order.group.cpu()
    keys = index if rollouts.response_keys is None else rollouts.response_keys.cpu()[index]
    responses = list(zip(group.tolist(), keys.tolist(), strict=True))
    told = rollouts.answers if answers and rollouts.answers is not None else [None] * len(index)
    given = [told[row] for row in index.tolist()]
    units = [one if answer is None else (one[0], str(answer)) for one, answer in zip(responses, given, strict=True)]
    noisy = (rollouts.rewards if rewards is None else rewards).cpu().double()[index]
    content = noisy.nan_to_num() if rollouts.hidden is None else rollouts.hidden[order.order].double().sum(1).cpu()
    trusted = known = torch.zeros(len(index), dtype=torch.bool)
    if rollouts.trusted is not None:
        trusted = rollouts.trusted.cpu()[index] & ~noisy.isnan()
    if seen and rollouts.prompt_keys is not None:
        known = torch.isin(rollouts.prompt_keys.cpu()[index], torch.cat(list(seen)))
    return NoisyRows(
        rewards=noisy,
        group=group,
        fold=content_folds(content, group),
        response=_dense(responses),
        answer=_dense(units),
        answered=torch.tensor([answer is not None for answer in given]),
        trusted=trusted,
        # Of trusted rows the fit learns nothing.
        unseen=~known | trusted,
        prediction=torch.zeros_like(noisy),
        inflation=torch.ones_like(noisy),
        weights=torch.ones_like(noisy),
    )


def joined(batches: Sequence[NoisyRows], decay: float) -> NoisyRows:
    """Several batches as one, the last one last, with weights decay^age; groups and labels stay apart."""
    parts, first = [], {"group": 0, "response": 0, "answer": 0}
    for age, batch in zip(range(len(batches) - 1, -1, -1), batches, strict=True):
        apart = {name: getattr(batch, name) + start for name, start in first.items()}
        first = {name: int(label.max()) + 1 for name, label in apart.items()}
        parts.append(vars(replace(batch, weights=batch.weights * decay**age, **apart)))
    return NoisyRows(**{name: torch.cat([part[name] for part in parts]) for name in parts[0]})


def two_values(rewards: Float[Tensor, " n"]) -> tuple[float, float] | None:
    """The two verdicts: the only two values, or those near which nearly all rewards lie, the rest being added."""
    values = rewards.unique()
    if len(values) <= 2:
        return (float(values[0]), float(values[1])) if len(values) == 2 else None
    low, high = values[0], values[-1]
    for _ in range(20):
        upper = rewards > (low + high) / 2
        low, high = rewards[~upper].median(), rewards[upper].median()
    near = torch.minimum((rewards - low).abs(), (rewards - high).abs()) <= _NEAR * (high - low)
    share = float(upper.double().mean())
    common = min(share, 1 - share) >= 1 - _NEARLY_ALL and float(near.double().mean()) >= _NEARLY_ALL
    return (float(low), float(high)) if common else None


def total(values: Tensor, label: Int[Tensor, " n"]) -> Float[Tensor, " m"]:
    """[M] the sum over the rows of each label."""
    return torch.bincount(label, weights=values.double())


def _extremes(values: Float[Tensor, " n"], label: Int[Tensor, " n"]) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """[N] the least and the greatest value of each row's label, NaN left out; inf and -inf where there is none."""
    empty, known = values.new_full((int(label.max()) + 1,), torch.inf), values.nan_to_num(torch.inf)
    low = empty.scatter_reduce(0, label, known, "amin")
    return low[label], (-empty).scatter_reduce(0, label, values.nan_to_num(-torch.inf), "amax")[label]


def _dense(labels: Sequence[object]) -> Int[Tensor, " n"]:
    """Equal labels get equal numbers, from 0 in order of appearance."""
    known: dict[object, int] = {}
    return torch.tensor([known.setdefault(label, len(known)) for label in labels], dtype=torch.long)
