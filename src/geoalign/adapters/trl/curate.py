"""One generation batch of TRL on its way through a curator: what is measured, decided and carried out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from geoalign.adapters.trl import advantages, rows
from geoalign.adapters.trl.anchors import AnchorRows
from geoalign.adapters.trl.round import LOSS_SCALE, RolloutField, TrainerRound, gather_list, table_columns
from geoalign.adapters.trl.states import (
    HiddenSource,
    RowTokens,
    StatePlace,
    TrlPass,
    own_hidden,
    own_logprobs,
    trl_pass_problem,
)
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

    place: StatePlace
    hidden_source: HiddenSource
    fields: dict[str, RolloutField]
    observer: CurationObserver | None
    details_every: int
    other_loss: str | None = None
    anchors: AnchorRows | None = None


class GenerationRound(TrainerRound):
    """Follows one generation batch from TRL's `_generate` to the dict that enters the buffer.

    The methods are called in the order in which they stand, on every process alike.
    """

    def __init__(self, trainer: Any, session: CurationSession, options: RoundOptions) -> None:
        super().__init__(trainer, session, options.fields)
        self._options = options
        needs = session.curator.requires
        from_trl = "hidden" in needs and options.hidden_source == "logprob_pass"
        self._trl_pass: TrlPass | None = None
        if (from_trl or "logprobs" in needs) and trl_pass_problem(trainer) is None:
            self._trl_pass = TrlPass(options.place if from_trl else None)
        self._tokens = RowTokens([], [])
        # An environment may add to a prompt what it shows at its start, and a rollout function may make one.
        makers = ("environment_factories", "rollout_func")
        self._prompts_differ = any(getattr(trainer, name, None) is not None for name in makers)
        self._truncated: list[bool] = []

    def on_generation(self, tokens: RowTokens) -> None:
        """Notes the tokens of this process's rows."""
        self._tokens, trainer = tokens, self._trainer
        if "hidden" in self._curator.requires:
            tokens.find_answers(trainer._tokenizer, self._options.place)
        tokenizer = trainer._tokenizer
        # TRL 1.16 knows several end tokens, 1.8 only the tokenizer's.
        ends = {*getattr(trainer, "eos_token_ids", [tokenizer.eos_token_id]), tokenizer.pad_token_id}
        self._truncated = [trainer.mask_truncated_completions and ids[-1] not in ends for ids in tokens.responses]

    def on_logprob_pass(self, run: Callable[[], Any], input_ids: Tensor, logits_to_keep: int) -> Any:
        """Runs one of TRL's log-probability passes; listens to the policy's first (a PEFT reference comes after)."""
        if self._trl_pass is None or self._trl_pass.done:
            return run()
        return self._trl_pass.listen(run, self._trainer.model, input_ids, logits_to_keep, self._tokens)

    def curate(self, raw: Tensor, inputs: list[dict[str, Any]], prompts: list[Any], completions: list[Any]) -> None:
        """Decides by the rewards [B, F]; B rows over all processes, F reward functions."""
        rollouts = self._read_batch(raw, inputs, prompts, completions)
        self._count_answers(self._tokens.answers)
        if self._tokens.mask is not None:
            self._count("rows_without_policy_token", sum(self._tokens.nothing))
        every = self._options.details_every
        details = every > 0 and self._session.calls % every == 0
        curation = self._decide(rollouts, details=details, anchors=self._anchors)
        mine = self._mine(len(prompts))
        for column, values in table_columns(curation, self._placement.source).items():
            self._trainer._log_completion_extra(column, values[mine])
        self._observe(curation, rollouts, prompts)

    def apply(self, batch: dict[str, Any]) -> None:
        """Makes this process's part of TRL's batch the curated one."""
        trainer, placement = self._trainer, self._placement
        accelerator = trainer.accelerator
        rows.check_keys(batch)
        mine = self._mine(len(batch["completion_ids"]))
        replaced = bool(placement.replaced.any())
        if replaced:
            pad, crossing = trainer._tokenizer.pad_token_id, self._crossing(len(batch["completion_ids"]))
            moved = {**rows.MOVED, **(rows.PROMPT if self._prompts_differ else {})}
            rows.move_rows(batch, moved, placement.source[mine], accelerator, pad_id=pad, crossing=crossing)
        if placement.advantages is not None or not self._as_scored() or bool((placement.weights != 1).any()):
            own = self._final_advantages(lambda: accelerator.gather(batch["advantages"]))
            batch["advantages"] = own[mine].to(batch["advantages"].dtype)
            # Over those that TRL just logged.
            logged, values = trainer._logs["advantages"], own.tolist()
            for _ in range(min(len(logged), len(values))):
                logged.pop()
            logged.extend(values)
        if placement.dropped:
            if self._options.other_loss is not None:
                raise UnsupportedError(f"{self._session.name} drops rows, and {self._options.other_loss}")
            scale = rows.dropping_scale(trainer, rows=len(placement.kept), kept=int(placement.kept.sum()))
            rows.leave_out(batch, placement.kept[mine])
            batch[LOSS_SCALE] = torch.tensor(scale, device=accelerator.device)
        if placement.dropped or replaced:
            batch["num_items_in_batch"] = accelerator.gather(rows.loss_tokens(batch).sum()).sum().clamp(min=1)

    def _mine(self, local: int) -> slice:
        first = self._trainer.accelerator.process_index * local
        return slice(first, first + local)

    def _read_batch(
        self, raw: Tensor, inputs: list[dict[str, Any]], prompts: list[Any], completions: list[Any]
    ) -> Rollouts:
        trainer, tokens = self._trainer, self._tokens
        own = zip(inputs, prompts, completions, tokens.responses, strict=True)
        unfit = [cut or none for cut, none in zip(self._truncated, tokens.nothing, strict=True)]
        # A response alone tells rows of a group apart, unless their prompts differ.
        pairs = zip(tokens.prompts, tokens.responses, strict=True)
        whole = [[*prompt, *response] for prompt, response in pairs] if self._prompts_differ else None
        return self._read(
            advantages.total_rewards(raw, trainer.reward_weights),
            raw,
            prompts=tokens.prompts,
            contents=whole or tokens.responses,
            lengths=tokens.lengths,
            hidden=self._hidden,
            logprobs=self._logprobs,
            unfit=unfit if trainer.mask_truncated_completions or tokens.mask is not None else None,
            rows=[{**row, "prompt": prompt, "completion": text, "completion_ids": ids}
                  for row, prompt, text, ids in own],
        )  # fmt: skip

    def _hidden(self) -> Tensor:
        if self._options.hidden_source == "own_pass":
            return own_hidden(self._trainer, self._tokens, self._options.place)
        if self._trl_pass is None or self._trl_pass.hidden is None:
            raise UnsupportedError("hidden_source='logprob_pass': TRL did not run its log-probability pass")
        return self._trl_pass.hidden

    def _anchors(self) -> Rollouts | None:
        """The anchors, if there are any, under the current policy; one process alone asks for them."""
        rows = self._options.anchors
        if rows is None:
            return None
        place = self._options.place if "hidden" in self._curator.requires else None
        return self._timed("anchor_seconds", lambda: rows.rollouts(place))

    def _logprobs(self) -> Tensor:
        if self._trl_pass is not None and self._trl_pass.logprobs is not None:
            return self._trl_pass.logprobs
        return own_logprobs(self._trainer, self._tokens)

    def _formula(self, rewards: Tensor, per_function: Tensor, groups: Tensor) -> Tensor:
        trainer = self._trainer
        if trainer.multi_objective_aggregation != "normalize_then_sum":
            return advantages.scaled_advantages(rewards, groups, scale_rewards=trainer.scale_rewards)
        totals = advantages.total_rewards(per_function, trainer.reward_weights)
        if not torch.equal(rewards.nan_to_num(0), totals.nan_to_num(0)):
            raise UnsupportedError(
                f"{self._session.name} shapes rewards under multi_objective_aggregation="
                "'normalize_then_sum': TRL normalises each reward function there, and a shaped sum has none"
            )
        return advantages.advantages_by_function(per_function, trainer.reward_weights, groups)

    def _observe(self, curation: Curation, rollouts: Rollouts, prompts: list[Any]) -> None:
        observer = self._options.observer
        if observer is None:
            return
        trainer = self._trainer
        decode = trainer._tokenizer.batch_decode
        texts = prompts if isinstance(prompts[0], str) else decode(self._tokens.prompts, skip_special_tokens=True)
        prompt_texts = gather_list(list(texts))
        responses = gather_list(decode(self._tokens.responses, skip_special_tokens=True))
        if trainer.accelerator.is_main_process and rollouts.lengths is not None:
            step, generation, lengths = trainer.state.global_step, self._session.calls, rollouts.lengths
            observer(CuratedStep(step, generation, rollouts, curation, prompt_texts, responses, lengths))
