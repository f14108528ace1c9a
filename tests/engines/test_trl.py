"""Run by `make test-trl` in an environment of its own for the oldest supported TRL."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "adapters"))

pytestmark = pytest.mark.engines


def test_the_environment_holds_the_version_that_it_is_named_after():
    expected = os.environ.get("GEOALIGN_ENGINE_TRL")
    if expected is None:
        pytest.skip("GEOALIGN_ENGINE_TRL is set by `make test-trl` only")
    assert version("trl") == expected


def test_a_training_learns_under_flipped_rewards(tmp_path):
    """Thirty steps with GeoAlign, a tenth of the rewards flipped: the true reward rises, rows were replaced."""
    import torch
    from trl_parts import Recording, digits, trainer

    from geoalign import GeoAlign, ProjectorConfig

    torch.set_num_threads(1)
    draws = torch.Generator().manual_seed(11)
    true = []

    def partly_flipped(completions, **columns):
        values = [float(value > 0.3) for value in digits(completions)]
        true.append(sum(values) / len(values))
        flipped = torch.rand(len(values), generator=draws) < 0.1
        return [1 - value if flip else value for value, flip in zip(values, flipped.tolist(), strict=True)]

    curator = GeoAlign(alpha=0.2, projector=ProjectorConfig(hidden_dim=32, output_dim=16, steps=20))
    shape = {"per_device_train_batch_size": 64, "num_generations": 8, "max_completion_length": 8, "max_steps": 30}
    made = trainer(tmp_path, curator, cls=Recording, reward=partly_flipped, learning_rate=5e-3, **shape)
    made.train()
    assert sum(true[-5:]) / 5 > sum(true[:5]) / 5 + 0.2
    assert sum(step.curation.metrics["replaced"] for step in made.steps) > 10
    assert all(step.curation.metrics["pairs"] > 0 for step in made.steps[:5])
    losses = [log["loss"] for log in made.state.log_history if "loss" in log]
    assert len(losses) == 30
    assert all(torch.isfinite(torch.tensor(losses)))
