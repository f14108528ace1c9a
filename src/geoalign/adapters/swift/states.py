"""The tokens of ms-swift's samples, and their log-probabilities by ms-swift's own forward pass."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from swift.rlhf_trainers.utils import collate_to_grpo_micro_batch, encode_sample
from torch import Tensor

from geoalign.adapters.trl.states import TokenIds
from geoalign.errors import UnsupportedError
from geoalign.hidden.extract import eval_mode

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
