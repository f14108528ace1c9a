"""What a run takes of each GPU's memory, estimated before any weight is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

_GB = 1e9
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
# Adam keeps two numbers per trained weight in fp32.
_ADAM = 8


@dataclass(frozen=True)
class ModelShape:
    """What decides a model's memory: all parameters, layers, width, and the size of the vocabulary."""

    parameters: int
    layers: int
    width: int
    vocabulary: int


@dataclass(frozen=True)
class MemoryEstimate:
    """GB on each GPU: what stays (weights, gradients, optimizer), what a micro-batch adds, and what vLLM reserves.

    `logits` are those of one micro-batch in fp32, forward and backward; `activations` one layer input per layer and
    token where activations are checkpointed, else about sixteen times that. Both are orders of magnitude: kernels,
    fragmentation and the caching allocator add to them.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    generation: float

    @property
    def total(self) -> float:
        """All of it: with vLLM's sleep mode off. With sleep mode on, generation and training take turns."""
        return sum((self.weights, self.gradients, self.optimizer, self.activations, self.logits, self.generation))

    @property
    def training(self) -> float:
        """Without what vLLM reserves."""
        return self.total - self.generation


def shape_of_model(config: Any) -> ModelShape:
    """The shape of a model from its transformers config; no weight is made."""
    import torch
    from transformers import AutoModelForCausalLM

    text = config.get_text_config()
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return ModelShape(
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        layers=int(text.num_hidden_layers),
        width=int(text.hidden_size),
        vocabulary=int(text.vocab_size),
    )


def estimate_memory(
    shape: ModelShape,
    *,
    dtype: str,
    bf16: bool,
    trained_share: float,
    micro_batch: int,
    tokens: int,
    processes: int,
    zero_stage: int,
    checkpointing: bool,
    vllm_share: float,
    gpu_memory: float,
) -> MemoryEstimate:
    """The memory of one GPU in the RL stage.

    Args:
        dtype: of the weights in memory.
        bf16: activations are in bf16.
        trained_share: trained weights as a share of all (below 1 with LoRA).
        micro_batch: rollouts in one forward and backward pass.
        tokens: of prompt and response together, at most.
        zero_stage: DeepSpeed's; 0: every GPU holds everything. 1 shares the optimizer, 2 the gradients too; both keep
            bf16 weights and share an fp32 copy of them.
        vllm_share: of the GPU, reserved by colocated vLLM; 0: none.
        gpu_memory: in GB.
    """
    trained = shape.parameters * trained_share
    weight_bytes = _BYTES[dtype] if zero_stage == 0 else 2
    master = 0 if zero_stage == 0 else 4 * trained / processes
    shared = processes if zero_stage >= 1 else 1
    activation_bytes = 2 if bf16 else 4
    per_token = shape.layers * shape.width * activation_bytes * (1 if checkpointing else 16)
    return MemoryEstimate(
        weights=shape.parameters * weight_bytes / _GB,
        gradients=trained * weight_bytes / (processes if zero_stage >= 2 else 1) / _GB,
        optimizer=(trained * _ADAM / shared + master) / _GB,
        activations=micro_batch * tokens * per_token / _GB,
        logits=2 * micro_batch * tokens * shape.vocabulary * 4 / _GB,
        generation=vllm_share * gpu_memory,
    )
