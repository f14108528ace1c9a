"""Qwen3 architectures with random weights: what a step costs does not depend on what the weights are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from geoalign.errors import ConfigError


@dataclass(frozen=True)
class Architecture:
    """The numbers of a Qwen3 model that decide its cost; the vocabulary is both input and (tied) output."""

    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int

    def config(self, *, tokens: int) -> Qwen3Config:
        """transformers' config, for sequences of up to `tokens` tokens."""
        values: dict[str, Any] = asdict(self)
        return Qwen3Config(
            **values,
            architectures=["Qwen3ForCausalLM"],  # by which vLLM knows the model
            tie_word_embeddings=True,
            max_position_embeddings=tokens,
            # The last ids, so that every architecture has them; none of them is drawn for a rollout.
            pad_token_id=self.vocab_size - 1,
            eos_token_id=self.vocab_size - 2,
            bos_token_id=None,
            dtype="float32",
        )


# From the public configs of Qwen/Qwen3-1.7B and Qwen/Qwen3-4B.
ARCHITECTURES: dict[str, Architecture] = {
    "qwen3-1.7b": Architecture(2048, 28, 16, 8, 128, 6144, 151_936),
    "qwen3-4b": Architecture(2560, 36, 32, 8, 128, 9728, 151_936),
    # To see the benchmark run on a CPU.
    "tiny": Architecture(64, 2, 4, 2, 16, 128, 320),
}


def architecture_named(name: str) -> Architecture:
    """The architecture of this name.

    Raises:
        ConfigError: there is none.
    """
    if name not in ARCHITECTURES:
        raise ConfigError(f"architecture: expected one of {', '.join(ARCHITECTURES)}, got {name!r}")
    return ARCHITECTURES[name]


def random_policy(architecture: Architecture, *, tokens: int, device: torch.device, seed: int) -> Qwen3ForCausalLM:
    """The model with random fp32 weights, drawn on `device`; the caller's generators stay as they were."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), device:
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(architecture.config(tokens=tokens))
