"""The base class of all curators: a curator reads rollouts and returns a curation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from copy import deepcopy
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from geoalign.curators.saved_settings import check_state_keys, other_settings, settings_of
from geoalign.errors import ConfigError, InputError
from geoalign.method.groups import row_sums
from geoalign.types import Curation, Rollouts

_Config = TypeVar("_Config")

# What a curator can change.
ACTIONS = ("rows", "rewards", "weights", "advantages")
AnswerReading = Literal["exclusive", "shared", "none"]


class Curator(ABC, Generic[_Config]):
    """Reads a batch of rollouts and decides which row goes where, with what reward and what weight.

    A subclass names its settings class, declares what it does, and implements `curate`:

        class Clipped(Curator[ClippedConfig]):
            acts_on = ("rewards",)
            scores_rows = False

            def curate(self, rollouts, *, generator=None, details=False):
                rewards = rollouts.rewards.clamp(-self.config.limit, self.config.limit)
                return replace(identity(rollouts), rewards=rewards)

    `Clipped(limit=0.5)` and `Clipped(ClippedConfig(limit=0.5))` are the same.

    Engines, and the curators that hold others, know a curator by what it declares. Declarations are attributes of the
    class. Where a setting decides, `declare` sets them on the curator.

    Attributes of what it reads:
        requires: the optional fields of `Rollouts` that it cannot do without.
        optional: those that it makes use of where an engine or the user can give them.
        components: the names of the reward components that it reads.
        answer_reading: how it reads final answers: at most one answer of a group is right ("exclusive"), several may be
            ("shared"), or it ignores them ("none"). None: it says nothing of how many are right.
        binary_rewards: whether it takes rewards 0 and 1 alone, and refuses others by name.

    Attributes of what it changes:
        acts_on: what it may change, out of `ACTIONS`: "rows" (which row stands where, or is left out), "rewards",
            "weights", "advantages" (it gives its own). (): nothing. None: it does not say, and what an engine cannot
            carry out is refused in the batch in which it happens, not at the start.
        drops_rows: whether it may return fewer rows than it was given.
        recomputes_advantages: whether its method makes the advantages over the rows that it leaves, so that those that
            an earlier member of a chain gave, over other rows, do not hold for them.
        absolute_advantages: whether its own advantages have no baseline in the group, so that groups of equal rewards
            have some too.

    Attributes of what it says of rows:
        scores_rows: whether it scores rows: False where `Curation.scores` is always NaN.
        log_odds: whether its scores are the log-odds of the probability that a reward is wrong.
        min_scores: with fewer scored rows in a batch it does nothing.

    Attributes of what it logs and keeps:
        headline: the metrics that engines log by default: the two that tell most.
        pooled_batches: from how many of the last batches the intervals among its metrics are estimated.
        kept: what it keeps from batch to batch: for each `name` an attribute `_name`, which is saved and restored.
        members: the curators that it holds.

    Raises:
        ConfigError: a setting is unknown or out of range.
    """

    config_class: ClassVar[type[Any]]

    requires: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    answer_reading: AnswerReading | None = None
    binary_rewards: bool = False

    acts_on: tuple[str, ...] | None = None
    drops_rows: bool = False
    recomputes_advantages: bool = False
    absolute_advantages: bool = False

    scores_rows: bool = True
    log_odds: bool = False
    min_scores: int = 0

    headline: ClassVar[tuple[str, ...]] = ()
    pooled_batches: int = 1
    kept: ClassVar[tuple[str, ...]] = ()
    members: tuple[Curator[Any], ...] = ()

    _calls_without_generator: int = 0

    def __init_subclass__(cls, **options: Any) -> None:
        """Takes the settings class from `Curator[MineConfig]`, and refuses actions that there are not."""
        super().__init_subclass__(**options)
        for base in cls.__dict__.get("__orig_bases__", ()):
            # Of `Curator[_Config]`, as of a class of curators with different settings, the argument is no class.
            settings_classes = [argument for argument in get_args(base) if isinstance(argument, type)]
            if settings_classes and "config_class" not in vars(cls):
                cls.config_class = settings_classes[0]
        declared = vars(cls).get("acts_on") or ()
        if isinstance(declared, str) or not set(declared) <= set(ACTIONS):
            expected = f"expected a tuple out of {', '.join(ACTIONS)}"
            raise ConfigError(f"{cls.__name__}.acts_on: {expected}; got {declared!r}")

    def __init__(self, config: _Config | None = None, **settings: Any) -> None:
        name = type(self).__name__
        if config is not None and settings:
            raise ConfigError(f"{name}: expected a config or keywords, got both")
        if config is None:
            config = self.config_class(**settings)
        if not isinstance(config, self.config_class):
            raise ConfigError(f"{name}: expected a {self.config_class.__name__}, got {type(config).__name__}")
        self.config: _Config = config
        self.declare()

    def declare(self) -> None:
        """Sets the declarations that depend on the settings in `config`; here none does."""

    def combine(self, *members: Curator[Any]) -> None:
        """Holds these curators, and declares what they do: all that any of them needs, acts on or drops.

        Of how answers are read the first member that says so decides, of `log_odds` the first that scores rows.
        """
        self.members = members
        self.requires = _union(member.requires for member in members)
        optional = _union(member.optional for member in members)
        self.optional = tuple(name for name in optional if name not in self.requires)
        self.components = _union(member.components for member in members)
        readings = [member.answer_reading for member in members if member.answer_reading is not None]
        self.answer_reading = readings[0] if readings else None
        self.binary_rewards = any(member.binary_rewards for member in members)

        actions = [member.acts_on for member in members]
        self.acts_on = None if None in actions else _union(each for each in actions if each is not None)
        self.drops_rows = any(member.drops_rows for member in members)
        self.recomputes_advantages = any(member.recomputes_advantages for member in members)
        self.absolute_advantages = any(member.absolute_advantages for member in members)

        scoring = [member for member in members if member.scores_rows]
        self.scores_rows = bool(scoring)
        self.log_odds = bool(scoring) and scoring[0].log_odds
        self.min_scores = max((member.min_scores for member in members), default=0)
        self.pooled_batches = max((member.pooled_batches for member in members), default=1)

    def held_curators(self) -> Iterator[Curator[Any]]:
        """The curators that it holds, and those that these hold."""
        for member in self.members:
            yield member
            yield from member.held_curators()

    def also_reads(self, *names: str) -> None:
        """Declares more fields as `optional`, besides those of the members; what is required stays so."""
        read = dict.fromkeys((*self.optional, *names))
        self.optional = tuple(name for name in read if name not in self.requires)

    @property
    def reads(self) -> tuple[str, ...]:
        """The fields of `Rollouts` beyond rewards and groups that it uses: `requires`, then `optional`."""
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
        """What another process needs to resume: nested dicts and lists of tensors and plain values.

        It holds the class and the settings of the curator, and what this has learnt.
        """
        return {"class": type(self).__name__, "settings": settings_of(self), **self._learnt()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Raises:
            ConfigError: the state is another curator's, was saved with other settings (the message names each, with
                both values), or has other keys.
        """
        name = type(self).__name__
        missing = {"class", "settings"} - set(state)
        if missing:
            raise ConfigError(
                f"{name} state: expected the keys class and settings, missing {', '.join(sorted(missing))}: it is no "
                "curator's state, or of an earlier version; begin with a new curator"
            )
        if state["class"] != name:
            raise ConfigError(f"{name} state: expected the state of {name}, got one of {state['class']}")
        differences = other_settings(state["settings"], settings_of(self))
        if differences:
            raise ConfigError(f"{name} state: saved with other settings: {differences}")
        self._restore({key: value for key, value in state.items() if key not in ("class", "settings")})

    def _learnt(self) -> dict[str, Any]:
        """What the state holds besides class and settings: the states of `members`, and each of `kept`."""
        learnt: dict[str, Any] = {}
        if self.members:
            learnt["members"] = [member.state_dict() for member in self.members]
        for name in self.kept:
            value = getattr(self, f"_{name}")
            learnt[name] = value.state_dict() if hasattr(value, "state_dict") else deepcopy(value)
        return learnt

    def _restore(self, state: dict[str, Any]) -> None:
        """Takes what `_learnt` returned; the settings are those of this curator."""
        keys = ["members", *self.kept] if self.members else list(self.kept)
        check_state_keys(state, keys, by=type(self).__name__)
        for member, saved in zip(self.members, state.get("members", []), strict=True):
            member.load_state_dict(saved)
        for name in self.kept:
            value = getattr(self, f"_{name}")
            if hasattr(value, "load_state_dict"):
                value.load_state_dict(state[name])
            else:
                setattr(self, f"_{name}", deepcopy(state[name]))


def _union(several: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """All of the names, each once, as they first come."""
    return tuple(dict.fromkeys(name for names in several for name in names))


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


def anomalous_share(curation: Curation, rollouts: Rollouts) -> float:
    """Which share of the rows that the curator scored it flags; NaN where it scored none.

    Rows without a reward are left out, and so are trusted ones: of their rewards it is known that they are right.
    """
    judged = ~(curation.scores.isnan() | rollouts.rewards.isnan())
    if rollouts.trusted is not None:
        judged &= ~rollouts.trusted
    return float(curation.anomalous[judged].double().mean())


def tie_order(rollouts: Rollouts) -> Int[Tensor, " b"]:
    """The order in which rows of equal reward are told apart, on the CPU.

    By `ids` where they are given (shorter ones first, so that "2" stands before "10"), otherwise by the sum of the
    hidden state, otherwise by their place in the batch.
    """
    names = rollouts.ids
    if names is not None:
        rows = sorted(range(len(names)), key=lambda row: (len(names[row]), names[row]))
        return torch.tensor(rows, dtype=torch.long)
    if rollouts.hidden is not None:
        return row_sums(rollouts.hidden).cpu().argsort(stable=True)
    return torch.arange(len(rollouts))
