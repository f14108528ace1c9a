"""The one plug-in verb: a curator reads rollouts, many of them group by group, and returns a curation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, TypeVar, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from geoalign.curators.precision import full_precision
from geoalign.errors import ConfigError, InputError
from geoalign.method.groups import GroupedRows, canonical_order, row_sums
from geoalign.method.ties import tied_rewards
from geoalign.types import Curation, Rollouts

_Config = TypeVar("_Config")
_Held = TypeVar("_Held", Rollouts, Curation)


class Curator(ABC, Generic[_Config]):
    """Reads a batch of rollouts and decides which row goes where, with what reward and what weight.

    A subclass names its settings class, `class Mine(Curator[MineConfig])`, the optional rollout fields that it needs in
    `requires`, those that it makes use of where an engine or the user can give them in `optional`, and implements
    `curate`. What it keeps from batch to batch stands in attributes `_name` for each `name` in `kept`; curators that it
    is made of are its `members`. Settings come as one frozen config or, as a shorthand, as its keywords.

    Raises:
        ConfigError: a setting is unknown or out of range.
    """

    config_class: ClassVar[type[Any]]
    kept: ClassVar[tuple[str, ...]] = ()
    log_odds: ClassVar[bool] = False  # whether scores are the log-odds that a reward is wrong
    requires: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    members: tuple[Curator[Any], ...] = ()
    _calls_without_generator: int = 0

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        named = [argument for base in cls.__dict__.get("__orig_bases__", ()) for argument in get_args(base)]
        if "config_class" not in vars(cls) and named and isinstance(named[0], type):
            cls.config_class = named[0]

    def __init__(self, config: _Config | None = None, **settings: Any) -> None:
        if config is not None and settings:
            raise ConfigError(f"{type(self).__name__}: expected a config or keywords, got both")
        if config is None:
            config = self.config_class(**settings)
        if not isinstance(config, self.config_class):
            name, expected = type(self).__name__, self.config_class.__name__
            raise ConfigError(f"{name}: expected a {expected}, got {type(config).__name__}")
        self.config: _Config = config

    @property
    def reads(self) -> tuple[str, ...]:
        """The optional rollout fields that it looks at: those that it requires, and those that it makes use of."""
        return (*self.requires, *self.optional)

    @abstractmethod
    def curate(self, rollouts: Rollouts, *, generator: Generator | None = None, details: bool = False) -> Curation:
        """Returns the curation of one batch.

        Args:
            rollouts: the batch; a curator reads it and never changes it.
            generator: CPU generator of every random draw; None: one of the curator's own (`drawing_from`).
            details: also return what the figures need (`Curation.details`), where the curator has it.
        """

    def drawing_from(self, generator: Generator | None) -> Generator:
        """The generator that a call draws from: the one given or, without one, a new one of the curator's own.

        Its seed is made of torch's seed (`torch.initial_seed()`, which `torch.manual_seed` sets) and of how many such
        calls the curator has had. So the same seed gives the same curations, and torch's global generator is read but
        never advanced: other threads may be drawing from it.
        """
        if generator is not None:
            return generator
        calls = self._calls_without_generator
        self._calls_without_generator = calls + 1
        seed = np.random.SeedSequence((torch.initial_seed() % 2**64, calls)).generate_state(1)
        return Generator().manual_seed(int(seed[0]))

    def state_dict(self) -> dict[str, Any]:
        """What another process needs to resume: nested dicts and lists of tensors and plain values."""
        held = {name: getattr(self, f"_{name}") for name in self.kept}
        members = {"members": [member.state_dict() for member in self.members]} if self.members else {}
        return members | {
            name: value.state_dict() if hasattr(value, "state_dict") else deepcopy(value)
            for name, value in held.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` returned; the settings must be those that it was saved with.

        Raises:
            ConfigError: the state is another curator's.
        """
        members = state.get("members", [])
        if len(members) != len(self.members):
            expected = f"expected the key members with {len(self.members)} states"
            raise ConfigError(f"{type(self).__name__} state: {expected}, got {len(members)}")
        keys = (*self.kept, *(["members"] if members else []))
        if set(state) != set(keys):
            expected = ", ".join(keys) or "(none)"
            raise ConfigError(f"{type(self).__name__} state: expected the keys {expected}, got {sorted(state)}")
        for member, saved in zip(self.members, members, strict=True):
            member.load_state_dict(saved)
        for name in self.kept:
            value, saved = getattr(self, f"_{name}"), state[name]
            if hasattr(value, "load_state_dict"):
                value.load_state_dict(saved)
            else:
                setattr(self, f"_{name}", deepcopy(saved))


