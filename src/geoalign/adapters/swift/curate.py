"""One generation batch of ms-swift on its way through a curator: what is measured, decided and carried out."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeVar

import torch
from torch import Tensor

from geoalign.adapters.components import summed_components
from geoalign.adapters.placement import Placement, place
from geoalign.adapters.swift.advantages import swift_advantages
from geoalign.adapters.swift.logs import log_columns
from geoalign.adapters.swift.refusals import check_batch, check_drops
from geoalign.adapters.swift.states import mean_logprobs, token_rows
from geoalign.adapters.trl.advantages import total_rewards
from geoalign.adapters.trl.distributed import curation_from_rank_0, gather_list
from geoalign.adapters.trl.fields import RolloutField, as_answers, as_floats, field_values
from geoalign.adapters.trl.logs import log_metrics
from geoalign.adapters.trl.losses import dropping_scale
from geoalign.adapters.trl.states import StatePlace, TokenIds, own_hidden
from geoalign.curators.session import CurationSession
from geoalign.hidden.answers import rows_without_answer
from geoalign.types import Curation, Rollouts, response_keys

LOSS_SCALE = "geoalign_loss_scale"
_Result = TypeVar("_Result")


class CurationRound:
    """Follows one generation batch; the methods are called in the order in which they stand, on every process alike.

    Attributes:
        generated: this process's samples as they were generated, for the completions table.
    """

    def __init__(
        self, trainer: Any, session: CurationSession, *, place: StatePlace, fields: dict[str, RolloutField]
    ) -> None:
        self._trainer = trainer
        self._session = session
        self._state_place = place
        self._fields = fields
        self._gather = trainer.accelerator.gather
        self._device = trainer.accelerator.device
        self._metrics: dict[str, float] = {}
        self.generated: list[Any] = []
        self._rollouts: Rollouts
        self._placement: Placement
        self._per_function: Tensor

    def curate(self, samples: list[Any], per_function: Tensor, *, failed: set[str]) -> list[Any]:
        """The samples with which ms-swift goes on, of this process.

        Args:
            samples: this process's.
            per_function: [B, F] rewards of all processes' samples.
            failed: `request_id` of this process's samples for which a reward function raised.
        """
        check_batch(self._trainer, samples)
        self.generated = samples
        self._per_function = per_function
        rewards = self._rewards(samples, per_function, failed)
        self._rollouts = rollouts = self._read(samples, rewards)
        curation = curation_from_rank_0(
            lambda: self._timed("seconds", lambda: self._session.curate(rollouts)),
            rows=len(rollouts),
            device=self._device,
            accelerator=self._trainer.accelerator,
        )
        self._placement = place(curation, rollouts.groups, by=self._session.name)
        self._log(curation)
        return self._moved(samples)

    def leave_out(self, batches: list[dict[str, Any]]) -> None:
        """Takes dropped rows out of the loss of this process's micro-batches, and out of what divides it."""
        kept = self._placement.kept
        if not self._placement.dropped:
            return
        check_drops(self._trainer, self._session.name)
        scale = dropping_scale(self._trainer, rows=len(kept), kept=int(kept.sum()))
        first = self._trainer.accelerator.process_index * len(self.generated)
        for entry in batches:
            mask = entry["grpo_batch"].completion_mask
            entry["grpo_batch"].completion_mask = mask & kept[first : first + len(mask), None]
            entry[LOSS_SCALE] = scale
            first += len(mask)
        tokens = torch.stack([entry["grpo_batch"].completion_mask.sum() for entry in batches]).sum()
        for entry in batches:
            entry["grpo_batch"].num_items_in_batch = self._gather(tokens).sum().clamp(min=1)

    def advantages(self, computed: Tensor) -> Tensor:
        """[B] the advantages of all processes' curated rows; `computed` are ms-swift's own, of the rewards as scored.

        They stay, bit for bit, where no reward was changed, moved, dropped or missing.
        """
        placement = self._placement
        given = placement.advantages
        if given is None and torch.equal(placement.rewards, self._rollouts.rewards):
            given = computed
        if given is None:
            given = self._from_rewards(placement.rewards)
        return (given * placement.weights).nan_to_num(0.0).to(computed.dtype)

    def _from_rewards(self, rewards: Tensor) -> Tensor:
        return swift_advantages(
            rewards,
            self._rollouts.groups,
            estimator=self._trainer.advantage_estimator,
            scale_rewards=self._trainer.scale_rewards,
        )

    def _rewards(self, samples: list[Any], per_function: Tensor, failed: set[str]) -> Tensor:
        """[B] ms-swift's sum over reward functions; NaN where none gave a reward, or one raised."""
        everywhere = set(gather_list(sorted(failed)))
        raised = self._gather(
            torch.tensor([sample.request_id in everywhere for sample in samples], device=self._device)
        )
        rewards = total_rewards(per_function, self._trainer.reward_weights).masked_fill(raised, torch.nan)
        self._metrics["failed_rewards"] = float(raised.sum())
        self._metrics["unscored_rows"] = float(rewards.isnan().sum())
        return rewards

    def _read(self, samples: list[Any], rewards: Tensor) -> Rollouts:
        trainer, needs, gather = self._trainer, self._session.curator.requires, self._gather
        prompts, responses = token_rows(trainer, samples)
        groups = torch.arange(len(rewards), device=self._device) // trainer.num_generations
        fields: dict[str, Any] = {
            "lengths": gather(torch.tensor([len(ids) for ids in responses], device=self._device)),
            "ids": [f"{self._session.calls}:{row}" for row in range(len(rewards))],
            "response_keys": gather(response_keys(responses).to(self._device)),
        }
        if "prompt_keys" in needs:
            fields["prompt_keys"] = gather(response_keys(prompts).to(self._device))
        if "hidden" in needs:
            fields["hidden"] = gather(self._timed("hidden_seconds", lambda: self._hidden(prompts, responses)))
        if "logprobs" in needs:
            fields["logprobs"] = gather(self._timed("logprob_seconds", lambda: mean_logprobs(trainer, samples)))
        if "advantages" in needs:
            fields["advantages"] = swift_advantages(
                rewards, groups, estimator=trainer.advantage_estimator, scale_rewards=trainer.scale_rewards
            )
        if "components" in needs:
            per_function, weights = self._per_function, trainer.reward_weights
            fields["components"] = summed_components(per_function, weights, trainer.reward_func_names)
        if trainer.overlong_filter or "donor_ok" in needs:
            hidden = [trainer.overlong_filter and sample.is_truncated for sample in samples]
            fields["donor_ok"] = ~gather(torch.tensor(hidden, device=self._device))
        fields.update(self._user_fields(samples, responses))
        return Rollouts(rewards=rewards, groups=groups, **fields)

    def _hidden(self, prompts: TokenIds, responses: TokenIds) -> Tensor:
        answers = self._state_place.answer_starts(self._trainer, responses)
        if answers is not None:
            without = torch.tensor(rows_without_answer(answers), device=self._device)
            self._metrics["rows_without_answer"] = float(self._gather(without).sum())
        return own_hidden(self._trainer, prompts, responses, self._state_place, answers).contiguous()

    def _user_fields(self, samples: list[Any], responses: TokenIds) -> dict[str, Any]:
        rows = [
            {
                **sample.to_reward_row(),
                "prompt": sample.messages[:-1],
                "completion": sample.messages[-1]["content"],
                "completion_ids": ids,
            }
            for sample, ids in zip(samples, responses, strict=True)
        ]
        fields: dict[str, Any] = {}
        for name, field in self._fields.items():
            values = field_values(name, field, rows)
            if name == "answers":
                fields[name] = gather_list(as_answers(values))
            else:
                fields[name] = self._gather(as_floats(name, values, self._device))
        return fields

    def _moved(self, samples: list[Any]) -> list[Any]:
        """Whole samples in the place of others, under the request of the place that they take."""
        source = self._placement.source
        local = len(samples)
        first = self._trainer.accelerator.process_index * local
        slots = torch.arange(len(source), device=source.device)
        # The same answer on every process, so that either all gather or none.
        crossing = bool((source // local != slots // local).any())
        donors = gather_list(samples) if crossing else samples
        moved = []
        for slot, sample in enumerate(samples):
            row = int(source[first + slot])
            if row != first + slot:
                donor = deepcopy(donors[row if crossing else row - first])
                donor.request_id = sample.request_id
                sample = donor
            moved.append(sample)
        return moved

    def _log(self, curation: Curation) -> None:
        placement = self._placement
        log_columns(self._trainer, curation, placement.source)
        kept = placement.rewards[placement.kept]
        self._metrics["raw_reward"] = self._rollouts.rewards.nanmean().item()
        self._metrics["curated_reward"] = kept.nanmean().item() if len(kept) else torch.nan
        self._metrics["replaced_rows"] = float(placement.replaced.sum())
        self._metrics["dropped_rows"] = float((~placement.kept).sum())
        if self._trainer.accelerator.is_main_process:
            log_metrics(self._trainer, {**curation.metrics, **self._metrics})

    def _timed(self, name: str, run: Callable[[], _Result]) -> _Result:
        started = time.perf_counter()
        result = run()
        self._metrics[name] = time.perf_counter() - started
        return result
