"""What the overhead benchmark measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from geoalign.errors import ConfigError


@dataclass(frozen=True)
class Options:
    """A step of GRPO, and how it is measured.

    Attributes:
        architecture: a name of ARCHITECTURES.
        groups, size: prompts, and rollouts of each.
        prompt, response: tokens of each; all rollouts are equally long, as long as they may get.
        micro_batch: rollouts in one pass through the model.
        rows: rollouts that are passed through the model, the rest of the batch counted as so many more of the same;
            None: all.
        repeats, warmups: calls that are measured, and calls before them.
        device: "cpu" or "cuda"; of several GPUs the first that CUDA_VISIBLE_DEVICES leaves.
        rewards: of the curated batches; continuous ones give the most pairs.
        checkpointing: activations are computed again in the backward pass, as in `configs/full`.
        policy: measure the passes through the model; without them curation alone, and no shares.
        generation: measure vLLM's generation where it can be.
        split: devices that share the passes through the model in the step to compare with (by arithmetic).
        seed: of weights, tokens and batches.

    Raises:
        ConfigError: a number is out of range or does not go with the others.
    """

    architecture: str = "qwen3-1.7b"
    groups: int = 96
    size: int = 16
    prompt: int = 256
    response: int = 1024
    micro_batch: int = 4
    rows: int | None = None
    repeats: int = 3
    warmups: int = 1
    device: str = "cpu"
    rewards: Literal["continuous", "binary"] = "continuous"
    checkpointing: bool = True
    policy: bool = True
    generation: bool = True
    split: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        if self.device not in ("cpu", "cuda"):
            raise ConfigError(f"device: expected cpu or cuda (which GPU: CUDA_VISIBLE_DEVICES), got {self.device!r}")
        least = {"groups": 1, "size": 2, "prompt": 2, "response": 1, "micro_batch": 1, "repeats": 1, "split": 1}
        for name, value in least.items():
            if getattr(self, name) < value:
                raise ConfigError(f"{name}: expected at least {value}, got {getattr(self, name)}")
        for name in ("warmups", "seed"):
            if getattr(self, name) < 0:
                raise ConfigError(f"{name}: expected 0 or more, got {getattr(self, name)}")
        if self.rollouts % self.micro_batch:
            raise ConfigError(f"micro_batch: expected a divisor of {self.rollouts} rollouts, got {self.micro_batch}")
        if self.rows is not None and not (0 < self.rows <= self.rollouts and self.rows % self.micro_batch == 0):
            raise ConfigError(
                f"rows: expected whole micro-batches of {self.micro_batch}, at most {self.rollouts}, got {self.rows}"
            )

    @property
    def rollouts(self) -> int:
        """Rollouts of a step."""
        return self.groups * self.size

    @property
    def passed(self) -> int:
        """Rollouts that are passed through the model."""
        return self.rows or self.rollouts

    @property
    def tokens(self) -> int:
        """Tokens of a rollout, prompt and response."""
        return self.prompt + self.response