class Baseline(Curator[_Config]):
    """A curator that is handed what it requires, on the CPU, in full precision, and at least one row.

    Unscored rows are counted. With `on_device` the batch stays where it is.

    Raises:
        InputError: a field that it requires is missing, states have fewer than two columns, or a reward of a curator
            for binary rewards is neither 0 nor 1 (nor NaN).
    """

    binary: ClassVar[bool] = False
    on_device: ClassVar[bool] = False

    def curate(self, rollouts: Rollouts, *, generator: Generator | None = None, details: bool = False) -> Curation:
        """Checks the batch, and decides; `details` has no effect."""
        rollouts.require(*self.requires, by=type(self).__name__)
        if "hidden" in self.requires:
            hidden_states(rollouts, by=type(self).__name__)
        unscored = rollouts.rewards.isnan()
        other = ~unscored & (rollouts.rewards != 0) & (rollouts.rewards != 1)
        if self.binary and bool(other.any()):
            row = int(other.nonzero()[0])
            raise InputError(
                f"{type(self).__name__}: expected binary rewards (0 or 1), got {float(rollouts.rewards[row])} "
                f"in row {row}"
            )
        if not len(rollouts):
            return identity(rollouts)
        given = rollouts if self.on_device else moved(rollouts, "cpu")
        with full_precision(given):
            curation = self._curate(given, self.drawing_from(generator))
        return moved(curation, rollouts.rewards.device).with_metrics(unscored_rewards=float(unscored.sum()))

    @abstractmethod
    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        """The curation of a batch that has what is required."""


def moved(held: _Held, device: torch.device | str) -> _Held:
    """The same batch, or curation, with all of its tensors on a device."""
    values = {item.name: getattr(held, item.name) for item in fields(held)}
    tensors: dict[str, Any] = {name: each.to(device) for name, each in values.items() if isinstance(each, Tensor)}
    return replace(held, **tensors)


def hidden_states(rollouts: Rollouts, *, by: str) -> Float[Tensor, "b d"]:
    """The hidden states of a batch, at least two columns of them, which the curator named `by` cannot do without."""
    rollouts.require("hidden", by=by)
    assert rollouts.hidden is not None
    if rollouts.hidden.shape[1] < 2:
        raise InputError(f"hidden: expected at least 2 columns, got shape {tuple(rollouts.hidden.shape)}")
    return rollouts.hidden


def reward_weights(rewards: Float[Tensor, " c"]) -> Float[Tensor, " c"]:
    """Weight 1 for scored rows, 0 for rows whose reward is NaN."""
    return (~rewards.isnan()).to(torch.float32)


def identity(rollouts: Rollouts, metrics: dict[str, float] | None = None) -> Curation:
    """The curation that changes nothing and scores nothing; rows with a NaN reward have weight 0."""
    rows = len(rollouts)
    device = rollouts.rewards.device
    return Curation(
        source=torch.arange(rows, device=device),
        rewards=rollouts.rewards,
        weights=reward_weights(rollouts.rewards),
        scores=torch.full((rows,), torch.nan, dtype=torch.float32, device=device),
        anomalous=torch.zeros(rows, dtype=torch.bool, device=device),
        metrics=metrics or {},
    )


