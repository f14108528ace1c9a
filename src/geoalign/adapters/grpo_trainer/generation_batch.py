"""One generation batch on its way through a curator: what TRL's trainer and ms-swift's, which is made of it, share."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from accelerate.utils import broadcast_object_list, gather_object
from jaxtyping import Float
from torch import Tensor
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from geoalign.adapters.assignment import Assignment, assign
from geoalign.adapters.decision import (
    as_answers,
    as_floats,
    check_can_run,
    check_components,
    decision_metrics,
    final_advantages,
    is_alarm,
    metrics_to_log,
    needed_fields,
    prefixed_metrics,
    summed_components,
)
from geoalign.adapters.grpo_trainer.states import HiddenLocation, RowTokens, own_hidden, own_pass
from geoalign.adapters.second_verifier import GoldPlaces, SecondVerifier, make_second_verifier, refuse_endpoint
from geoalign.adapters.settings import GOLD_ANSWERS, LogMetrics
from geoalign.answers import boxed_answers
from geoalign.answers.calls import awaited
from geoalign.answers.function import RewardFunction
from geoalign.answers.messages import response_text
from geoalign.curators.curator import Curator
from geoalign.curators.session import STATE_FILE, CurationSession
from geoalign.errors import ConfigError, GeoAlignError, InputError, UnsupportedError
from geoalign.hidden.answer_tokens import rows_without_answer
from geoalign.hidden.layers import wanted_layers
from geoalign.hidden.tap import backbone_of
from geoalign.text import quote
from geoalign.types import Curation, Rollouts, response_keys

# A dataset column, or a function of this process's input rows (each with prompt, completion and completion_ids).
RolloutField = str | Callable[[list[dict[str, Any]]], Sequence[Any]]
USER_FIELDS = ("answers", "reference_rewards", "true_rewards", GOLD_ANSWERS)
# Columns in which data sets have the gold answer, where `rollout_fields` names none.
_GOLD_COLUMNS = ("answer", "solution")
# Of the factor on the loss, in what enters it.
LOSS_SCALE = "geoalign_loss_scale"

# The curator's columns of the completions table.
COLUMNS = ("score", "anomalous", "source")

_Result = TypeVar("_Result")
_Base: Any = object
if TYPE_CHECKING:
    from transformers import Trainer as _Base


def answers_of_boxes(rows: list[dict[str, Any]]) -> list[str | None]:
    """The rollout field `answers` where the user gives none: what each completion says in its last box."""
    return boxed_answers([row["completion"] for row in rows])


def fields_with_answers(fields: Mapping[str, RolloutField], curator: Curator) -> dict[str, RolloutField]:
    """The user's rollout fields; answers are read from boxes where the curator looks at answers and none are given."""
    wanted = "answers" in curator.reads and "answers" not in fields
    return {**fields, "answers": answers_of_boxes} if wanted else dict(fields)


def trainers_verifier(
    verifier: str | RewardFunction | None,
    session: CurationSession,
    *,
    endpoint: Mapping[str, Any],
    seconds: float,
    fields: Mapping[str, RolloutField],
) -> SecondVerifier | None:
    """The second verifier of a trainer's settings; None where they name none. Raises as `make_second_verifier`."""
    if verifier is None:
        refuse_endpoint(endpoint, key="second_verifier")
        return None
    own = fields.get(GOLD_ANSWERS)
    # What a function returns is put into the first of the usual columns.
    names = (own,) if isinstance(own, str) else _GOLD_COLUMNS[:1] if callable(own) else _GOLD_COLUMNS
    gold = GoldPlaces(names, f"rollout_fields with {GOLD_ANSWERS}=<column or callable>")
    return make_second_verifier(verifier, session, endpoint=endpoint, seconds=seconds, gold=gold)


def check_session(
    trainer: Any,
    session: CurationSession,
    fields: Mapping[str, RolloutField],
    *,
    location: HiddenLocation,
    second_verifier: SecondVerifier | None = None,
) -> None:
    """Raises unless the trainer can carry the curator out, states from `location`, and `fields` are what it needs."""
    for name, value in fields.items():
        if name not in USER_FIELDS:
            raise ConfigError(f"rollout_fields: expected keys out of {', '.join(USER_FIELDS)}; got {name!r}")
        if not (isinstance(value, str) or callable(value)):
            raise ConfigError(
                f"rollout_fields[{name!r}]: expected a dataset column or a callable, got {type(value).__name__}"
            )
    given = {*fields, "components"}  # the rewards of the trainer's functions
    if second_verifier is not None:
        given.add("second_rewards")
        named = fields.get(GOLD_ANSWERS)
        # A function of the user's, or for a name of theirs the rollout function, brings them later.
        may_come_later = callable(named) or (named is not None and getattr(trainer, "rollout_func", None) is not None)
        if not may_come_later:
            second_verifier.check_gold(trainer.train_dataset)
    check_can_run(session, given, how="rollout_fields with {need}=<column or callable>")
    session.remedies = replace(session.remedies, enlarge=lambda factor: larger_generation(trainer.args, factor))
    check_components(session.curator.components, trainer.reward_func_names, source="reward functions")
    if "hidden" in session.curator.requires:
        for name, config in getattr(trainer.model, "peft_config", {}).items():
            if getattr(config, "is_prompt_learning", False):
                raise UnsupportedError(
                    f"PEFT adapter {name!r} of type {config.peft_type}: prompt learning puts virtual tokens before the "
                    "prompt, and the positions of hidden states would be wrong"
                )
        wanted_layers(backbone_of(trainer.model), location.layer)


