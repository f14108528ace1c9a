"""One generation batch of ms-swift on its way through a curator: what is measured, decided and carried out."""

from __future__ import annotations

import math
from collections import deque
from copy import deepcopy
from typing import Any

import torch
from jaxtyping import Float
from swift.rlhf_trainers.utils import collate_to_grpo_micro_batch, encode_sample
from torch import Tensor

from geoalign.adapters.step import final_advantages
from geoalign.adapters.swift.advantages import swift_advantages
from geoalign.adapters.swift.refusals import check_batch, check_drops
from geoalign.adapters.trl.advantages import total_rewards
from geoalign.adapters.trl.distributed import gather_list
from geoalign.adapters.trl.fields import RolloutField
from geoalign.adapters.trl.round import TrainerRound
from geoalign.adapters.trl.rows import dropping_scale
from geoalign.adapters.trl.states import StatePlace, TokenIds, own_hidden
from geoalign.curators.session import CurationSession
from geoalign.errors import UnsupportedError
from geoalign.hidden.answers import rows_without_answer
from geoalign.hidden.extract import eval_mode
from geoalign.types import Curation, Rollouts

LOSS_SCALE = "geoalign_loss_scale"


class CurationRound(TrainerRound):
    """Follows one generation batch; the methods are called in the order in which they stand, on every process alike.

    Attributes:
        generated: this process's samples as they were generated, for the completions table.
    """

    def __init__(
        self, trainer: Any, session: CurationSession, *, place: StatePlace, fields: dict[str, RolloutField]
    ) -> None:
        super().__init__(trainer, session, fields)
        self._state_place = place
        self._gather = trainer.accelerator.gather
        self._device = trainer.accelerator.device
        self.generated: list[Any] = []

    def curate(self, samples: list[Any], per_function: Tensor, *, failed: set[str]) -> list[Any]:
        """The samples with which ms-swift goes on, of this process.

        Args:
            samples: this process's.
            per_function: [B, F] rewards of all processes' samples.
            failed: `request_id` of this process's samples for which a reward function raised.
        """
        check_batch(self._trainer, samples)
        self.generated = samples
        rewards = self._rewards(samples, per_function, failed)
        curation = self._decide(self._read_samples(samples, rewards, per_function))
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
        as_scored = torch.equal(placement.rewards, self._rollouts.rewards)
        return final_advantages(
            placement, lambda: computed if as_scored else self._formula(placement.rewards, self._rollouts.groups)
        ).to(computed.dtype)

    def _formula(self, rewards: Tensor, groups: Tensor) -> Tensor:
        estimator, scale = self._trainer.advantage_estimator, self._trainer.scale_rewards
        return swift_advantages(rewards, groups, estimator=estimator, scale_rewards=scale)

    def _rewards(self, samples: list[Any], per_function: Tensor, failed: set[str]) -> Tensor:
        """[B] ms-swift's sum over reward functions; NaN where none gave a reward, or one raised."""
        everywhere = set(gather_list(sorted(failed)))
        raised = self._gather(
            torch.tensor([sample.request_id in everywhere for sample in samples], device=self._device)
        )
        rewards = total_rewards(per_function, self._trainer.reward_weights).masked_fill(raised, torch.nan)
        self._metrics["failed_rewards"] = float(raised.sum())
        return rewards

    def _read_samples(self, samples: list[Any], rewards: Tensor, per_function: Tensor) -> Rollouts:
        trainer = self._trainer
        prompts, responses = token_rows(trainer, samples)
        return self._read(
            rewards,
            per_function,
            prompts=prompts,
            contents=responses,
            lengths=torch.tensor([len(ids) for ids in responses]),
            hidden=lambda: self._hidden(prompts, responses),
            logprobs=lambda: mean_logprobs(trainer, samples),
            advantages=self._formula,
            unfit=[sample.is_truncated for sample in samples] if trainer.overlong_filter else None,
            rows=[
                {
                    **sample.to_reward_row(),
                    "prompt": sample.messages[:-1],
                    "completion": sample.messages[-1]["content"],
                    "completion_ids": ids,
                }
                for sample, ids in zip(samples, responses, strict=True)
            ],
        )

    def _hidden(self, prompts: TokenIds, responses: TokenIds) -> Tensor:
        answers = self._state_place.answer_starts(self._trainer, responses)
        if answers is not None:
            self._count("rows_without_answer", rows_without_answer(answers))
        return own_hidden(self._trainer, prompts, responses, self._state_place, answers).contiguous()

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
        log_columns(self._trainer, curation, self._placement.source)
        self._log_metrics(curation)


COLUMNS = ("score", "anomalous", "source")


def log_columns(trainer: Any, curation: Curation, source: Tensor) -> None:
    """Adds score, anomalous and source of all processes' rows to the completions table."""
    _extend(trainer, curation.scores.tolist(), curation.anomalous.tolist(), source.tolist())


def log_uncurated_columns(trainer: Any, *, count: int) -> None:
    """The same columns for rows that nobody curates (evaluation), so that the table's columns stay aligned."""
    _extend(trainer, [math.nan] * count, [False] * count, list(range(count)))


def _extend(trainer: Any, *values: list[Any]) -> None:
    for column, entries in zip(COLUMNS, values, strict=True):
        # As long as ms-swift's own columns.
        trainer._logs.setdefault(column, deque(maxlen=trainer.args.generation_batch_size)).extend(entries)


IGNORED = -100


def token_rows(trainer: Any, samples: list[Any]) -> tuple[TokenIds, TokenIds]:
    """Prompt and response tokens of each sample, as ms-swift's template encodes it for training.

    The response reaches from the first token in the loss to the last.

    Raises:
        UnsupportedError: a sample without a token in the loss.
    """
    prompts, responses = [], []
    with trainer._template_context(trainer.template):
        for row, sample in enumerate(samples):
            encoded = encode_sample(sample, trainer.template)
            ids = [int(token) for token in encoded["input_ids"]]
            learnt = [place for place, label in enumerate(encoded["labels"]) if label != IGNORED]
            if not learnt:
                raise UnsupportedError(f"sample {row} without a response token in the loss: cannot be curated")
            prompts.append(ids[: learnt[0]])
            responses.append(ids[learnt[0] : learnt[-1] + 1])
    return prompts, responses


def mean_logprobs(trainer: Any, samples: list[Any]) -> Float[Tensor, " b"]:
    """Mean log-probability per response token under the current policy, in eval mode, at the sampling temperature."""
    means = []
    for batch in trainer.split_by_mini_batches(samples):
        with trainer._template_context(trainer.template):
            for sample in batch:
                sample.encoded = encode_sample(sample, trainer.template)
                sample.encoded.pop("_extra_kwargs", None)
            inputs, grpo = collate_to_grpo_micro_batch(
                batch, trainer.template, device=trainer.accelerator.device, use_logits_to_keep=True
            )
        inputs.pop("labels", None)
        with torch.no_grad(), eval_mode(trainer.model):
            logprobs = trainer._get_per_token_logps_and_entropies(trainer.model, inputs, grpo)[0]
        mask = grpo.completion_mask
        means.append((logprobs.float() * mask).sum(1) / mask.sum(1).clamp(min=1))
        for sample in batch:
            sample.encoded = None
    return torch.cat(means)
