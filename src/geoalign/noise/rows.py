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
NEARLY_ALL = 0.95
_NEAR = 0.25


@dataclass(frozen=True, eq=False)
class NoisyRows:
    """Rows as the noise model reads them: on the CPU, in sorted order, numbers in float64; groups and labels dense.

    Attributes:
        rewards: [N] as observed, or the component that is noisy; NaN where unscored.
        group: [N] the group of each row.
        response: [N] rows of equal number gave the same response.
        answer: [N] rows of equal number gave the same answer or, without one, the same response.
        answered: [N] whether the row has an answer.
        exclusive: [N] whether the answers to the row's prompt exclude each other, so that at most one of them is right.
        lacking: [N] no answer where one is expected: held to be wrong, whatever the verdict.
        trusted: [N] whether the reward is known to be true.
        unseen: [N] whether the ridge has not seen this response to the prompt before.
        prediction: [N] z, by a ridge on other batches or folds.
        standardised: [N] rewards within their groups; 0 in groups of equal rewards, and where unscored.
        target: [N] what the ridge learns: standardised rewards, or what answers alone leave of them.
        fitted: [N] rows that the ridge is made of and tested on.
        inflation: [N] factor on the variance of the prediction's agreement with the rewards.
        weights: [N] in the fits, equal within a group.
    """

    rewards: Float[Tensor, " n"]
    group: Int[Tensor, " n"]
    response: Int[Tensor, " n"]
    answer: Int[Tensor, " n"]
    answered: Bool[Tensor, " n"]
    exclusive: Bool[Tensor, " n"]
    lacking: Bool[Tensor, " n"]
    trusted: Bool[Tensor, " n"]
    unseen: Bool[Tensor, " n"]
    prediction: Float[Tensor, " n"]
    standardised: Float[Tensor, " n"]
    target: Float[Tensor, " n"]
    fitted: Bool[Tensor, " n"]
    inflation: Float[Tensor, " n"]
    weights: Float[Tensor, " n"]

    @property
    def scored(self) -> Bool[Tensor, " n"]:
        """Whether the row has a reward."""
        return ~self.rewards.isnan()

    @property
    def accompanied(self) -> Bool[Tensor, " n"]:
        """Scored rows of groups with at least two rewards."""
        return self.scored & (sum_by_label(self.scored, self.group) >= 2)[self.group]

    @property
    def among_equal_rewards(self) -> NoisyRows:
        """The answered rows, all rows centred among those of their group with an equal reward.

        There a prediction of the verifier's errors is negatively correlated with what answers say.
        """
        verdicts = two_values(self.rewards[self.scored])
        rewards = self.rewards.nan_to_num()
        if verdicts is not None:
            # A bonus beside the verdict would leave each row alone.
            rewards = rewards > sum(verdicts) / 2
        alike = dense_labels(self.group, rewards, self.scored)
        return replace(
            self,
            prediction=group_advantages(self.prediction, alike, scale="none"),
            target=group_advantages(self.target, alike, scale="none"),
            fitted=self.fitted & self.answered,
        )


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

    Args:
        order: the canonical order of the rows.
        answers: whether answers are compared.
        component: the noisy part of the rewards; None: the rewards.
        seen: `keys_in_prompts` of earlier batches.
        unanswered_wrong: a response without an answer is held to be wrong where answers are expected: at least half of
            the batch has one, and so has another response to the prompt. False: nothing is concluded from it.

    Raises:
        InputError: there is no such component.
    """
    index = order.order.cpu()
    group = order.group.cpu()
    observed = _noisy_part(rollouts, component).cpu().double()[index]
    rewards = tied_rewards(observed, group)
    response_keys = torch.arange(len(index))
    if rollouts.response_keys is not None:
        response_keys = rollouts.response_keys.cpu()[index]

    given: list[str | None] = [None] * len(index)
    if answers and rollouts.answers is not None:
        given = [rollouts.answers[row] for row in index.tolist()]
    number_of = {answer: number for number, answer in enumerate(dict.fromkeys(given))}
    answer_numbers = torch.tensor([number_of[answer] for answer in given])
    answered = torch.tensor([answer is not None for answer in given])
    most_answered = 2 * int(answered.sum()) >= len(index)
    group_answered = (sum_by_label(answered, group) > 0)[group]
    lacking = ~answered & group_answered & (unanswered_wrong and most_answered)
    answer_or_response = torch.where(answered, answer_numbers, response_keys)

    exclusive = torch.ones_like(answered)
    if rollouts.shared_answers is not None:
        shared = rollouts.shared_answers.cpu()[index]
        exclusive = (sum_by_label(shared, group) == 0)[group]

    trusted = torch.zeros_like(answered)
    if rollouts.trusted is not None:
        trusted = rollouts.trusted.cpu()[index] & ~rewards.isnan()
    known = torch.zeros_like(answered)
    if seen and rollouts.prompt_keys is not None:
        known = torch.isin(keys_in_prompts(rollouts)[index], torch.cat(list(seen)))

    standardised = group_advantages(rewards, group)
    return NoisyRows(
        rewards=rewards,
        group=group,
        response=dense_labels(group, response_keys),
        answer=dense_labels(group, answered, answer_or_response),
        answered=answered,
        exclusive=exclusive,
        lacking=lacking,
        trusted=trusted,
        # Of trusted rows the ridge learns nothing.
        unseen=~known | trusted,
        prediction=torch.zeros_like(rewards),
        standardised=standardised,
        target=standardised,
        fitted=_fitted_rows(rewards, standardised, group, trusted),
        inflation=torch.ones_like(rewards),
        weights=torch.ones_like(rewards),
    )


def _noisy_part(rollouts: Rollouts, component: str | None) -> Float[Tensor, " b"]:
    """[B] the rewards, or their component of that name; NaN where the whole reward is."""
    if component is None:
        return rollouts.rewards
    parts = rollouts.components or {}
    if component not in parts:
        raise InputError(f"component: expected one of {', '.join(sorted(parts))}; got {component!r}")
    return parts[component].to(rollouts.rewards).masked_fill(rollouts.rewards.isnan(), torch.nan)


def _fitted_rows(
    rewards: Float[Tensor, " n"],
    standardised: Float[Tensor, " n"],
    group: Int[Tensor, " n"],
    trusted: Bool[Tensor, " n"],
) -> Bool[Tensor, " n"]:
    """[N] the rows that the ridge learns from: those of groups with unequal rewards, but for trusted ones.

    Of rewards that are no verdicts these are the rows between the extremes of their group, for grossly wrong rewards
    lie on the extremes; all rows where at most a quarter lie between.
    """
    zero = torch.zeros_like(rewards)
    lowest = zero.scatter_reduce(0, group, standardised, "amin")[group]
    highest = zero.scatter_reduce(0, group, standardised, "amax")[group]
    fitted = (highest > lowest) & ~rewards.isnan() & ~trusted
    between = fitted & (standardised > lowest) & (standardised < highest)
    enough_between = 4 * int(between.sum()) > int(fitted.sum())
    if enough_between and two_values(rewards[~rewards.isnan()]) is None:
        return between
    return fitted


def keys_in_prompts(rollouts: Rollouts) -> Int[Tensor, " b"]:
    """[B] a key of each response to its prompt, of the prompt alone where they have none; int64 wraps around."""
    assert rollouts.prompt_keys is not None
    responses = 0 if rollouts.response_keys is None else rollouts.response_keys
    return (rollouts.prompt_keys * 6364136223846793005 + responses).cpu()


def joined_batches(batches: Sequence[Mapping[str, Tensor]], decay: float) -> NoisyRows:
    """The rows of several batches, the last one last, with weights decay^age; groups and labels stay apart.

    Args:
        batches: the fields of `NoisyRows` of each batch.
    """
    parts = []
    next_label = {"group": 0, "response": 0, "answer": 0}
    for place, batch in enumerate(batches):
        age = len(batches) - 1 - place
        part = {**batch, "weights": batch["weights"] * decay**age}
        # A state that was saved before rows said so.
        part.setdefault("exclusive", torch.ones_like(batch["answered"]))
        for name, first in next_label.items():
            part[name] = batch[name] + first
            next_label[name] = int(part[name].max()) + 1
        parts.append(part)
    together = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return NoisyRows(**together)


def two_values(rewards: Float[Tensor, " n"]) -> tuple[float, float] | None:
    """The two verdicts, the lower first; None where the rewards are no verdicts.

    They are the only two values, but for rounding; or those near which nearly all rewards lie: then something small is
    added to verdicts, and 5% of the rewards at least must lie at the rarer one. This must hold too where values that
    differ by more than the rounding of their own size count as equal beside far larger ones: a single reward of -1e7
    makes no verdicts of scores.
    """
    values = tied_rewards(rewards, torch.zeros_like(rewards, dtype=torch.long)).unique()
    if len(values) < 2:
        return None
    low = values[0]
    high = values[-1]
    for _ in range(20):
        upper = rewards > (low + high) / 2
        low = rewards[~upper].median()
        high = rewards[upper].median()
    distance = torch.minimum((rewards - low).abs(), (rewards - high).abs())
    near = distance <= _NEAR * (high - low)
    nearly_all_near = float(near.double().mean()) >= NEARLY_ALL
    upper_share = float(upper.double().mean())
    rarer_share = min(upper_share, 1 - upper_share)
    both_common = rarer_share >= 1 - NEARLY_ALL
    # Each level by its own size: beside -1e7 all rewards between -3 and 3 are equal, but for rounding.
    only_two_values = len(tied_rewards(rewards, upper.long()).unique()) == 2
    if only_two_values or (both_common and nearly_all_near):
        return float(low), float(high)
    return None


def sum_by_label(values: Tensor, label: Int[Tensor, " n"]) -> Float[Tensor, " m"]:
    """[M] the sum over the rows of each label."""
    return torch.bincount(label, weights=values.double())


def dense_labels(*labels: Tensor) -> Int[Tensor, " n"]:
    """[N] numbers from 0, equal for rows that are equal in all of the labels."""
    found = torch.zeros(len(labels[0]), dtype=torch.long)
    for label in labels:
        number = label.unique(return_inverse=True)[1]
        found = (found * len(label) + number).unique(return_inverse=True)[1]
    return found
