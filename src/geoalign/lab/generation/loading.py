"""Loads a model into the engine that the settings of an evaluation name."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from geoalign.errors import ConfigError
from geoalign.lab.config.evaluate import EvaluateConfig
from geoalign.lab.generation.engine import Engine
from geoalign.lab.generation.models import EvaluatedModel
from geoalign.lab.generation.transformers_engine import TransformersEngine
from geoalign.lab.generation.vllm_engine import VLLMEngine
from geoalign.lab.models.fastest_dtype import fastest_dtype
from geoalign.lab.models.models import initial_model


def open_engine(model: EvaluatedModel, tokenizer: Any, config: EvaluateConfig) -> AbstractContextManager[Engine]:
    """Loads a model into the engine of the settings, which frees it at its end.

    Raises:
        ConfigError: the model cannot be loaded, or the device is not there.
        MissingExtraError: vLLM is not installed.
    """
    device, dtype = device_and_dtype(config)
    if device is None:
        return VLLMEngine(model, tokenizer, dtype=dtype, seed=config.seed, options=config.vllm)
    try:
        loaded, _ = initial_model(model.settings(dtype=dtype), alphabet=None, seed=0)
    except ConfigError as error:
        raise ConfigError(str(error).replace("model.path", "MODEL", 1)) from error
    try:
        return TransformersEngine(loaded.to(device), tokenizer)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device: expected one of this machine, got {device!r}: {error}") from error


def device_and_dtype(config: EvaluateConfig) -> tuple[str | None, str]:
    """Device (None: vLLM's own) and type of the weights on this machine."""
    if config.engine == "vllm":
        return None, "bfloat16" if config.dtype == "auto" else config.dtype
    device = config.device or (
        str(torch.accelerator.current_accelerator()) if torch.accelerator.is_available() else "cpu"
    )
    return device, fastest_dtype(device) if config.dtype == "auto" else config.dtype
