"""The batches on which curators are tried: ordinary ones, and those that an engine brings once in a thousand steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from geoalign.method.advantages import group_advantages
from geoalign.testing.synthetic import synthetic_rollouts
from geoalign.types import Rollouts

RewardKind = Literal["continuous", "binary"]
_WIDTH = 16


def ordinary_batch(*, seed: int, groups: int, size: int, rewards: RewardKind) -> Rollouts:
    """A batch with every optional field, whose hidden states tell good from bad responses; anew at each call.

    Args:
        seed: of the draws; batches of all seeds share the direction in which states tell responses apart.
        groups: how many prompts there are.
        size: how many responses each prompt has.
        rewards: "continuous", or 0 and 1 alone ("binary").
    """
    made = _cached_batch(seed, groups, size, rewards)
    # A curator that changes its batch in place spoils this copy, and no other curator's batch.
    return made.take(torch.arange(len(made)))


@lru_cache
def _cached_batch(seed: int, groups: int, size: int, rewards: RewardKind) -> Rollouts:
    rollouts = synthetic_rollouts(groups, size, _WIDTH, seed=seed, rewards=rewards).rollouts
    names = [f"row {row}" for row in range(len(rollouts))]
    return with_every_field(replace(rollouts, ids=names))


def with_every_field(rollouts: Rollouts) -> Rollouts:
    """The same rollouts with every optional field but ids, each a function of the row alone, whatever its place."""
    rewards = rollouts.rewards.float()
    hidden = rollouts.hidden
    if hidden is None:
        hidden = torch.zeros(len(rollouts), 4)
    value = hidden.float().sum(dim=1)
    true_rewards = rewards.clone()
    true_rewards[value > 3] = 0.25
    reference_rewards = torch.stack([torch.zeros_like(value), value / 10], dim=1)

    def second_rewards(rows: Sequence[int]) -> list[float | None]:
        return [None if value[row] > 5 else 1 - float(rewards[row]) for row in rows]

    return replace(
        rollouts,
        hidden=hidden,
        lengths=1 + (value.abs() * 10).long(),
        logprobs=-value.abs() / 10,
        answers=[None if item < 0 else str(int(item) % 3) for item in value],
        prompt_keys=rollouts.groups.long() + 1000,
        reference_rewards=reference_rewards,
        true_rewards=true_rewards,
        advantages=group_advantages(rewards, rollouts.groups),
        trusted=(value * 10).long() % 6 == 0,
        second_rewards=second_rewards,
    )


def with_unscored_rows(rollouts: Rollouts, rows: slice | list[int]) -> Rollouts:
    """The same batch, in which these rows could not be scored."""
    rewards = rollouts.rewards.clone()
    rewards[rows] = math.nan
    return replace(rollouts, rewards=rewards)


def empty_batch() -> Rollouts:
    """A batch without rows, with every optional field."""
    nothing = Rollouts(
        rewards=torch.zeros(0), groups=torch.zeros(0, dtype=torch.long), hidden=torch.zeros(0, _WIDTH), ids=[]
    )
    return with_every_field(nothing)


def single_row() -> Rollouts:
    """A batch of one row alone."""
    return with_every_field(Rollouts(rewards=torch.ones(1), groups=torch.tensor([4]), hidden=torch.ones(1, 4)))


def ragged_batch(rewards: RewardKind) -> Rollouts:
    """Groups of 1, 2, 3 and 7 rows, which stand in no order."""
    generator = torch.Generator().manual_seed(2)
    groups = torch.tensor([5, 1, 5, 2, 2, 9, 5, 5, 2, 5, 9, 5, 5])
    drawn = torch.rand(len(groups), generator=generator)
    hidden = torch.randn(len(groups), 4, generator=generator)
    return with_every_field(
        Rollouts(rewards=drawn.round() if rewards == "binary" else drawn, groups=groups, hidden=hidden)
    )


def batches_without_pairs() -> Iterator[Rollouts]:
    """Batches of six rows in which no reward says more than another one of its prompt; rewards are 0, 1 or NaN.

    In order: groups of equal rewards; groups of one; a batch without any reward; groups of one reward and unscored
    rows.
    """
    nan = math.nan
    yield _without_pairs([1.0] * 6, [0, 0, 0, 1, 1, 1])
    yield _without_pairs([0.0, 1.0, 0.0, 1.0, 1.0, 0.0], [0, 1, 2, 3, 4, 5])
    yield _without_pairs([nan] * 6, [0] * 6)
    yield _without_pairs([1.0, nan, nan, 0.0, nan, 1.0], [0, 0, 0, 1, 1, 2])


def _without_pairs(rewards: list[float], groups: list[int]) -> Rollouts:
    hidden = torch.randn(len(rewards), 8, generator=torch.Generator().manual_seed(0))
    bare = Rollouts(rewards=torch.tensor(rewards), groups=torch.tensor(groups), hidden=hidden)
    return replace(
        with_every_field(bare),
        true_rewards=bare.rewards,
        # The second verifier agrees with the first.
        second_rewards=lambda rows: [rewards[row] for row in rows],
    )


def rounded_and_clean() -> tuple[Rollouts, Rollouts]:
    """The same batch twice: with rewards that differ by rounding alone, and with these equal.

    Sixteen groups have one reward, four have two. Neither labels nor a second verifier say more.
    """
    # Each is 0.7, as a sum of two float32 numbers.
    sums = torch.tensor([0.1, 0.7, 0.4, 0.2]) + torch.tensor([0.6, 0.0, 0.3, 0.5])
    one_reward = sums.repeat(16)
    two_rewards = torch.cat([sums, sums - 0.5]).repeat(4)
    rounded = torch.cat([one_reward, two_rewards])
    high = rounded > 0.5
    clean = torch.where(high, rounded[high].min(), rounded.min())
    groups = torch.cat([torch.arange(16).repeat_interleave(4), torch.arange(16, 20).repeat_interleave(8)])
    hidden = torch.randn(len(groups), 8, generator=torch.Generator().manual_seed(0))
    return _unlabelled(rounded, clean, groups, hidden), _unlabelled(clean, clean, groups, hidden)


def _unlabelled(rewards: Tensor, true_rewards: Tensor, groups: Tensor, hidden: Tensor) -> Rollouts:
    return replace(
        with_every_field(Rollouts(rewards=rewards, groups=groups, hidden=hidden)),
        true_rewards=true_rewards,
        trusted=torch.zeros(len(rewards), dtype=torch.bool),
        second_rewards=lambda rows: [None for _ in rows],
    )
