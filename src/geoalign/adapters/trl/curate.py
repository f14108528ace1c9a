"""One generation batch on its way through a curator: what is measured, decided and carried out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from geoalign.adapters.placement import Placement
from geoalign.adapters.step import final_advantages
from geoalign.adapters.trl import advantages, logs, rows
from geoalign.adapters.trl.anchors import AnchorRows
from geoalign.adapters.trl.distributed import gather_list
from geoalign.adapters.trl.fields import RolloutField
from geoalign.adapters.trl.round import TrainerRound
from geoalign.adapters.trl.rows import dropping_scale
from geoalign.adapters.trl.states import (
    HiddenSource,
    StatePlace,
    TrlPass,
    Written,
    own_hidden,
    own_logprobs,
    trl_pass_problem,
)
from geoalign.curators.session import CurationSession
from geoalign.errors import UnsupportedError
from geoalign.hidden.answers import rows_without_answer
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
    """The mixin's keywords."""

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
        curator = session.curator
        self._options = options
        listens = "logprobs" in curator.requires or options.hidden_source == "logprob_pass"
        from_trl = "hidden" in curator.requires and options.hidden_source == "logprob_pass"
        self._trl_pass: TrlPass | None = None
        if listens and trl_pass_problem(trainer) is None:
            self._trl_pass = TrlPass(options.place if from_trl else None)
        self._prompt_ids: list[list[int]] = []
        self._response_ids: list[list[int]] = []
        self._written = Written([], None)
        # An environment may add to a prompt what it shows at its start, and a rollout function may make one.
        makers = ("environment_factories", "rollout_func")
        self._prompts_differ = any(getattr(trainer, name, None) is not None for name in makers)
        self._answers: list[int] | None = None
        self._truncated: list[bool] = []
        self._raw: Tensor | None = None
        self._curated: Tensor

    def on_generation(
        self,
        *,
        prompt_ids: list[list[int]],
        response_ids: list[list[int]],
        masks: list[list[int]] | None = None,
    ) -> None:
        """Notes the tokens of this process's rows, and which of them the policy wrote (`Written`)."""
        self._prompt_ids, self._response_ids = prompt_ids, response_ids
        self._written = Written(response_ids, masks)
        trainer = self._trainer
        if "hidden" in self._curator.requires:
            self._answers = self._options.place.answer_starts(trainer, response_ids, self._written)
        tokenizer = trainer._tokenizer
        # TRL 1.16 knows several end tokens, 1.8 only the tokenizer's.
        ends = {*getattr(trainer, "eos_token_ids", [tokenizer.eos_token_id]), tokenizer.pad_token_id}
        self._truncated = [trainer.mask_truncated_completions and ids[-1] not in ends for ids in response_ids]

    def on_logprob_pass(self, run: Callable[[], Any], input_ids: Tensor, logits_to_keep: int) -> Any:
        """Runs one of TRL's log-probability passes; listens to the policy's first (a PEFT reference comes after)."""
        if self._trl_pass is None or self._trl_pass.done:
            return run()
        return self._trl_pass.listen(
            run,
            self._trainer.model,
            input_ids,
            logits_to_keep,
            self._response_ids,
            self._answers,
            self._written.mask,
        )

    def curate(self, raw: Tensor, inputs: list[dict[str, Any]], prompts: list[Any], completions: list[Any]) -> Tensor:
        """Returns the rewards [B, F] with which TRL goes on; B rows over all processes, F reward functions."""
        self._raw = raw
        rollouts = self._read_batch(raw, inputs, prompts, completions)
        every = self._options.details_every
        details = every > 0 and self._session.calls % every == 0
        curation = self._decide(rollouts, details=details, anchors=self._anchors)
        self._log(curation, count=len(prompts))
        self._observe(curation, rollouts, prompts)
        self._curated = self._rewards_for_trl()
        return self._curated

    def apply(self, batch: dict[str, Any], *, scale_key: str) -> None:
        """Makes this process's part of TRL's batch the curated one."""
        if self._raw is None:
            raise UnsupportedError("TRL without a call of _calculate_rewards: this version's flow is not known")
        trainer, placement = self._trainer, self._placement
        rows.check_keys(batch)
        self._check_masks(batch["completion_mask"])
        local = len(batch["completion_ids"])
        mine = slice(trainer.accelerator.process_index * local, (trainer.accelerator.process_index + 1) * local)
        if bool(placement.replaced.any()):
            rows.move_rows(
                batch,
                placement.source,
                trainer.accelerator,
                pad_id=trainer._tokenizer.pad_token_id,
                prompts=self._prompts_differ,
            )
        own = self._own_advantages()
        if own is not None:
            batch["advantages"] = own[mine].to(batch["advantages"].dtype)
            logs.overwrite_advantages(trainer, own)
        elif bool((placement.weights != 1).any()):
            batch["advantages"] = batch["advantages"] * placement.weights[mine]
            logs.overwrite_advantages(trainer, trainer.accelerator.gather(batch["advantages"]))
        if placement.dropped:
            if self._options.other_loss is not None:
                raise UnsupportedError(f"{self._session.name} drops rows, and {self._options.other_loss}")
            scale = dropping_scale(trainer, rows=len(placement.kept), kept=int(placement.kept.sum()))
            rows.leave_out(batch, placement.kept[mine])
            batch[scale_key] = torch.tensor(scale, device=trainer.accelerator.device)
        if placement.dropped or bool(placement.replaced.any()):
            tokens = trainer.accelerator.gather(rows.loss_tokens(batch).sum()).sum()
            batch["num_items_in_batch"] = tokens.clamp(min=1)
        if self._curated is not self._raw:
            logs.restore_raw_rewards(trainer, self._raw)

    def _read_batch(
        self, raw: Tensor, inputs: list[dict[str, Any]], prompts: list[Any], completions: list[Any]
    ) -> Rollouts:
        trainer, written = self._trainer, self._written
        own = zip(inputs, prompts, completions, self._response_ids, strict=True)
        unfit = [cut or none for cut, none in zip(self._truncated, written.nothing, strict=True)]
        return self._read(
            advantages.total_rewards(raw, trainer.reward_weights),
            raw,
            prompts=self._prompt_ids,
            contents=self._contents(),
            lengths=written.lengths,
            hidden=self._hidden,
            logprobs=self._logprobs,
            advantages=lambda rewards, groups: self._trl_advantages(rewards, raw, groups),
            unfit=unfit if trainer.mask_truncated_completions or written.mask is not None else None,
            rows=[{**row, "prompt": prompt, "completion": text, "completion_ids": ids}
                  for row, prompt, text, ids in own],
        )  # fmt: skip

    def _contents(self) -> list[list[int]]:
        """What tells one row of a group from another: its response, after its prompt where prompts differ."""
        if not self._prompts_differ:
            return self._response_ids
        return [[*prompt, *response] for prompt, response in zip(self._prompt_ids, self._response_ids, strict=True)]

    def _hidden(self) -> Tensor:
        rows = (self._prompt_ids, self._response_ids)
        if self._options.hidden_source == "own_pass":
            return own_hidden(self._trainer, *rows, self._options.place, self._answers, self._written.mask)
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
        return own_logprobs(self._trainer, self._prompt_ids, self._response_ids, self._written.mask)

    def _rewards_for_trl(self) -> Tensor:
        """The rewards per function with which TRL's own code reaches the curated advantages, where it can."""
        placement, raw, trainer = self._placement, self._raw_rewards(), self._trainer
        if self._adapter_computes(placement):
            return raw
        moved = raw[placement.source] if bool(placement.replaced.any()) else raw
        expected = self._rollouts.rewards[placement.source]
        if torch.equal(placement.rewards.nan_to_num(0), expected.nan_to_num(0)) and torch.equal(
            placement.rewards.isnan(), expected.isnan()
        ):
            return moved
        self._check_shaped()
        # TRL sums the functions again: the whole reward goes into the first one with a weight, divided by it.
        shaped = torch.zeros_like(raw)
        column = int((trainer.reward_weights != 0).nonzero()[0])
        shaped[:, column] = placement.rewards / trainer.reward_weights[column].to(raw.device)
        return shaped.masked_fill(placement.rewards.isnan()[:, None], torch.nan)

    def _adapter_computes(self, placement: Placement) -> bool:
        return placement.dropped or placement.advantages is not None

    def _own_advantages(self) -> Tensor | None:
        """[B] the advantages that TRL cannot compute, weights included; None where it can."""
        placement, raw = self._placement, self._raw_rewards()
        if not self._adapter_computes(placement):
            return None

        def computed() -> Tensor:
            moved = raw[placement.source].masked_fill(~placement.kept[:, None], torch.nan)
            return self._trl_advantages(placement.rewards, moved, self._rollouts.groups)

        return final_advantages(placement, computed)

    def _trl_advantages(self, rewards: Tensor, per_function: Tensor, groups: Tensor) -> Tensor:
        trainer = self._trainer
        if trainer.multi_objective_aggregation == "normalize_then_sum":
            totals = advantages.total_rewards(per_function, trainer.reward_weights)
            if not torch.equal(rewards.nan_to_num(0), totals.nan_to_num(0)):
                self._check_shaped()
            return advantages.trl_advantages_by_function(per_function, trainer.reward_weights, groups)
        return advantages.trl_advantages(rewards, groups, scale_rewards=trainer.scale_rewards)

    def _check_shaped(self) -> None:
        if self._trainer.multi_objective_aggregation == "normalize_then_sum":
            raise UnsupportedError(
                f"{self._session.name} shapes rewards under multi_objective_aggregation="
                "'normalize_then_sum': TRL normalises each reward function there, and a shaped sum has none"
            )

    def _check_masks(self, mask: Tensor) -> None:
        """TRL must have hidden exactly the rows that `donor_ok` calls unfit."""
        hidden = (mask.sum(1) == 0).tolist()
        if self._trainer.mask_truncated_completions and hidden != self._truncated:
            row = next(i for i, pair in enumerate(zip(hidden, self._truncated, strict=True)) if pair[0] != pair[1])
            raise UnsupportedError(
                f"mask_truncated_completions: this TRL hides other rows than those without an end token (row {row})"
            )

    def _log(self, curation: Curation, *, count: int) -> None:
        trainer = self._trainer
        if self._answers is not None:
            self._count("rows_without_answer", rows_without_answer(self._answers))
        if self._written.mask is not None:
            self._count("rows_without_policy_token", sum(self._written.nothing))
        first = trainer.accelerator.process_index * count
        logs.log_columns(trainer, curation, self._placement.source, first=first, count=count)
        self._log_metrics(curation)

    def _observe(self, curation: Curation, rollouts: Rollouts, prompts: list[Any]) -> None:
        observer = self._options.observer
        if observer is None:
            return
        trainer = self._trainer
        decode = trainer._tokenizer.batch_decode
        texts = prompts if isinstance(prompts[0], str) else decode(self._prompt_ids, skip_special_tokens=True)
        prompt_texts = gather_list(list(texts))
        responses = gather_list(decode(self._response_ids, skip_special_tokens=True))
        if trainer.accelerator.is_main_process and rollouts.lengths is not None:
            observer(
                CuratedStep(
                    step=trainer.state.global_step,
                    generation=self._session.calls,
                    rollouts=rollouts,
                    curation=curation,
                    prompts=prompt_texts,
                    responses=responses,
                    lengths=rollouts.lengths,
                )
            )

    def _raw_rewards(self) -> Tensor:
        if self._raw is None:
            raise UnsupportedError("rewards before the curation")
        return self._raw
