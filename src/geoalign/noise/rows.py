"""The rows that the noise model reads: a batch in sorted order, and the recent batches as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.errors import InputError
from geoalign.method.advantages import group_advantages
from geoalign.method.groups import GroupedRows
from geoalign.method.ties import tied_rewards
from geoalign.types import Rollouts

# Rewards are verdicts with a bonus where this share of them lies so near, in units of the gap, to two values.
_NEARLY_ALL, _NEAR = 0.95, 0.25


@dataclass(frozen=True, eq=False)
class NoisyRows:
    """Rows as the noise model reads them: on the CPU, in sorted order, numbers in float64; groups and labels dense."""

    rewards: Float[Tensor, " n"]  # as observed, or the component that is noisy; NaN where unscored
    group: Int[Tensor, " n"]
    response: Int[Tensor, " n"]  # rows of equal number gave the same response
    answer: Int[Tensor, " n"]  # rows of equal number gave the same answer or, without one, the same response
    answered: Bool[Tensor, " n"]
    lacking: Bool[Tensor, " n"]  # no answer where one is expected: held to be wrong, whatever the verdict
    trusted: Bool[Tensor, " n"]  # whether the reward is known to be true
    unseen: Bool[Tensor, " n"]  # whether the fit has not seen this response to the prompt before
    prediction: Float[Tensor, " n"]  # by a fit on other batches or folds
    standardised: Float[Tensor, " n"]  # rewards within their groups; 0 in groups of equal rewards, and where unscored
    target: Float[Tensor, " n"]  # of the fit: standardised rewards, or what answers alone leave of them
    fitted: Bool[Tensor, " n"]  # rows that the fit is made of and tested on
    inflation: Float[Tensor, " n"]  # factor on the variance of the prediction's agreement with the rewards
    weights: Float[Tensor, " n"]  # in the fits, equal within a group

    @property
    def scored(self) -> Bool[Tensor, " n"]:
        """Whether the row has a reward."""
        return ~self.rewards.isnan()

    @property
    def accompanied(self) -> Bool[Tensor, " n"]:
        """Scored rows of groups with two rewards at least."""
        return self.scored & (total(self.scored, self.group) >= 2)[self.group]

    @property
    def among_equal_rewards(self) -> NoisyRows:
        """The answered rows, all rows centred among equal rewards of a group: there a prediction of the verifier's
        errors is negatively correlated with what answers say."""
        # A bonus beside the verdict would leave each row alone.
        verdicts, rewards = two_values(self.rewards[self.scored]), self.rewards.nan_to_num()
        alike = dense(self.group, rewards if verdicts is None else rewards > sum(verdicts) / 2, self.scored)
        prediction, target = (group_advantages(each, alike, scale="none") for each in (self.prediction, self.target))
        return replace(self, prediction=prediction, target=target, fitted=self.fitted & self.answered)


def noisy_rows(
    rollouts: Rollouts,
    order: GroupedRows,
    *,
    answers: bool,
    component: str | None = None,
    seen: Sequence[Int[Tensor, " _"]] = (),
    unanswered_wrong: bool = True,
) -> NoisyRows:
    """The batch in sorted order, without predictions; rows without `response_keys` are responses of their own.

    The ridge is fitted on groups of unequal rewards. Of rewards that are no verdicts it takes the rows between the
    extremes of their group, as grossly wrong rewards lie on the extremes; all rows where less than a quarter lie
    between.

    Args:
        component: the noisy part of the rewards; None: the rewards.
        seen: `keys_in_prompts` of earlier batches.
        unanswered_wrong: a response without an answer is held to be wrong where answers are expected: at least half of
            the batch has one, and so has another response to the prompt. False: nothing is concluded from it.

    Raises:
        InputError: there is no such component.
    """
    index, group, whole = order.order.cpu(), order.group.cpu(), rollouts.rewards
    if component is not None:
        parts = rollouts.components or {}
        if component not in parts:
            raise InputError(f"component: expected one of {', '.join(sorted(parts))}; got {component!r}")
        whole = parts[component].to(whole).masked_fill(whole.isnan(), torch.nan)
    rewards = tied_rewards(whole.cpu().double()[index], group)
    keys = torch.arange(len(index)) if rollouts.response_keys is None else rollouts.response_keys.cpu()[index]
    told = rollouts.answers if answers and rollouts.answers is not None else [None] * len(index)
    given = [told[row] for row in index.tolist()]
    numbers = {answer: number for number, answer in enumerate(dict.fromkeys(given))}
    answered = torch.tensor([answer is not None for answer in given])
    expected = unanswered_wrong and 2 * int(answered.sum()) >= len(index)
    lacking = ~answered & expected & (total(answered, group) > 0)[group]
    unit = torch.where(answered, torch.tensor([numbers[answer] for answer in given]), keys)
    trusted = known = torch.zeros_like(answered)
    if rollouts.trusted is not None:
        trusted = rollouts.trusted.cpu()[index] & ~rewards.isnan()
    if seen and rollouts.prompt_keys is not None:
        known = torch.isin(keys_in_prompts(rollouts)[index], torch.cat(list(seen)))
    standardised, zero = group_advantages(rewards, group), torch.zeros_like(rewards)
    fitted = (standardised != 0) & ~trusted
    low, high = (zero.scatter_reduce(0, group, standardised, end)[group] for end in ("amin", "amax"))
    between = fitted & (standardised > low) & (standardised < high)
    if 4 * int(between.sum()) > int(fitted.sum()) and two_values(rewards[~rewards.isnan()]) is None:
        fitted = between
    return NoisyRows(
        rewards=rewards,
        group=group,
        response=dense(group, keys),
        answer=dense(group, answered, unit),
        answered=answered,
        lacking=lacking,
        trusted=trusted,
        # Of trusted rows the fit learns nothing.
        unseen=~known | trusted,
        prediction=zero,
        standardised=standardised,
        target=standardised,
        fitted=fitted,
        inflation=torch.ones_like(rewards),
        weights=torch.ones_like(rewards),
    )


def keys_in_prompts(rollouts: Rollouts) -> Int[Tensor, " b"]:
    """[B] a key of each response to its prompt, of the prompt alone where they have none; int64 wraps around."""
    assert rollouts.prompt_keys is not None
    responses = 0 if rollouts.response_keys is None else rollouts.response_keys
    return (rollouts.prompt_keys * 6364136223846793005 + responses).cpu()


def joined(batches: Sequence[Mapping[str, Tensor]], decay: float) -> NoisyRows:
    """The rows of several batches, the last one last, with weights decay^age; groups and labels stay apart."""
    parts, first = [], {"group": 0, "response": 0, "answer": 0}
    for age, batch in zip(range(len(batches) - 1, -1, -1), batches, strict=True):
        apart = {name: batch[name] + start for name, start in first.items()}
        first = {name: int(label.max()) + 1 for name, label in apart.items()}
        parts.append({**batch, **apart, "weights": batch["weights"] * decay**age})
    return NoisyRows(**{name: torch.cat([part[name] for part in parts]) for name in parts[0]})


def two_values(rewards: Float[Tensor, " n"]) -> tuple[float, float] | None:
    """The two verdicts: the only two values, or those near which nearly all rewards lie, the rest being added."""
    values = tied_rewards(rewards, torch.zeros_like(rewards, dtype=torch.long)).unique()
    if len(values) < 2:
        return None
    low, high = values[0], values[-1]
    for _ in range(20):
        upper = rewards > (low + high) / 2
        low, high = rewards[~upper].median(), rewards[upper].median()
    near = torch.minimum((rewards - low).abs(), (rewards - high).abs()) <= _NEAR * (high - low)
    share = float(upper.double().mean())
    common = min(share, 1 - share) >= 1 - _NEARLY_ALL and float(near.double().mean()) >= _NEARLY_ALL
    return (float(low), float(high)) if common or len(values) == 2 else None


def total(values: Tensor, label: Int[Tensor, " n"]) -> Float[Tensor, " m"]:
    """[M] the sum over the rows of each label."""
    return torch.bincount(label, weights=values.double())


def dense(*labels: Tensor) -> Int[Tensor, " n"]:
    """Rows that are equal in all of the labels get equal numbers, from 0."""
    found = torch.zeros(len(labels[0]), dtype=torch.long)
    for label in labels:
        found = (found * len(label) + label.unique(return_inverse=True)[1]).unique(return_inverse=True)[1]
    return found