def larger_generation(args: Any, factor: float) -> str:
    """The setting of TRL's that makes a generation batch so many times as large.

    By itself a batch is generated for as many micro-batches as gradients are accumulated over.
    """
    own = args.steps_per_generation not in (None, args.gradient_accumulation_steps)
    name = "steps_per_generation" if own else "gradient_accumulation_steps"
    return f"raise {name} to {math.ceil(getattr(args, name) * factor)}"


def named_field(text: str) -> RolloutField:
    """The rollout field of a setting: a column's name, or the function that `module:function` names."""
    module, colon, function = text.partition(":")
    if not colon:
        return text
    try:
        found: RolloutField = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"rollout_fields: expected a column or module:function, got {text!r} ({error})") from error
    return found


def field_values(name: str, field: RolloutField, rows: list[dict[str, Any]]) -> list[Any]:
    """One value per row of this process; an asynchronous callable is awaited.

    InputError where a row lacks the column, or a callable returned one value for all, or another number of them.
    """
    if isinstance(field, str):
        for index, row in enumerate(rows):
            if field not in row:
                raise InputError(
                    f"rollout_fields[{name!r}]: expected a dataset column {field!r}, got columns {sorted(row)} "
                    f"in row {index}"
                )
        return [row[field] for row in rows]
    found = awaited(field(rows))
    try:
        values = None if isinstance(found, str) else list(found)
    except TypeError:  # a number, or None
        values = None
    if values is None:
        expected = f"expected a list of {len(rows)} values from the callable"
        raise InputError(f"rollout_fields[{name!r}]: {expected}, got {quote(found)}. Return one value for each row")
    if len(values) != len(rows):
        raise InputError(f"rollout_fields[{name!r}]: expected {len(rows)} values from the callable, got {len(values)}")
    return values


def table_columns(curation: Curation | None, source: Tensor) -> dict[str, list[Any]]:
    """The values of `COLUMNS` for all rows; None: nobody curates (evaluation), and the columns stay aligned."""
    if curation is None:
        return dict(zip(COLUMNS, ([math.nan] * len(source), [False] * len(source), source.tolist()), strict=True))
    values = (curation.scores.tolist(), curation.anomalous.tolist(), source.tolist())
    return dict(zip(COLUMNS, values, strict=True))


class CuratedTrainer(_Base):
    """What the mixins of both trainers do alike: the loss where rows were dropped, and checkpoints.

    Attributes:
        _session: the curator; None: plain GRPO.
        _quiet_alarms: in how many generations since the last log an alarm was 0, by its name.
    """

    _session: CurationSession | None
    _quiet_alarms: dict[str, int]

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """The trainer's loss, scaled to a mean over the kept rows where rows were dropped."""
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        scale = inputs.get(LOSS_SCALE) if isinstance(inputs, dict) else None
        return loss if scale is None else loss * scale

    def _save_checkpoint(self, model: Any, trial: Any, *args: Any, **kwargs: Any) -> Any:
        # Before the others: the checkpoint is pushed as soon as these are written.
        if self._session is not None and self.args.should_save:
            folder = Path(self._get_output_dir(trial=trial)) / f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}"
            self._session.save(folder / STATE_FILE)
        return super()._save_checkpoint(model, trial, *args, **kwargs)

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        # By `resume_only_model` ms-swift takes the weights of a checkpoint, and nothing else.
        if self._session is None or checkpoint is None or getattr(self.args, "resume_only_model", False):
            return
        self._session.load(
            Path(checkpoint) / STATE_FILE,
            setting="resume_from_checkpoint",
            otherwise="to start curating in the middle of a training that did not, start anew from its model",
        )


