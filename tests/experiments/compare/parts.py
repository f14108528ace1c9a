"""A small comparison for tests."""

from __future__ import annotations

from typing import Any

SETTINGS: dict[str, Any] = {
    "run": {
        "model": {"hidden_size": 16, "layers": 1, "heads": 1},
        "task": {"operands": 2, "digits": 1, "train_problems": 32, "evaluation_problems": 8, "demonstrations": 64},
        "sft": {"max_steps": 2, "per_device_train_batch_size": 8},
        "grpo": {
            "max_steps": 4,
            "num_generations": 4,
            "per_device_train_batch_size": 16,
            "steps_per_generation": 2,
            "save_steps": 2,
            "max_completion_length": 6,
        },
        "reward": {"workers": 1},
        "evaluation": {"every": 2},
    },
    "arms": {
        "grpo": None,
        "geoalign": {"curator": {"type": "geoalign", "min_scores": 4, "alpha": 0.5, "projector": {"steps": 3}}},
    },
    "levels": {"flip_40": {"reward": {"flip": 0.4}}},
    "seeds": [0, 1],
    "workers": 2,
    "keep_runs": True,
}
