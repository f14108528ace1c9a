"""A curator on trial, and the promises on which it is tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Generator, Tensor

from geoalign.curators.curator import Curator, reward_weights
from geoalign.errors import ConfigError
from geoalign.method.advantages import group_advantages
from geoalign.testing.batches import RewardKind, ordinary_batch, ragged_batch, with_unscored_rows
from geoalign.types import Curation, Rollouts

MakeCurator = Callable[[], Curator[Any]]
_GROUPS = 12
_SIZE = 6


class BrokenPromiseError(AssertionError):
    """A promise is not kept; the message says what was found, as the end of a sentence."""


@dataclass(frozen=True)
class Promise:
    """One promise of a curator.

    Attributes:
        name: a name in a word or two, for reports of tests.
        words: the promise, as it follows "the promise that ..."; it speaks of the curator as "it".
        try_it: raises `BrokenPromiseError`, or any other error, where a curator does not keep it.
    """

    name: str
    words: str
    try_it: Callable[[Trial], None]


def promise(words: str) -> Callable[[Callable[[Trial], None]], Promise]:
    """Makes a promise, in these words, of the function that tries it."""
    return lambda try_it: Promise(name=try_it.__name__, words=words, try_it=try_it)


def expect(holds: bool | Tensor, found: str) -> None:
    """Raises `BrokenPromiseError`, with what was `found`, unless a condition holds."""
    if not holds:
        raise BrokenPromiseError(found)


class Trial:
    """A curator that is made anew for every question, and the batches that it is asked about.

    Attributes:
        rewards: the kind of rewards on which the curator decides something.
    """

    def __init__(self, make: MakeCurator, rewards: RewardKind | None = None) -> None:
        self._make = make
        self._rewards = rewards

    def new(self) -> Curator[Any]:
        """A new curator, which has learnt nothing."""
        curator = self._make()
        if not isinstance(curator, Curator):
            raise ConfigError(f"make: expected a function that returns a Curator, got {type(curator).__name__}")
        return curator

    @cached_property
    def curator(self) -> Curator[Any]:
        """One whose declarations are read; it curates nothing."""
        return self.new()

    @property
    def name(self) -> str:
        """The curator's class."""
        return type(self.curator).__name__

    @property
    def rewards(self) -> RewardKind:
        """As given; otherwise binary ones for a curator that declares to take no others."""
        if self._rewards is not None:
            return self._rewards
        return "binary" if self.curator.binary_rewards else "continuous"

    @property
    def may_change_rewards(self) -> bool:
        """Whether it declares to change rewards, or does not say."""
        return self.curator.acts_on is None or "rewards" in self.curator.acts_on

    def batch(
        self, seed: int = 0, *, groups: int | None = None, size: int = _SIZE, rewards: RewardKind | None = None
    ) -> Rollouts:
        """An ordinary batch of the curator's kind, large enough for its `min_scores`."""
        if groups is None:
            enough = 2 * self.curator.min_scores // size
            groups = max(_GROUPS, enough)
        return ordinary_batch(seed=seed, groups=groups, size=size, rewards=rewards or self.rewards)

    def decide(self, rollouts: Rollouts) -> Curation:
        """What a new curator decides."""
        return curate(self.new(), rollouts)

    @cached_property
    def expected(self) -> Curation:
        """What a new curator decides on the ordinary batch; found once for all promises."""
        return self.decide(self.batch())

    @cached_property
    def ragged(self) -> Curation:
        """What a new curator decides on groups of several sizes; found once for all promises."""
        return self.decide(ragged_batch(self.rewards))

    @cached_property
    def in_turn(self) -> list[tuple[Rollouts, Curation]]:
        """Another batch and the ordinary one, and what one curator decides on them in turn; found once."""
        curator = self.new()
        batches = [self.batch(1), self.batch()]
        return [(rollouts, curate(curator, rollouts)) for rollouts in batches]

    @cached_property
    def varied(self) -> list[tuple[Rollouts, Curation]]:
        """Four batches and what one curator decides on them in turn; found once for all promises.

        Groups have even and odd sizes, rewards are verdicts and (where it takes any) others, and in the later two
        batches some rows are not scored.
        """
        curator = self.new()
        batches = [
            self.batch(0, size=6),
            self.batch(1, size=5, rewards="binary"),
            with_unscored_rows(self.batch(2, size=6, rewards="binary"), slice(None, None, 9)),
            with_unscored_rows(self.batch(3, size=5), slice(None, None, 9)),
        ]
        return [(rollouts, curate(curator, rollouts)) for rollouts in batches]

    @cached_property
    def saved(self) -> tuple[dict[str, Any], Curation]:
        """The state of a curator after three batches, and what it then decided on a fourth; found once."""
        curator = self.new()
        for seed in range(3):
            curate(curator, self.batch(seed))
        state = curator.state_dict()
        # What was saved does not change with the curator that goes on.
        return state, curate(curator, self.batch(3), seed=5)


