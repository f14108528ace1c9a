from types import SimpleNamespace
from typing import Any

import pytest
import torch

from geoalign.lab.train.stages.policy import PolicyShift


class Base:
    """Stands for TRL's trainer: one log-probability pass in the loss, and one for the reference outside it."""

    def __init__(self, new: torch.Tensor) -> None:
        self.new = new
        self.model = SimpleNamespace(training=True)
        self.accelerator = SimpleNamespace(reduce=lambda values, reduction: values)
        self._metrics: dict[str, Any] = {"train": {"ppo_kl": []}}

    def _get_per_token_logps_and_entropies(self, *args: Any) -> tuple[torch.Tensor, None, None]:
        return self.new, None, None

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        return self._get_per_token_logps_and_entropies()[0].sum()


class Shifted(PolicyShift, Base):
    pass


def shift(inputs: dict[str, torch.Tensor]) -> float:
    trainer = Shifted(torch.tensor([[-1.0, -2.0], [-3.0, -9.0]], requires_grad=True))
    loss = trainer._compute_loss(None, inputs)
    assert loss.item() == -15.0
    assert trainer._new_logps is None
    (value,) = trainer._metrics["train"]["ppo_kl"]
    return float(value)


def test_the_mean_over_response_tokens_of_old_minus_new() -> None:
    mask = torch.tensor([[1, 1], [1, 0]])
    old = torch.tensor([[-0.5, -2.5], [-2.0, 100.0]])
    # (-0.5+1) + (-2.5+2) + (-2+3) = 1 over three tokens; the masked fourth counts for nothing.
    assert shift({"completion_mask": mask, "old_per_token_logps": old}) == pytest.approx(1 / 3)


def test_tool_tokens_are_left_out() -> None:
    mask, tools = torch.tensor([[1, 1], [1, 0]]), torch.tensor([[1, 0], [0, 1]])
    old = torch.tensor([[-0.5, -2.5], [-2.0, 100.0]])
    assert shift({"completion_mask": mask, "tool_mask": tools, "old_per_token_logps": old}) == pytest.approx(0.5)


def test_zero_where_the_batch_was_just_generated_or_nothing_counts() -> None:
    assert shift({"completion_mask": torch.ones(2, 2)}) == 0.0
    assert shift({"completion_mask": torch.zeros(2, 2), "old_per_token_logps": torch.zeros(2, 2)}) == 0.0