@dataclass(frozen=True, eq=False)
class Group:
    """The rollouts of one prompt that have a reward.

    Attributes:
        name: the group's id in `Rollouts.groups`.
        rows: [n] rows of the batch by ascending reward, those of equal reward in `tie_order`.
        rewards: [n] their rewards, none of them NaN; equal where they differ by rounding only (`tied_rewards`).
        size: rows of the group, those without a reward included.
    """

    name: int
    rows: Int[Tensor, " n"]
    rewards: Float[Tensor, " n"]
    size: int

    @property
    def varies(self) -> bool:
        """Whether two of its rewards differ."""
        return len(self.rows) > 1 and bool(self.rewards[0] != self.rewards[-1])


def tie_order(rollouts: Rollouts) -> Int[Tensor, " b"]:
    """The order in which rows of equal reward are told apart, on the CPU.

    By `ids` where they are given (shorter ones first, so that "2" stands before "10"), otherwise by the sum of the
    hidden state, otherwise by their place in the batch.
    """
    if rollouts.ids is not None:
        names = rollouts.ids
        return torch.tensor(sorted(range(len(names)), key=lambda row: (len(names[row]), names[row])), dtype=torch.long)
    if rollouts.hidden is not None:
        return row_sums(rollouts.hidden).cpu().argsort(stable=True)
    return torch.arange(len(rollouts))


def canonical_rows(rollouts: Rollouts) -> GroupedRows:
    """The rows of a batch on the CPU sorted by group, then reward, then `tie_order`."""
    first = tie_order(rollouts)
    rows = canonical_order(rollouts.rewards[first], rollouts.groups[first])
    return GroupedRows(order=first[rows.order], group=rows.group, offsets=rows.offsets)


def rows_by_group(groups: Int[Tensor, " b"]) -> tuple[Tensor, ...]:
    """The rows of each group, by ascending id; within a group as they came."""
    order = groups.argsort(stable=True)
    sizes = groups[order].unique_consecutive(return_counts=True)[1]
    return order.split(sizes.tolist())


def groups_of(rollouts: Rollouts) -> list[Group]:
    """The groups by ascending id, rows by ascending reward; a group without any reward has no rows."""
    rows = canonical_rows(rollouts)
    rewards = tied_rewards(rollouts.rewards, rollouts.groups)
    groups = []
    for members in rows.order.split(rows.sizes.tolist()):
        scored = members[~rewards[members].isnan()]
        groups.append(Group(int(rollouts.groups[members[0]]), scored, rewards[scored], len(members)))
    return groups


def subset(
    rollouts: Rollouts,
    kept: Sequence[Tensor],
    metrics: dict[str, float],
    *,
    advantages: Float[Tensor, " b"] | None = None,
) -> Curation:
    """The curation that keeps the rows named, none twice, group after group, and leaves the others out.

    If every row is kept, the batch is returned unchanged.

    Args:
        kept: row indices, a tensor for each group.
        advantages: [B] advantages of the input rows that the kept rows bring with them; None: engines compute them
            from the kept rows.
    """
    source = torch.cat([*kept, torch.zeros(0, dtype=torch.long)])
    if len(source) == len(rollouts):
        source = torch.arange(len(rollouts))
    counts = {"kept_rows": float(len(source)), "left_out_rows": float(len(rollouts) - len(source))}
    taken = taking(rollouts, source, {**metrics, **counts})
    return taken if advantages is None else replace(taken, advantages=advantages[source])


def taking(rollouts: Rollouts, source: Int[Tensor, " c"], metrics: dict[str, float]) -> Curation:
    """The curation that takes these rows, in this order."""
    unchanged = identity(rollouts, metrics)
    return replace(unchanged, source=source, rewards=unchanged.rewards[source], weights=unchanged.weights[source])


def reweighted(rollouts: Rollouts, weights: Float[Tensor, " b"], metrics: dict[str, float]) -> Curation:
    """The curation that keeps every row and multiplies its advantage by `weights` [B]; 0 where the reward is NaN."""
    unchanged = identity(rollouts, metrics)
    return replace(unchanged, weights=unchanged.weights * weights)


def half(size: int) -> int:
    """Half of a group, but at least two rows (one has no variance), and never more than there are."""
    return min(size, max(2, size // 2))
