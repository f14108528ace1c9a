"""One generation batch of ms-swift on its way through a curator: what is measured, decided and carried out."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from swift.rlhf_trainers.utils import encode_sample
from torch import Tensor, nn

from geoalign.adapters.failures import guarded, warn_of_failure
from geoalign.adapters.swift.refusals import check_batch, check_drops
from geoalign.adapters.trl.advantages import scaled_advantages, total_rewards
from geoalign.adapters.trl.round import LOSS_SCALE, RolloutField, TrainerRound, gather_list, table_columns
from geoalign.adapters.trl.rows import dropping_scale
from geoalign.adapters.trl.states import RowTokens, StatePlace, TokenIds, own_hidden
from geoalign.curators.session import CurationSession
from geoalign.errors import UnsupportedError
from geoalign.types import Curation, Rollouts


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
        # ms-swift's sum over reward functions; NaN where none gave a reward, or one raised.
        everywhere = set(gather_list(sorted(failed)))
        flags = [sample.request_id in everywhere for sample in samples]
        raised = self._gather(torch.tensor(flags, device=self._trainer.accelerator.device))
        rewards = total_rewards(per_function, self._trainer.reward_weights).masked_fill(raised, torch.nan)
        self._metrics["failed_rewards"] = float(raised.sum())
        curation = self._decide(self._read_samples(samples, rewards, per_function))
        log_columns(self._trainer, curation, self._placement.source)
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

        They stay, bit for bit, where no reward was changed, moved, dropped or missing: ms-swift knows none missing.
        """
        missing = bool(self._rollouts.rewards.isnan().any())
        return self._final_advantages(None if missing else lambda: computed).to(computed.dtype)

    def _formula(self, rewards: Tensor, per_function: Tensor, groups: Tensor) -> Tensor:
        estimator, scale = self._trainer.advantage_estimator, self._trainer.scale_rewards
        return scaled_advantages(rewards, groups, scale_rewards=scale, estimator=estimator)

    def _read_samples(self, samples: list[Any], rewards: Tensor, per_function: Tensor) -> Rollouts:
        trainer = self._trainer
        tokens = RowTokens(*token_rows(trainer, samples))
        return self._read(
            rewards,
            per_function,
            prompts=tokens.prompts,
            contents=tokens.responses,
            lengths=tokens.lengths,
            hidden=lambda: self._hidden(tokens),
            unfit=[sample.is_truncated for sample in samples] if trainer.overlong_filter else None,
            rows=[
                {
                    **sample.to_reward_row(),
                    "prompt": sample.messages[:-1],
                    "completion": sample.messages[-1]["content"],
                    "completion_ids": ids,
                }
                for sample, ids in zip(samples, tokens.responses, strict=True)
            ],
        )

    def _hidden(self, tokens: RowTokens) -> Tensor:
        tokens.find_answers(self._trainer.template.tokenizer, self._state_place)
        self._count_answers(tokens.answers)
        return own_hidden(self._trainer, tokens, self._state_place).contiguous()

    def _moved(self, samples: list[Any]) -> list[Any]:
        """Whole samples in the place of others, under the request of the place that they take."""
        source = self._placement.source
        local = len(samples)
        first = self._trainer.accelerator.process_index * local
        crossing = self._crossing(local)
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
        def plan(*args: Any, **kwargs: Any) -> Any:
            def finish(results: Sequence[Any]) -> Any:
                if not isinstance(results[0], Exception):
                    return results[0]
                if not trainer.model.training:
                    raise results[0]
                rows = kwargs["request_id"]
                failed.update(rows)
                warn_of_failure(function, results[0], f"{len(rows)} rows unscored")
                return [None] * len(rows)

            return [partial(function, *args, **kwargs)], finish

        return guarded(function, plan)

    trainer.reward_funcs = [f if isinstance(f, nn.Module) else wrapped(f) for f in trainer.reward_funcs]
    plugins = trainer.reward_model_plugins
    trainer.reward_model_plugins = [None if plugin is None else wrapped(plugin) for plugin in plugins]


IGNORED = -100


def token_rows(trainer: Any, samples: list[Any]) -> tuple[TokenIds, TokenIds]:
    """Prompt and response tokens of each sample, as ms-swift's template encodes it for training.

    The response reaches from the first token in the loss to the last.
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
