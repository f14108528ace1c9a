"""The one plug-in verb: a curator reads rollouts and returns a curation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import deepcopy
from typing import Any, ClassVar, Generic, TypeVar, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.curators.precision import full_precision
from geoalign.errors import ConfigError, InputError
from geoalign.types import Curation, Rollouts

_Config = TypeVar("_Config")


class Curator(ABC, Generic[_Config]):
    """Reads a batch of rollouts and says which row stands where, with what reward and what weight.

    A subclass names its settings class, `class Mine(Curator[MineConfig])`, the optional rollout fields that it needs in
    `requires`, those that it makes use of where an engine or the user can give them in `optional`, and implements
    `curate`. What it keeps from batch to batch stands in attributes `_name` for each `name` in `kept`.
    Settings come as one frozen config or, as a shorthand, as its keywords.

    Raises:
        ConfigError: a setting is unknown or out of range.
    """

    config_class: ClassVar[type[Any]]
    kept: ClassVar[tuple[str, ...]] = ()
    requires: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()

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
            raise ConfigError(
                f"{type(self).__name__}: expected a {self.config_class.__name__}, got {type(config).__name__}"
            )
        self.config: _Config = config

    @property
    def reads(self) -> tuple[str, ...]:
        """The optional rollout fields that it looks at: those that it requires, and those that it makes use of."""
        return (*self.requires, *self.optional)

    @abstractmethod
    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Returns the curation of one batch.

        Args:
            rollouts: the batch; a curator reads it and never changes it.
            generator: CPU generator of every random draw; None: torch's global one.
            details: also return what the figures need (`Curation.details`), where the curator has it.
        """

    def state_dict(self) -> dict[str, Any]:
        """What another process needs to go on: nested dicts and lists of tensors and plain values."""
        held = {name: getattr(self, f"_{name}") for name in self.kept}
        return {
            name: value.state_dict() if hasattr(value, "state_dict") else deepcopy(value)
            for name, value in held.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` returned; the settings must be those that it was saved with.

        Raises:
            ConfigError: the state is not of this curator.
        """
        self._expect_keys(state, *self.kept)
        for name, saved in state.items():
            value = getattr(self, f"_{name}")
            if hasattr(value, "load_state_dict"):
                value.load_state_dict(saved)
            else:
                setattr(self, f"_{name}", deepcopy(saved))

    def _expect_keys(self, state: dict[str, Any], *keys: str) -> None:
        """Raises ConfigError unless a state has these keys alone: it is of another curator."""
        if set(state) != set(keys):
            expected = ", ".join(keys) or "(none)"
            raise ConfigError(f"{type(self).__name__} state: expected the keys {expected}, got {sorted(state)}")


class Baseline(Curator[_Config]):
    """A curator that is handed what it requires, in full precision, and at least one row; unscored rows are counted.

    Raises:
        InputError: a field that it requires is missing, states have fewer than two columns, or a reward of a curator
            for binary rewards is neither 0 nor 1 (nor NaN).
    """

    binary: ClassVar[bool] = False

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
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
        with full_precision(rollouts):
            curation = self._curate(rollouts, generator)
        return curation.with_metrics(unscored_rewards=float(unscored.sum()))

    @abstractmethod
    def _curate(self, rollouts: Rollouts, generator: torch.Generator | None) -> Curation:
        """The curation of a batch that has what is required."""


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
        scores=torch.full((rows,), torch.nan, device=device),
        anomalous=torch.zeros(rows, dtype=torch.bool, device=device),
        metrics=metrics or {},
    )
