"""The vocabulary that crosses module borders: rollouts go in, a curation comes out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.errors import InputError

# What a second verifier says of rows of the batch, asked for these rows alone: whether a row is right, or its reward;
# None of one that it could not judge.
SecondRewards = Callable[[Sequence[int]], Sequence[bool | float | None]]
# Kind and rank of the tensors.
_TENSORS = {
    "rewards": ("float", 1),
    "groups": ("int", 1),
    "hidden": ("float", 2),
    "lengths": ("int", 1),
    "logprobs": ("float", 1),
    "reference_rewards": ("float", 2),
    "true_rewards": ("float", 1),
    "advantages": ("float", 1),
    "donor_ok": ("bool", 1),
    "response_keys": ("int", 1),
    "prompt_keys": ("int", 1),
    "trusted": ("bool", 1),
    "shared_answers": ("bool", 1),
}


# Which setting of an engine gives a field; its adapter gives the others, or cannot.
_SETTINGS = {
    "answers": "rollout_fields",
    "reference_rewards": "rollout_fields",
    "true_rewards": "rollout_fields",
    "trusted": "labelled_rollouts",
    "second_rewards": "second_verifier",
}


@dataclass(frozen=True, eq=False)
class Rollouts:
    """A batch of B rollouts, as a curator reads it.

    A group is the set of rollouts of one prompt: rows with the same id in `groups`. Ids are any integers, rows stand in
    any order, groups have any size. A NaN reward marks a row that could not be scored: it forms no pair, is never a
    donor and gets weight 0.

    Attributes:
        rewards: [B] scalar reward per rollout (any float dtype; stored as float32, or as float64 if given so; so are
            the other numbers below, except `hidden` and `components`).
        groups: [B] group id per rollout.
        hidden: [B, d] hidden state per rollout, finite; detached here, so no gradient reaches the policy.
        lengths: [B] response length in tokens.
        logprobs: [B] mean log-probability of the tokens that the policy wrote; NaN where it wrote none.
        answers: B final answers (None where a response gives none).
        reference_rewards: [B, M] rewards of M reference responses of the row's prompt.
        true_rewards: [B] reward before corruption, where known (NaN where not).
        advantages: [B] the engine's own advantages, for curators that work after it.
        ids: B strings that name the rows in reports.
        donor_ok: [B] False for rows unfit to replace another (truncated, for example).
        response_keys: [B] equal for rows of a group that hold the same response, token for token (`response_keys` makes
            them). Padding and batching let the hidden states of identical responses differ by rounding, so states alone
            do not tell.
        prompt_keys: [B] equal for rows of the same prompt, in this batch and any other: `response_keys` of the prompts.
        trusted: [B] True for rows whose reward is known to be true, checked by a person for example.
        shared_answers: [B] True for rows of a prompt whose `answers` do not exclude each other: several may be right,
            or two of them may be one. Whoever reads answers heeds it.
        components: what each of several reward functions adds to the reward, by name: [B] each, weights included; NaN
            where it could not score a row.
        second_rewards: returns what a second, costlier verifier says of a few rows, given by index: for each whether it
            is right (a truth value) or its reward (a number).

    Raises:
        InputError: a field has the wrong type, rank or length, or `hidden` is not finite; the message names the field
            and the row.
    """

    rewards: Float[Tensor, " b"]
    groups: Int[Tensor, " b"]
    hidden: Float[Tensor, "b d"] | None = None
    lengths: Int[Tensor, " b"] | None = None
    logprobs: Float[Tensor, " b"] | None = None
    answers: Sequence[str | None] | None = None
    reference_rewards: Float[Tensor, "b m"] | None = None
    true_rewards: Float[Tensor, " b"] | None = None
    advantages: Float[Tensor, " b"] | None = None
    ids: Sequence[str] | None = None
    donor_ok: Bool[Tensor, " b"] | None = None
    response_keys: Int[Tensor, " b"] | None = None
    prompt_keys: Int[Tensor, " b"] | None = None
    trusted: Bool[Tensor, " b"] | None = None
    shared_answers: Bool[Tensor, " b"] | None = None
    components: Mapping[str, Float[Tensor, " b"]] | None = None
    second_rewards: SecondRewards | None = None

    def __post_init__(self) -> None:
        size = len(self.rewards) if isinstance(self.rewards, Tensor) and self.rewards.dim() else 0
        for name, (kind, rank) in _TENSORS.items():
            _check_tensor(name, getattr(self, name), rank=rank, kind=kind, size=size)
        for name, part in (self.components or {}).items():
            _check_tensor(f"components[{name!r}]", part, rank=1, kind="float", size=size)
        _check_strings("answers", self.answers, size=size, none_allowed=True)
        _check_strings("ids", self.ids, size=size, none_allowed=False)
        for name, (kind, _) in _TENSORS.items():
            value = getattr(self, name)
            if kind == "float" and value is not None:
                # In float32 at least: bfloat16 tells rewards near 1 apart from 8e-3 on only. States are many.
                wide = value if name == "hidden" or value.dtype.itemsize >= 4 else value.float()
                object.__setattr__(self, name, wide.detach())
        self._check_finite()

    def _check_finite(self) -> None:
        """Raises InputError for a reward that is infinite, and for a state that is infinite or NaN."""
        infinite = self.rewards.isinf().nonzero()
        if len(infinite):
            row = int(infinite[0])
            raise InputError(
                f"rewards: expected finite numbers or NaN (a row that could not be scored), "
                f"got {self.rewards[row].item()} in row {row}"
            )
        # A sum is finite only if every term is (or terms overflow: then look closer). No [B, d] mask in the usual case.
        if self.hidden is None or bool(self.hidden.sum(dtype=torch.float32).isfinite()):
            return
        for row, state in enumerate(self.hidden):
            not_finite = (~state.isfinite()).nonzero()
            if len(not_finite):
                column = int(not_finite[0])
                raise InputError(
                    f"hidden: expected finite numbers, got {state[column].item()} in row {row}, column {column}"
                )

    def __len__(self) -> int:
        return len(self.rewards)

    def take(self, index: Int[Tensor, " c"]) -> Rollouts:
        """Returns the rows named by `index` (repeats allowed), every field with them.

        Raises:
            InputError: an index lies outside 0..B-1.
        """
        _check_rows("index", index, len(self))
        taken: dict[str, Any] = {}
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, Tensor):
                taken[item.name] = value[index.to(value.device)]
            elif isinstance(value, Mapping):
                taken[item.name] = {name: part[index.to(part.device)] for name, part in value.items()}
            elif item.name == "second_rewards" and value is not None:
                taken[item.name] = _verifier_of(value, index.tolist())
            elif value is not None:
                taken[item.name] = [value[i] for i in index.tolist()]
        return Rollouts(**taken)

    def require(self, *names: str, by: str) -> None:
        """Raises InputError unless every optional field named is present (`by` names the curator that needs it)."""
        missing = [name for name in names if getattr(self, name) is None]
        if missing:
            call = ", ".join(f"{name}=..." for name in missing)
            givers = ", ".join(f"{_SETTINGS.get(name, 'the adapter itself')} gives {name}" for name in missing)
            raise InputError(
                f"{by} needs the rollout field(s) {', '.join(missing)}: expected Rollouts(..., {call}), got none "
                f"(in an engine {givers})"
            )


def _verifier_of(second_rewards: SecondRewards, taken: Sequence[int]) -> SecondRewards:
    """The same verifier where row i is the earlier row `taken[i]`."""
    return lambda rows: second_rewards([taken[row] for row in rows])


def response_keys(responses: Iterable[Sequence[int] | str]) -> Int[Tensor, " b"]:
    """A number for each response, equal for equal token ids (or texts): the `response_keys` of `Rollouts`.

    63 bits of a hash of the response alone, so that several processes agree without communicating. Applied to prompts
    they are the `prompt_keys`.
    """
    keys = []
    for response in responses:
        content = response if isinstance(response, str) else ",".join(str(int(token)) for token in response)
        digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        keys.append(int.from_bytes(digest, "little") >> 1)
    return torch.tensor(keys, dtype=torch.int64)


@dataclass(frozen=True, eq=False)
class PairDetails:
    """The P pairs of one call: row indices into the input, reward margins, deviations and cosines to the prototype."""

    winner: Int[Tensor, " p"]
    loser: Int[Tensor, " p"]
    margin: Float[Tensor, " p"]
    deviation: Float[Tensor, " p"]
    raw_cosine: Float[Tensor, " p"]
    projected_cosine: Float[Tensor, " p"]


@dataclass(frozen=True, eq=False)
class DensityDetails:
    """The density of the scores on a grid, and where it fell below alpha times its peak (NaN: nowhere)."""

    grid: Float[Tensor, " n"]
    density: Float[Tensor, " n"]
    peak: float
    mode: float
    alpha: float
    threshold: float


@dataclass(frozen=True, eq=False)
class CurationDetails:
    """What the figures need beyond the curation itself; made only on request."""

    pairs: PairDetails
    density: DensityDetails | None


@dataclass(frozen=True, eq=False)
class Curation:
    """What a curator decides about B rollouts: which row goes where, with what reward and what weight.

    Attributes:
        source: [C] input row that each output row holds: a subset, a permutation, or with repeats. C = B for curators
            that replace.
        rewards: [C] reward of each output row.
        weights: [C] factor on the advantage of each output row.
        advantages: [C] set only by curators that compute their own; else None, and `group_advantages` or the engine
            computes them from `rewards`.
        scores: [B] suspicion of each input row; NaN where unscored.
        anomalous: [B] which input rows were judged anomalous.
        metrics: floats by name; NaN where a quantity is undefined in this call.
        details: what the figures need; None unless requested.
    """

    source: Int[Tensor, " c"]
    rewards: Float[Tensor, " c"]
    weights: Float[Tensor, " c"]
    scores: Float[Tensor, " b"]
    anomalous: Bool[Tensor, " b"]
    advantages: Float[Tensor, " c"] | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    details: CurationDetails | None = None

    def __post_init__(self) -> None:
        rows = len(self.source)
        for name in ("rewards", "weights", "advantages"):
            value = getattr(self, name)
            if value is not None and value.shape != (rows,):
                raise InputError(f"Curation.{name}: expected shape ({rows},) as source, got {tuple(value.shape)}")
        if self.scores.shape != self.anomalous.shape:
            raise InputError(
                f"Curation.anomalous: expected shape {tuple(self.scores.shape)} as scores, "
                f"got {tuple(self.anomalous.shape)}"
            )
        _check_rows("Curation.source", self.source, len(self.scores))

    @property
    def replaced(self) -> Bool[Tensor, " c"]:
        """[C] True where an output row holds another row than the one in its place; C = B only."""
        if len(self.source) != len(self.scores):
            raise InputError(
                f"replaced: expected as many output rows as input rows, got {len(self.source)} and {len(self.scores)}"
            )
        return self.source != torch.arange(len(self.source), device=self.source.device)

    def with_metrics(self, **metrics: float) -> Curation:
        """Returns the same curation with these metrics added."""
        return replace(self, metrics={**self.metrics, **metrics})


_KINDS = {
    "float": lambda tensor: tensor.is_floating_point(),
    "int": lambda tensor: not tensor.is_floating_point() and not tensor.is_complex() and tensor.dtype != torch.bool,
    "bool": lambda tensor: tensor.dtype == torch.bool,
}


def _check_tensor(name: str, value: object, *, rank: int, kind: str, size: int) -> None:
    """Raises InputError unless a field is a tensor of this rank and kind with a row for each reward; most may lack."""
    if value is None and name not in ("rewards", "groups"):
        return
    if not isinstance(value, Tensor):
        raise InputError(f"{name}: expected a torch.Tensor, got {type(value).__name__}")
    if not _KINDS[kind](value):
        raise InputError(f"{name}: expected dtype {kind}, got {value.dtype}")
    if value.dim() != rank:
        raise InputError(f"{name}: expected {rank} dimension(s), got shape {tuple(value.shape)}")
    if len(value) != size:
        raise InputError(f"{name}: expected {size} rows as rewards, got {len(value)}")


def _check_rows(name: str, index: Tensor, size: int) -> None:
    """Raises InputError where an index is no row of a batch of this size."""
    outside = ((index < 0) | (index >= size)).nonzero()
    if len(outside):
        place = int(outside[0])
        raise InputError(f"{name}: expected rows 0..{size - 1}, got {int(index[place])} at position {place}")


def _check_strings(name: str, value: object, *, size: int, none_allowed: bool) -> None:
    """Raises InputError unless a field is a list of texts (or None, where that is allowed), one for each reward."""
    if value is None:
        return
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InputError(f"{name}: expected a list of str, got {type(value).__name__}")
    if len(value) != size:
        raise InputError(f"{name}: expected {size} rows as rewards, got {len(value)}")
    for row, item in enumerate(value):
        if not (isinstance(item, str) or (none_allowed and item is None)):
            expected = "str or None" if none_allowed else "str"
            raise InputError(f"{name}: expected {expected}, got {type(item).__name__} in row {row}")
