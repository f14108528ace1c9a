"""Experiences as Trinity-RFT makes them, without Trinity: the same attributes."""

import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch


@dataclass
class EID:
    batch: Any = ""
    task: Any = ""
    run: int = 0
    step: int = 0
    suffix: str = field(default_factory=lambda: uuid.uuid4().hex[:6])

    @property
    def uid(self):
        return f"{self.batch}/{self.task}/{self.run}/{self.step}/{self.suffix}"


@dataclass
class Experience:
    eid: EID
    tokens: torch.Tensor
    prompt_length: int
    reward: float | None
    action_mask: torch.Tensor | None = None
    logprobs: torch.Tensor | None = None
    token_level_reward: torch.Tensor | None = None
    info: dict = field(default_factory=dict)
    metrics: dict[str, float] | None = None
    experience_type: str = "single_turn"
    prompt_text: str | None = None
    response_text: str | None = None
    messages: list[dict] | None = None


@pytest.fixture
def experience():
    def make(task=0, run=0, reward=0.0, *, prompt=3, response=4, batch=0, step=0, **others):
        start = 100 * task + 10 * run
        return Experience(
            eid=EID(batch=batch, task=task, run=run, step=step),
            tokens=torch.arange(start, start + prompt + response),
            prompt_length=prompt,
            reward=reward,
            **{"action_mask": torch.ones(response, dtype=torch.bool), **others},
        )

    return make
