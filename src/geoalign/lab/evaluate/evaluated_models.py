"""The models of an evaluation: path, name and fingerprint of each, and the engine that it is loaded into."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from geoalign.errors import ConfigError
from geoalign.lab.evaluate.settings import EvaluateConfig
from geoalign.lab.models.engines import Engine, TransformersEngine, VLLMEngine
from geoalign.lab.models.language_model import initial_model, initial_tokenizer
from geoalign.lab.models.settings import PretrainedModelConfig
from geoalign.pretrained.fastest_dtype import fastest_dtype
from geoalign.pretrained.fingerprint import fingerprint
from geoalign.pretrained.from_pretrained import from_pretrained, loading


@dataclass(frozen=True)
class EvaluatedModel:
    """One model: a folder, or an id on the hub; `series` and `step` where it is a checkpoint of a run.

    `name` is what it is called in files and tables: letters that file names take, unique in an evaluation.
    """

    name: str
    path: str
    revision: str | None = None
    series: str | None = None
    step: int | None = None
    template_options: Mapping[str, Any] = field(default_factory=dict)
    trust_remote_code: bool = False

    def settings(self, **more: Any) -> PretrainedModelConfig:
        """As a run's settings would name it; `more`: further ones, such as dtype."""
        return PretrainedModelConfig(
            path=self.path, revision=self.revision, trust_remote_code=self.trust_remote_code, **more
        )


@dataclass(frozen=True)
class Described:
    """A model before its weights are loaded: its tokenizer, longest sequence (None: unknown), and fingerprint."""

    model: EvaluatedModel
    tokenizer: Any
    longest: int | None
    fingerprint: str


def describe(model: EvaluatedModel) -> Described:
    """Reads what can be known without the weights; ConfigError where there is no such model."""
    with loading("MODEL: expected a causal language model", model.path):
        settings = from_pretrained(
            AutoConfig,
            model.path,
            revision=model.revision,
            trust_remote_code=model.trust_remote_code,
            setting="trust_remote_code",
        )
    try:
        tokenizer = initial_tokenizer(model.settings(), alphabet=None)
    except ConfigError as error:
        raise ConfigError(str(error).replace("model.path", "MODEL", 1)) from error
    longest = getattr(settings.get_text_config(), "max_position_embeddings", None)
    folder = Path(model.path)
    known = fingerprint(folder) if folder.is_dir() else f"{model.path}@{getattr(settings, '_commit_hash', None)}"
    return Described(model, tokenizer, longest, known)


def open_engine(model: EvaluatedModel, tokenizer: Any, config: EvaluateConfig) -> AbstractContextManager[Engine]:
    """Loads a model into the engine of the settings, which frees it at its end."""
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
