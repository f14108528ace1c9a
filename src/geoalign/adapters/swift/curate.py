"""One generation batch of ms-swift on its way through a curator: what is measured, decided and carried out."""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from typing import Any

import torch
from accelerate.utils import gather_object
from swift.rlhf_trainers.utils import encode_sample
from torch import Tensor, nn

from geoalign.adapters.failures import guarded_call, warn_of_failure
from geoalign.adapters.grpo_trainer.generation_batch import LOSS_SCALE, TrainerRound, table_columns
from geoalign.adapters.grpo_trainer.moving_rows import dropping_scale
from geoalign.adapters.grpo_trainer.scaled_advantages import scaled_advantages, total_rewards
from geoalign.adapters.grpo_trainer.states import RowTokens, TokenIds
from geoalign.adapters.swift.refusals import check_batch, check_drops
from geoalign.types import Curation


class CurationRound(TrainerRound):
    """Follows one generation batch; the methods are called in the order in which they stand, on every process alike.

    Attributes:
        generated: this process's samples as they were generated, for the completions table.
    """

    generated: list[Any]

    def curate(self, samples: list[Any], per_function: Tensor, *, failed: set[str]) -> list[Any]:
        """The samples with which ms-swift goes on, of this process, as are `samples` and the `request_id` of those for
        which a reward function `failed`; `per_function` are the [B, F] rewards of all processes' samples."""
        check_batch(self._trainer, samples)
        self.generated = samples
        # ms-swift's sum over reward functions; NaN where none gave a reward, or one raised.
        everywhere = set(gather_object(sorted(failed)))
        flags = [sample.request_id in everywhere for sample in samples]
        raised = self._gather(torch.tensor(flags, device=self._trainer.accelerator.device))
        rewards = total_rewards(per_function, self._trainer.reward_weights).masked_fill(raised, torch.nan)
        self._metrics["failed_rewards"] = float(raised.sum())
        prompts, responses, masks = token_rows(self._trainer, samples)
        self.note_tokens(RowTokens(prompts, responses, masks))
        rows = (
            {**sample.to_reward_row(), "prompt": sample.messages[:-1], "completion": sample.messages[-1]["content"]}
            for sample in samples
        )
        cut = (self._trainer.overlong_filter and sample.is_truncated for sample in samples)
        curation = self._decide(self._read(rewards, per_function, rows=rows, truncated=cut))
        log_columns(self._trainer, curation, self._assignment.source)
        return self._samples_of_sources(samples)

    def leave_out(self, batches: list[dict[str, Any]]) -> None:
        """Takes dropped rows out of the loss of this process's micro-batches, and out of what divides it."""
        kept = self._assignment.kept
        if not self._assignment.dropped:
            return
        check_drops(self._trainer, self._session.name)
        scale = dropping_scale(self._trainer, rows=len(kept), kept=int(kept.sum()))
        first = self._mine(len(self.generated)).start
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

        They stay, bit for bit, where no reward was changed, moved, dropped or missing: ms-swift knows none missing.
        """
        missing = bool(self._rollouts.rewards.isnan().any())
        return self._final_advantages(None if missing else lambda: computed).to(computed.dtype)

    def _formula(self, rewards: Tensor, per_function: Tensor) -> Tensor:
        trainer = self._trainer
        estimator, scale = trainer.advantage_estimator, trainer.scale_rewards
        return scaled_advantages(rewards, trainer.num_generations, scale_rewards=scale, estimator=estimator)

    def _samples_of_sources(self, samples: list[Any]) -> list[Any]:
        """Whole samples in the place of others, under the request of the place that they take."""
        source = self._assignment.source
        mine = self._mine(len(samples))
        crossing = self._crossing(len(samples))
        donors = gather_object(samples) if crossing else samples
        moved = []
        for position, (row, sample) in enumerate(zip(source[mine].tolist(), samples, strict=True), mine.start):
            if row != position:
                donor = deepcopy(donors[row if crossing else row - mine.start])
                donor.request_id = sample.request_id
                sample = donor
            moved.append(sample)
        return moved


def log_columns(trainer: Any, curation: Curation | None, source: Tensor) -> None:
    """Adds the curator's columns of all processes' rows to the completions table."""
    for column, values in table_columns(curation, source).items():
        # As long as ms-swift's own columns.
        trainer._logs.setdefault(column, deque(maxlen=trainer.args.generation_batch_size)).extend(values)


def guard_rewards(trainer: Any, failed: set[str]) -> None:
    """Wraps reward functions: one that raises in training gives None, and the `request_id` of its rows to `failed`.

    Reward models stay, their plug-ins are wrapped. Evaluation raises as it did.
    """

    def wrapped(function: Any) -> Any:
        def unscored(error: Exception, keywords: dict[str, Any]) -> list[None]:
            if not trainer.model.training:
                raise error
            failed.update(rows := keywords["request_id"])
            warn_of_failure(function, error, f"{len(rows)} rows unscored")
            return [None] * len(rows)

        return guarded_call(function, unscored)

    trainer.reward_funcs = [f if isinstance(f, nn.Module) else wrapped(f) for f in trainer.reward_funcs]
    plugins = trainer.reward_model_plugins
    trainer.reward_model_plugins = [None if plugin is None else wrapped(plugin) for plugin in plugins]


IGNORED = -100


def token_rows(trainer: Any, samples: list[Any]) -> tuple[TokenIds, TokenIds, TokenIds]:
    """Prompt and response tokens of each sample, as ms-swift's template encodes it for training, and a mask of the
    response: 1 throughout.

    The response reaches from the first token in the loss to the last. A sample without one (cut off before it) has its
    last token for a response, and 0 in its mask: the policy wrote nothing that it is trained on.
    """
    prompts, responses, masks = [], [], []
    with trainer._template_context(trainer.template):
        for sample in samples:
            encoded = encode_sample(sample, trainer.template)
            ids = [int(token) for token in encoded["input_ids"]]
            learnt = [place for place, label in enumerate(encoded["labels"]) if label != IGNORED]
            first, last = (learnt[0], learnt[-1]) if learnt else (len(ids) - 1, len(ids) - 1)
            prompts.append(ids[:first])
            responses.append(ids[first : last + 1])
            masks.append([int(bool(learnt))] * (last + 1 - first))
    return prompts, responses, masks
