"""The one plug-in verb: a curator reads rollouts and returns a curation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeVar, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.errors import ConfigError, InputError
from geoalign.types import Curation, Rollouts

_Config = TypeVar("_Config")


class Curator(ABC, Generic[_Config]):
    """Reads a batch of rollouts and says which row stands where, with what reward and what weight.

    A subclass names its settings class, `class Mine(Curator[MineConfig])` (or in `config_class`), the optional rollout
    fields that it needs in `requires`, those that it makes use of where an engine or the user can give them in
    `optional`, and implements `curate`.
    Settings come as one frozen config or, as a shorthand, as its keywords. A curator that no training engine can carry
    out says why in `library_only`; adapters refuse it with these words.

    Raises:
        ConfigError: a setting is unknown or out of range.
    """

    config_class: ClassVar[type[Any]]
    requires: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    library_only: str | None = None

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
        """What another process needs to go on: nested dicts and lists of tensors and plain values. Default: nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Raises:
            ConfigError: the state is not of this curator.
        """
        if state:
            raise ConfigError(f"{type(self).__name__}: expected an empty state, got keys {sorted(state)}")

    def _expect_keys(self, state: dict[str, Any], *keys: str) -> None:
        """Raises ConfigError unless a state has these keys alone: it is of another curator."""
        if set(state) != set(keys):
            named = f"the key{'s' if len(keys) > 1 else ''} {' and '.join(keys)}"
            raise ConfigError(f"{type(self).__name__} state: expected {named}, got {sorted(state)}")


def hidden_states(rollouts: Rollouts, *, by: str) -> Float[Tensor, "b d"]:
    """The hidden states of a batch, which the curator named `by` cannot do without.

    Raises:
        InputError: there are none, or they have fewer than two columns.
    """
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