def curate(curator: Curator[Any], rollouts: Rollouts, *, seed: int = 0, details: bool = False) -> Curation:
    """What a curator decides, with a generator of its own."""
    return curator.curate(rollouts, generator=Generator().manual_seed(seed), details=details)


def difference(one: Curation, other: Curation) -> str | None:
    """The first field in which two curations differ in any bit; None where they are the same."""
    for name in ("source", "rewards", "weights", "anomalous", "scores"):
        if not equal(getattr(one, name), getattr(other, name)):
            return name
    if (one.advantages is None) != (other.advantages is None):
        return "advantages"
    if one.advantages is not None and other.advantages is not None and not equal(one.advantages, other.advantages):
        return "advantages"
    return None


def expect_same(one: Curation, other: Curation, when: str) -> None:
    """Raises `BrokenPromiseError` unless two curations are the same in every bit.

    Args:
        when: what was different when `one` was made, as the end of a sentence.
    """
    name = difference(one, other)
    expect(name is None, f"its {name} differ {when}")


def expect_finite(curation: Curation) -> None:
    """Raises `BrokenPromiseError` unless all weights and advantages are finite."""
    expect(curation.weights.isfinite().all(), "a weight is not finite")
    given = curation.advantages
    expect(given is None or given.isfinite().all(), "an advantage is not finite")


def equal(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors are of one shape and type, and equal in every bit; NaN is equal to NaN."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    return torch.equal(one.isnan(), other.isnan()) and torch.equal(one.nan_to_num(0.0), other.nan_to_num(0.0))


def close(one: Tensor, other: Tensor, *, atol: float, rtol: float) -> bool:
    """Whether two tensors are of one shape and type, and equal up to rounding; NaN is equal to NaN."""
    alike = one.dtype == other.dtype and one.shape == other.shape
    return alike and torch.allclose(one, other, atol=atol, rtol=rtol, equal_nan=True)


def actions_of(curation: Curation, rollouts: Rollouts) -> set[str]:
    """What a curation changed, in the words of `Curator.acts_on`; a row without a reward has weight 0 anyway."""
    came_with = rollouts.rewards[curation.source]
    in_place = torch.arange(len(rollouts))
    done = set()
    if not torch.equal(curation.source, in_place):
        done.add("rows")
    if not equal(curation.rewards, came_with):
        done.add("rewards")
    if not torch.equal(curation.weights, reward_weights(came_with).to(curation.weights)):
        done.add("weights")
    if curation.advantages is not None:
        done.add("advantages")
    return done


def trained_advantages(curation: Curation, rollouts: Rollouts) -> Tensor:
    """[C] the advantages that output rows are trained with: the curation's own, else GRPO's, times the weights."""
    advantages = curation.advantages
    if advantages is None:
        advantages = group_advantages(curation.rewards, rollouts.groups[curation.source])
    return advantages * curation.weights
