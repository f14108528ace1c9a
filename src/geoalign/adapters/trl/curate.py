"""One generation batch of TRL on its way through a curator: what is measured, decided and carried out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from accelerate.utils import gather_object
from jaxtyping import Int
from torch import Tensor

from geoalign.adapters.grpo_trainer import moving_rows as rows
from geoalign.adapters.grpo_trainer import scaled_advantages as advantages
from geoalign.adapters.grpo_trainer.generation_batch import (
    COLUMNS,
    LOSS_SCALE,
    RolloutField,
    TrainerRound,
    table_columns,
)
from geoalign.adapters.grpo_trainer.states import HiddenLocation, HiddenSource, TrlPass, trl_pass_problem
from geoalign.adapters.second_verifier import SecondVerifier
from geoalign.adapters.settings import LogMetrics
from geoalign.adapters.trl.labelled_rows import LabelledRows
from geoalign.curators.session import CurationSession
from geoalign.errors import UnsupportedError
from geoalign.types import Curation, Rollouts


@dataclass(frozen=True, eq=False)
class CuratedStep:
    """One curation inside a training, over the whole generation batch of B rollouts (all processes).

    Attributes:
        step: the trainer's `global_step` when the batch was generated.
        generation: running index of the generation batch in the training, from 0; kept over a resume.
        rollouts: what the curator read; row i belongs to group `rollouts.groups[i]`.
        curation: what it decided.
        prompts: B prompt texts (conversations as the text fed to the model, without special tokens).
        responses: B response texts, before anything is replaced, without special tokens.
        lengths: [B] response lengths in tokens.
    """

    step: int
    generation: int
    rollouts: Rollouts
    curation: Curation
    prompts: list[str]
    responses: list[str]
    lengths: Int[Tensor, " b"]


CurationObserver = Callable[[CuratedStep], None]


@dataclass(frozen=True)
class RoundOptions:
    """The mixin's keywords, and what in the loss is not GRPOTrainer's."""

    location: HiddenLocation
    hidden_source: HiddenSource
    fields: dict[str, RolloutField]
    observers: tuple[CurationObserver, ...]
    details_every: int
    other_loss: str | None
    labelled: LabelledRows | None
    log_metrics: LogMetrics
    second_verifier: SecondVerifier | None


def shaped_sum(curator: str) -> str:
    """Why the rewards that a curator of this name shapes cannot be carried out."""
    return (
        f"{curator} shapes rewards under multi_objective_aggregation='normalize_then_sum': TRL normalises each reward "
        "function there, and a shaped sum has none; use 'sum_then_normalize'"
    )


class GenerationRound(TrainerRound):
    """Follows one generation batch from TRL's `_generate` to the dict that enters the buffer.

    The methods are called in the order in which they stand, on every process alike.
    """

    def __init__(self, trainer: Any, session: CurationSession, options: RoundOptions) -> None:
        super().__init__(
            trainer, session, options.location, options.fields, options.log_metrics, options.second_verifier
        )
        self._options = options
        needs = session.curator.requires
        from_trl = "hidden" in needs and options.hidden_source != "own_pass"
        serves = (from_trl or "logprobs" in needs) and trl_pass_problem(trainer) is None
        self._trl_pass = TrlPass(options.location if from_trl else None) if serves else None
        makers = ("environment_factories", "rollout_func")
        self._prompts_differ = any(getattr(trainer, name, None) is not None for name in makers)

    def on_logprob_pass(self, run: Callable[[], Any], input_ids: Tensor, logits_to_keep: int) -> Any:
        """Runs one of TRL's log-probability passes; listens to the policy's first (a PEFT reference comes after)."""
        if self._trl_pass is None or self._trl_pass.done:
            return run()
        return self._trl_pass.listen(run, self._trainer.model, input_ids, logits_to_keep, self._tokens)

    def curate(self, raw: Tensor, inputs: list[dict[str, Any]], prompts: list[Any], completions: list[Any]) -> None:
        """Decides by the rewards [B, F]; B rows over all processes, F reward functions."""
        trainer = self._trainer
        # TRL 1.16 knows several end tokens, 1.8 only the tokenizer's.
        ends = {*getattr(trainer, "eos_token_ids", [trainer._tokenizer.eos_token_id]), trainer._tokenizer.pad_token_id}
        own = zip(inputs, prompts, completions, strict=True)
        rollouts = self._read(
            advantages.total_rewards(raw, trainer.reward_weights),
            raw,
            rows=({**row, "prompt": prompt, "completion": text} for row, prompt, text in own),
            truncated=(trainer.mask_truncated_completions and ids[-1] not in ends for ids in self._tokens.responses),
        )
        every = self._options.details_every
        details = every > 0 and self._session.calls % every == 0
        curation = self._decide(rollouts, details=details, labelled=self._labelled())
        mine = self._mine(len(prompts))
        if taken := sorted(set(COLUMNS) & set(trainer._pending_extra_logs)):
            raise UnsupportedError(f"log_extra of a column called {taken[0]!r}: the curator has one of that name")
        for column, values in table_columns(curation, self._assignment.source).items():
            self._trainer._log_completion_extra(column, values[mine])
        self._observe(curation, rollouts, prompts)

    def apply(self, batch: dict[str, Any]) -> None:
        """Makes this process's part of TRL's batch the curated one."""
        trainer, assignment = self._trainer, self._assignment
        accelerator = trainer.accelerator
        rows.check_batch_keys(batch)
        mine = self._mine(len(batch["completion_ids"]))
        replaced = bool(assignment.replaced.any())
        before = (batch["completion_mask"] * batch.get("tool_mask", 1)).sum()
        if replaced:
            pad, crossing = trainer._tokenizer.pad_token_id, self._crossing(len(batch["completion_ids"]))
            moved = {**rows.MOVED, **(rows.PROMPT if self._prompts_differ else {})}
            rows.move_rows(batch, moved, assignment.source[mine], accelerator, pad_id=pad, crossing=crossing)
        if assignment.advantages is not None or not self._as_scored() or bool((assignment.weights != 1).any()):
            own = self._final_advantages(lambda: self._gather(batch["advantages"]))
            batch["advantages"] = own[mine].to(batch["advantages"].dtype)
            # As long as one generation's rows: over those that TRL just logged.
            trainer._logs["advantages"].extend(own.tolist())
        if assignment.dropped:
            if self._options.other_loss is not None:
                raise UnsupportedError(f"{self._session.name} drops rows, and {self._options.other_loss}")
            scale = rows.dropping_scale(trainer, rows=len(assignment.kept), kept=int(assignment.kept.sum()))
            rows.leave_out(batch, assignment.kept[mine])
            batch[LOSS_SCALE] = torch.tensor(scale, device=accelerator.device)
        if assignment.dropped or replaced:
            # By what came and went of the policy's tokens: TRL 1.8 counts truncated responses, too, that it masks.
            change = (batch["completion_mask"] * batch.get("tool_mask", 1)).sum() - before
            batch["num_items_in_batch"] = (batch["num_items_in_batch"] + self._gather(change).sum()).clamp(min=1)

    def _hidden(self) -> Tensor:
        heard = self._trl_pass
        return super()._hidden() if heard is None or heard.location is None else heard.hidden

    def _labelled(self) -> Rollouts | None:
        """The labelled rollouts, if any, under the current policy; every process asks, as weights may be in parts."""
        rows = self._options.labelled
        if rows is None:
            return None
        location = self._options.location if "hidden" in self._session.curator.requires else None
        return self._timed("labelled_seconds", lambda: rows.rollouts(location))

    def _logprobs(self) -> Tensor:
        return super()._logprobs() if self._trl_pass is None else self._trl_pass.logprobs

    def _formula(self, rewards: Tensor, per_function: Tensor) -> Tensor:
        trainer, size = self._trainer, self._trainer.num_generations
        if trainer.multi_objective_aggregation != "normalize_then_sum":
            return advantages.scaled_advantages(rewards, size, scale_rewards=trainer.scale_rewards)
        totals = advantages.total_rewards(per_function, trainer.reward_weights)
        if not torch.equal(rewards.nan_to_num(0), totals.nan_to_num(0)):
            raise UnsupportedError(shaped_sum(self._session.name))
        return advantages.advantages_by_function(per_function, trainer.reward_weights, size)

    def _observe(self, curation: Curation, rollouts: Rollouts, prompts: list[Any]) -> None:
        if not self._options.observers:
            return
        trainer = self._trainer
        decode = trainer._tokenizer.batch_decode
        texts = prompts if isinstance(prompts[0], str) else decode(self._tokens.prompts, skip_special_tokens=True)
        prompt_texts = gather_object(list(texts))
        responses = gather_object(decode(self._tokens.responses, skip_special_tokens=True))
        if trainer.accelerator.is_main_process and rollouts.lengths is not None:
            step, generation, lengths = trainer.state.global_step, self._session.calls, rollouts.lengths
            curated = CuratedStep(step, generation, rollouts, curation, prompt_texts, responses, lengths)
            for observer in self._options.observers:
                observer(curated)
