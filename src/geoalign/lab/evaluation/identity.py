"""What an evaluation depends on: models, sets and settings, by their content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from geoalign.lab.config.evaluate import EvaluateConfig
from geoalign.lab.evaluation.sets import EvaluationSet
from geoalign.lab.generation.loading import device_and_dtype
from geoalign.lab.generation.models import Described

# Settings that stand in `models` and `sets` as what they come to, or change no row.
_ELSEWHERE = ("samples", "pass_at_k", "problems", "max_new_tokens", "device", "chat_template_kwargs", "system_prompt")


def identity_of(models: Sequence[Described], sets: Sequence[EvaluationSet], config: EvaluateConfig) -> dict[str, Any]:
    """What the rows of an evaluation depend on, as `settings.json` holds it; where files lie is left out."""
    settings = asdict(config)
    device, dtype = device_and_dtype(config)
    kept = {name: value for name, value in settings.items() if name not in _ELSEWHERE}
    if not config.trust_remote_code:  # absent in evaluations begun before there was this setting
        del kept["trust_remote_code"]
    reward = dict(kept.pop("reward"))
    # Retries, and the device that scores, change no reward.
    scored_by = {name: reward["model"][name] for name in ("path", "revision", "url", "api", "dtype", "max_length")}
    return {
        **kept,
        "batch_size": config.batch,
        "dtype": dtype,
        "device_type": None if device is None else device.partition(":")[0],
        "reward": {"timeout": reward["timeout"], "max_answer_length": reward["max_answer_length"], "model": scored_by},
        "models": {
            described.model.name: {
                "fingerprint": described.fingerprint,
                "chat_template_kwargs": dict(described.model.template_options),
            }
            for described in models
        },
        "sets": {
            described.name: {
                "kind": described.kind,
                "problems": len(described.problems),
                "digest": described.digest(),
                "samples": described.samples,
                "max_new_tokens": described.max_new_tokens,
            }
            for described in sets
        },
    }