class TrainerRound:
    """Follows one generation batch over all processes; the methods are called on every process alike."""

    # An environment may add to a prompt what it shows at its start, and a rollout function may make one.
    _prompts_differ = False

    def __init__(
        self,
        trainer: Any,
        session: CurationSession,
        location: HiddenLocation,
        fields: dict[str, RolloutField],
        log_metrics: LogMetrics,
        second_verifier: SecondVerifier | None = None,
    ) -> None:
        self._trainer = trainer
        self._second_verifier = second_verifier
        self._session = session
        self._location = location
        self._fields = fields
        self._log_metrics = log_metrics
        self._gather = trainer.accelerator.gather
        self._metrics: dict[str, float] = {}
        self._tokens: RowTokens
        self._raw: Tensor
        self._rollouts: Rollouts
        self._assignment: Assignment

    def note_tokens(self, tokens: RowTokens) -> None:
        """Notes the tokens of this process's rows, and where their answers begin."""
        self._tokens = tokens
        if "hidden" in self._session.curator.requires:
            tokens.find_answers(self._trainer._tokenizer, self._location)

    def _read(
        self,
        rewards: Float[Tensor, " b"],
        per_function: Float[Tensor, "b f"],
        rows: Iterable[dict[str, Any]],
        truncated: Iterable[bool],
    ) -> Rollouts:
        """The batch as a curator reads it: rewards of all processes' rows, NaN where unscored; `rows` (dataset columns,
        prompt and completion) and `truncated` (unfit to be donors) are this process's."""
        trainer, tokens, gather, device = self._trainer, self._tokens, self._gather, self._trainer.accelerator.device
        self._raw = per_function
        given = [{**row, "completion_ids": ids} for row, ids in zip(rows, tokens.responses, strict=True)]
        pairs = zip(tokens.prompts, tokens.responses, strict=True)
        # A response alone tells rows of a group apart, unless their prompts differ.
        contents = [[*prompt, *response] for prompt, response in pairs] if self._prompts_differ else tokens.responses
        unfit = [cut or none for cut, none in zip(truncated, tokens.nothing, strict=True)]
        known: dict[str, Any] = {
            "rewards": rewards,
            "groups": torch.arange(len(rewards), device=device) // trainer.num_generations,
            "lengths": gather(tokens.lengths.to(device)),
            "ids": [f"{self._session.calls}:{row}" for row in range(len(rewards))],
            "response_keys": gather(response_keys(contents).to(device)),
            "donor_ok": ~gather(torch.tensor(unfit, device=device)),
        }
        makers = {
            "prompt_keys": lambda: gather(response_keys(tokens.prompts).to(device)),
            "hidden": lambda: gather(self._timed("hidden_seconds", self._hidden)),
            "logprobs": lambda: gather(self._timed("logprob_seconds", self._logprobs)),
            "advantages": lambda: self._formula(rewards, per_function),
            "components": lambda: summed_components(per_function, trainer.reward_weights, trainer.reward_func_names),
        }
        self._count("rows_without_policy_token", sum(tokens.nothing))
        if tokens.answers is not None:
            self._count("rows_without_answer", rows_without_answer(tokens.answers))
        return Rollouts(**known, **needed_fields(makers, self._session.curator.reads), **self._user_fields(given))

    def _hidden(self) -> Tensor:
        return own_hidden(self._trainer, self._tokens, self._location)

    def _logprobs(self) -> Tensor:
        return own_pass(self._trainer, self._tokens, None).logprobs

    def _formula(self, rewards: Tensor, per_function: Tensor) -> Tensor:
        """[B] the engine's advantages of rewards, NaN left out."""
        raise NotImplementedError

    def _user_fields(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        device = self._trainer.accelerator.device
        fields: dict[str, Any] = {}
        if self._second_verifier is not None:
            # Rank 0 curates, and asks about the rows that it chooses.
            of_all = gather_object(rows)
            fields["second_rewards"] = self._second_verifier.field(lambda asked: self._asked_rows(of_all, asked))
        for name, field in self._fields.items():
            if name == GOLD_ANSWERS:
                continue
            if name == "answers":
                answers = gather_object(as_answers(field_values(name, field, rows)))
                # Responses of a task without boxes have answers of another kind, not none.
                unread = field is answers_of_boxes and not any(answers)
                if not unread or name in self._session.curator.requires:
                    fields[name] = answers
            else:
                fields[name] = self._gather(as_floats(name, field_values(name, field, rows), device))
        return fields

    def _asked_rows(self, rows: Sequence[dict[str, Any]], asked: Sequence[int]) -> list[dict[str, Any]]:
        """The rows of these numbers as the second verifier reads them."""
        chosen = [{**rows[row], "response": response_text(rows[row]["completion"])} for row in asked]
        gold = self._fields.get(GOLD_ANSWERS)
        if not callable(gold):
            return chosen
        answers = field_values(GOLD_ANSWERS, gold, chosen)
        return [{**row, _GOLD_COLUMNS[0]: answer} for row, answer in zip(chosen, answers, strict=True)]

    def _decide(self, rollouts: Rollouts, *, details: bool = False, labelled: Rollouts | None = None) -> Curation:
        """The curation, decided on rank 0; keeps the assignment of its rows."""

        def curate() -> Curation:
            return self._timed("seconds", lambda: self._session.curate(rollouts, details=details, labelled=labelled))

        accelerator = self._trainer.accelerator
        curation = curation_from_rank_0(curate, accelerator=accelerator)
        self._rollouts = rollouts
        self._assignment = assign(curation, rollouts.groups, by=self._session.name)
        if accelerator.is_main_process:
            self._log(decision_metrics(curation, rollouts, self._assignment, **self._metrics))
        return curation

    def _log(self, metrics: dict[str, float]) -> None:
        """Adds the metrics of a generation to the trainer's, which logs the mean over the generations since its last
        log. An alarm counts as 0 in those where it was 0, though it is not logged before it is another."""
        trainer: CuratedTrainer = self._trainer
        log = self._trainer._metrics["train"]
        if not log.get("geoalign/seconds"):
            trainer._quiet_alarms.clear()
        shown = metrics_to_log(metrics, self._session.curator, self._log_metrics)
        for name, value in prefixed_metrics(metrics).items():
            if name in shown or log.get(name):
                log[name].extend([0.0] * trainer._quiet_alarms.pop(name, 0))
                log[name].append(value)
            elif is_alarm(name):
                trainer._quiet_alarms[name] = trainer._quiet_alarms.get(name, 0) + 1

    def _as_scored(self) -> bool:
        """Whether every position has the reward that its own row came with."""
        placed, scored = self._assignment.rewards, self._rollouts.rewards
        same = torch.equal(placed.nan_to_num(0), scored.nan_to_num(0)) and torch.equal(placed.isnan(), scored.isnan())
        return same and not bool(self._assignment.replaced.any())

    def _final_advantages(self, computed: Callable[[], Tensor] | None) -> Float[Tensor, " b"]:
        """[B] what enters the loss: the curator's own, those that the engine `computed` of the rewards as scored (None:
        it has none that count), or its formula over the curated rewards; times the weights."""
        assignment = self._assignment

        def formula() -> Tensor:
            moved = self._raw[assignment.source].masked_fill(~assignment.kept[:, None], torch.nan)
            return self._formula(assignment.rewards, moved)

        # The formula also where the curator brings advantages: it refuses rewards that have no meaning in it.
        values = computed() if computed is not None and self._as_scored() else formula()
        return final_advantages(assignment, lambda: values)

    def _mine(self, local: int) -> slice:
        """This process's rows among all, of `local` rows each."""
        first = self._trainer.accelerator.process_index * local
        return slice(first, first + local)

    def _crossing(self, local: int) -> bool:
        """Whether any donor lives on another process; the same answer on every process, of `local` rows each."""
        source = self._assignment.source
        positions = torch.arange(len(source), device=source.device)
        return bool((source // local != positions // local).any())

    def _count(self, name: str, rows: int) -> None:
        """Notes the sum of a number over all processes as a metric."""
        self._metrics[name] = float(self._gather(torch.tensor(rows, device=self._trainer.accelerator.device)).sum())

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


def curation_from_rank_0(decide: Callable[[], Curation], *, accelerator: Any) -> Curation:
    """Runs `decide` on rank 0 only and returns its curation on every process, bit for bit the same, on the device.

    Floats are float32 everywhere, however many processes there are. Metrics and details stay on rank 0. Where rank 0
    raised, so do all processes: rank 0 its own error, the others a GeoAlignError.
    """
    decided: Curation | None = None
    failure: Exception | None = None
    if accelerator.is_main_process:
        try:
            decided = _on_device(decide(), accelerator.device)
        except Exception as error:  # raised again below, once the other processes know
            failure = error
    sent = None if decided is None else replace(_on_device(decided, torch.device("cpu")), metrics={}, details=None)
    received: Curation | None = broadcast_object_list([sent])[0]
    if failure is not None:
        raise failure
    if received is None:
        raise GeoAlignError("curation failed on rank 0; its error stands in that process's output")
    return _on_device(received, accelerator.device) if decided is None else decided


def _on_device(curation: Curation, device: torch.device) -> Curation:
    def converted(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        return value.detach().to(device=device, dtype=torch.float32 if value.is_floating_point() else value.dtype)

    return Curation(**{item.name: converted(getattr(curation, item.name)) for item in fields(curation)})
