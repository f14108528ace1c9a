"""One generation batch on its way through a curator: what TRL's trainer and ms-swift's, which is made of it, share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from accelerate.utils import broadcast_object_list, gather_object
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.adapters.placement import Placement, place
from geoalign.adapters.step import (
    as_answers,
    as_floats,
    check_components,
    check_curator,
    decision_metrics,
    final_advantages,
    made,
    named,
    summed_components,
    wanted_components,
)
from geoalign.adapters.trl.states import StatePlace, TokenIds
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, GeoAlignError, InputError, UnsupportedError
from geoalign.hidden.answers import rows_without_answer
from geoalign.hidden.layers import wanted_layers
from geoalign.hidden.tap import backbone_of
from geoalign.types import Curation, Rollouts, response_keys

# A dataset column, or a function of this process's input rows (each with prompt, completion and completion_ids).
RolloutField = str | Callable[[list[dict[str, Any]]], Sequence[Any]]
USER_FIELDS = ("answers", "reference_rewards", "true_rewards", "second_rewards")
# Of the factor on the loss, in what enters it.
LOSS_SCALE = "geoalign_loss_scale"

# The curator's columns of the completions table.
COLUMNS = ("score", "anomalous", "source")

_Result = TypeVar("_Result")


def check_session(
    trainer: Any, session: CurationSession, fields: Mapping[str, RolloutField], *, place: StatePlace, engine: str
) -> None:
    """Raises unless the trainer can carry the curator out, with states from `place`, and `fields` are what it needs."""
    for name, value in fields.items():
        if name not in USER_FIELDS:
            raise ConfigError(f"rollout_fields: expected keys out of {', '.join(USER_FIELDS)}; got {name!r}")
        if not (isinstance(value, str) or callable(value)):
            raise ConfigError(
                f"rollout_fields[{name!r}]: expected a dataset column or a callable, got {type(value).__name__}"
            )
    check_curator(session, fields, engine=engine, how="rollout_fields with {need}=<column or callable>")
    check_components(wanted_components(session.curator), trainer.reward_func_names, source="reward functions")
    if "hidden" in session.curator.requires:
        for name, config in getattr(trainer.model, "peft_config", {}).items():
            if getattr(config, "is_prompt_learning", False):
                raise UnsupportedError(
                    f"PEFT adapter {name!r} of type {config.peft_type}: prompt learning puts virtual tokens before the "
                    "prompt, and the positions of hidden states would be wrong"
                )
        wanted_layers(backbone_of(trainer.model), place.layer)


def field_values(name: str, field: RolloutField, rows: list[dict[str, Any]]) -> list[Any]:
    """One value per row of this process; InputError where a row lacks the column, or a callable returned too few."""
    if isinstance(field, str):
        for index, row in enumerate(rows):
            if field not in row:
                raise InputError(
                    f"rollout_fields[{name!r}]: expected a dataset column {field!r}, got columns {sorted(row)} "
                    f"in row {index}"
                )
        return [row[field] for row in rows]
    values = list(field(rows))
    if len(values) != len(rows):
        raise InputError(f"rollout_fields[{name!r}]: expected {len(rows)} values from the callable, got {len(values)}")
    return values


def table_columns(curation: Curation | None, source: Tensor) -> dict[str, list[Any]]:
    """The values of `COLUMNS` for all rows; None: nobody curates (evaluation), and the columns stay aligned."""
    if curation is None:
        return dict(zip(COLUMNS, ([math.nan] * len(source), [False] * len(source), source.tolist()), strict=True))
    values = (curation.scores.tolist(), curation.anomalous.tolist(), source.tolist())
    return dict(zip(COLUMNS, values, strict=True))


class TrainerRound:
    """Follows one generation batch over all processes; the methods are called on every process alike.

    Args:
        trainer: with `accelerator`, `num_generations`, `reward_weights` and `reward_func_names`.
        fields: the user's rollout fields.
    """

    def __init__(self, trainer: Any, session: CurationSession, fields: dict[str, RolloutField]) -> None:
        self._trainer = trainer
        self._session = session
        self._curator = session.curator
        self._fields = fields
        self._metrics: dict[str, float] = {}
        self._rollouts: Rollouts
        self._placement: Placement
        self._raw: Tensor

    def _read(
        self,
        rewards: Float[Tensor, " b"],
        per_function: Float[Tensor, "b f"],
        *,
        prompts: TokenIds,
        contents: TokenIds,
        lengths: Int[Tensor, " l"],
        hidden: Callable[[], Tensor],
        logprobs: Callable[[], Tensor] | None = None,
        unfit: list[bool] | None,
        rows: list[dict[str, Any]],
    ) -> Rollouts:
        """The batch of all processes as a curator reads it.

        Args:
            rewards: [B] of all processes' rows, NaN where unscored; so are `per_function`. The rest is this process's.
            contents: what tells one row of a group from another.
            hidden, logprobs: compute them; called where the curator requires them.
            unfit: rows that are no donors; None: nothing is known against any.
            rows: as `rollout_fields` get them.
        """
        trainer, accelerator, needs = self._trainer, self._trainer.accelerator, self._curator.requires
        device, gather = accelerator.device, accelerator.gather
        self._raw = per_function
        groups = torch.arange(len(rewards), device=device) // trainer.num_generations
        fields: dict[str, Any] = {
            "lengths": gather(lengths.to(device)),
            "ids": [f"{self._session.calls}:{row}" for row in range(len(rewards))],
            "response_keys": gather(response_keys(contents).to(device)),
        }
        makers = {
            "prompt_keys": lambda: gather(response_keys(prompts).to(device)),
            # Only rank 0 curates: elsewhere there are none.
            "hidden": lambda: gather_to_rank_0(self._timed("hidden_seconds", hidden), accelerator),
            "advantages": lambda: self._formula(rewards, per_function, groups),
            "components": lambda: summed_components(per_function, trainer.reward_weights, trainer.reward_func_names),
            **({} if logprobs is None else {"logprobs": lambda: gather(self._timed("logprob_seconds", logprobs))}),
            "donor_ok": lambda: ~gather(torch.tensor(unfit or [False] * len(contents), device=device)),
        }
        fields |= made(makers, needs if unfit is None else {*needs, "donor_ok"}) | self._user_fields(rows)
        return Rollouts(rewards=rewards, groups=groups, **fields)

    def _formula(self, rewards: Tensor, per_function: Tensor, groups: Tensor) -> Tensor:
        """[B] the engine's advantages of rewards, NaN left out."""
        raise NotImplementedError

    def _user_fields(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        accelerator = self._trainer.accelerator
        fields: dict[str, Any] = {}
        for name, field in self._fields.items():
            if name == "second_rewards":
                # Rank 0 curates, and asks for the rows that it chooses.
                if name in self._curator.requires:
                    fields[name] = partial(_second_rewards, field, gather_list(rows))
            elif name == "answers":
                fields[name] = gather_list(as_answers(field_values(name, field, rows)))
            else:
                values = field_values(name, field, rows)
                fields[name] = accelerator.gather(as_floats(name, values, accelerator.device))
        return fields

    def _decide(
        self, rollouts: Rollouts, *, details: bool = False, anchors: Callable[[], Rollouts | None] = lambda: None
    ) -> Curation:
        """The curation, decided on rank 0; keeps the assignment of its rows. `anchors` are asked for there."""

        def curate() -> Curation:
            shown = anchors()
            return self._timed("seconds", lambda: self._session.curate(rollouts, details=details, anchors=shown))

        accelerator = self._trainer.accelerator
        curation = curation_from_rank_0(curate, accelerator=accelerator)
        self._rollouts = rollouts
        self._placement = place(curation, rollouts.groups, by=self._session.name)
        if accelerator.is_main_process:
            found = decision_metrics(curation, rollouts, self._placement, **self._metrics)
            for name, value in named(found).items():
                self._trainer._metrics["train"][name].append(value)
        return curation

    def _as_scored(self) -> bool:
        """Whether every slot has the reward that its own row came with."""
        placed, scored = self._placement.rewards, self._rollouts.rewards
        same = torch.equal(placed.nan_to_num(0), scored.nan_to_num(0)) and torch.equal(placed.isnan(), scored.isnan())
        return same and not bool(self._placement.replaced.any())

    def _final_advantages(self, computed: Callable[[], Tensor] | None) -> Float[Tensor, " b"]:
        """[B] what enters the loss: the curator's own, those that the engine `computed` of the rewards as scored (None:
        it has none that count), or its formula over the curated rewards; times the weights."""
        placement = self._placement

        def formula() -> Tensor:
            moved = self._raw[placement.source].masked_fill(~placement.kept[:, None], torch.nan)
            return self._formula(placement.rewards, moved, self._rollouts.groups)

        return final_advantages(placement, computed if computed is not None and self._as_scored() else formula)

    def _crossing(self, local: int) -> bool:
        """Whether any donor lives on another process; the same answer on every process, of `local` rows each."""
        source = self._placement.source
        slots = torch.arange(len(source), device=source.device)
        return bool((source // local != slots // local).any())

    def _count(self, name: str, rows: int) -> None:
        """Notes the sum of a number over all processes as a metric."""
        accelerator = self._trainer.accelerator
        self._metrics[name] = float(accelerator.gather(torch.tensor(rows, device=accelerator.device)).sum())

    def _count_answers(self, starts: list[int] | None) -> None:
        if starts is not None:
            self._count("rows_without_answer", rows_without_answer(starts))

    def _timed(self, name: str, run: Callable[[], _Result]) -> _Result:
        """Runs one part of the round and keeps its seconds; a GPU's work counts where it was ordered."""
        device = self._trainer.accelerator.device
        wait = torch.cuda.synchronize if device.type == "cuda" else lambda device: None
        wait(device)
        started = time.perf_counter()
        result = run()
        wait(device)
        self._metrics[name] = time.perf_counter() - started
        return result


def _second_rewards(field: RolloutField, inputs: list[dict[str, Any]], rows: Sequence[int]) -> list[float]:
    values = field_values("second_rewards", field, [inputs[row] for row in rows])
    verdicts: list[float] = as_floats("second_rewards", values, torch.device("cpu")).tolist()
    return verdicts


def gather_list(values: list[Any]) -> list[Any]:
    """The lists of all processes in order of rank, on every process."""
    return list(gather_object(values))


def gather_to_rank_0(values: Float[Tensor, "b d"], accelerator: Any) -> Float[Tensor, "n d"] | None:
    """The rows of all processes in order of rank on rank 0, and None elsewhere: no other process needs their memory.

    Every process gives equally many rows. `accelerator` may be a `PartialState`.
    """
    if accelerator.num_processes == 1:
        return values
    values = values.contiguous()
    if not accelerator.is_main_process:
        dist.gather(values)
        return None
    whole = values.new_empty(accelerator.num_processes * len(values), *values.shape[1:])
    dist.gather(values, list(whole.split(len(values))))
    return whole


def curation_from_rank_0(decide: Callable[[], Curation], *, accelerator: Any) -> Curation:
    """Runs `decide` on rank 0 only and returns its curation on every process, bit for bit the same, on the device.

    Floats are float32 everywhere, however many processes there are. Metrics and details stay on rank 0. Where rank 0
    raised, so do all processes: rank 0 its own error, the others a GeoAlignError.
    """
    if accelerator.num_processes == 1:
        return _to(decide(), accelerator.device)
    decided: Curation | None = None
    failure: Exception | None = None
    if accelerator.is_main_process:
        try:
            decided = _to(decide(), accelerator.device)
        except Exception as error:  # raised again below, once the other processes know
            failure = error
    sent = None if decided is None else replace(_to(decided, torch.device("cpu")), metrics={}, details=None)
    received: Curation | None = broadcast_object_list([sent])[0]
    if failure is not None:
        raise failure
    if received is None:
        raise GeoAlignError("curation failed on rank 0; its error stands in that process's output")
    return _to(received, accelerator.device) if decided is None else decided


def _to(curation: Curation, device: torch.device) -> Curation:
    def floats(values: Tensor) -> Tensor:
        return values.detach().to(device=device, dtype=torch.float32)

    return replace(
        curation,
        source=curation.source.to(device=device, dtype=torch.int64),
        rewards=floats(curation.rewards),
        weights=floats(curation.weights),
        advantages=None if curation.advantages is None else floats(curation.advantages),
        scores=floats(curation.scores),
        anomalous=curation.anomalous.to(device),
    )
