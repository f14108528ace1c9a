"""The models of an evaluation: which ones the arguments name, what is known of each, and its engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from geoalign.errors import ConfigError
from geoalign.files.json_files import read_json
from geoalign.lab.evaluate.settings import EvaluateConfig
from geoalign.lab.models.engines import Engine, TransformersEngine, VLLMEngine
from geoalign.lab.models.language_model import initial_model, initial_tokenizer
from geoalign.lab.models.settings import PretrainedModelConfig
from geoalign.lab.runs.folder import RunFolder, checkpoint_step, complete_checkpoints, is_checkpoint, is_last_checkpoint
from geoalign.pretrained.fastest_dtype import fastest_dtype
from geoalign.pretrained.fingerprint import model_fingerprint
from geoalign.pretrained.from_pretrained import from_pretrained, is_hub_id, loading


@dataclass(frozen=True, kw_only=True)
class EvaluatedModel:
    """One model: a folder, or an id on the hub.

    Attributes:
        name: what it is called in rows and tables.
        series: the run of which the model is a checkpoint, and `step` its update; None for any other model.
        template_options: arguments of the chat template.
    """

    name: str
    path: str
    revision: str | None = None
    series: str | None = None
    step: int | None = None
    template_options: Mapping[str, Any]
    trust_remote_code: bool

    def settings(self, **more: Any) -> PretrainedModelConfig:
        """As a run's settings would name it; `more`: further ones, such as dtype."""
        return PretrainedModelConfig(
            path=self.path, revision=self.revision, trust_remote_code=self.trust_remote_code, **more
        )


# --- which models the arguments name ----------------------------------------------------------------------------------


def find_models(texts: Sequence[str], config: EvaluateConfig, *, checkpoints: bool = False) -> list[EvaluatedModel]:
    """The models that arguments of the form `[NAME=]MODEL` name.

    MODEL is a folder, an id on the hub, or the folder of a run, which stands for its final model; with `checkpoints`
    for every checkpoint that its RL stage kept.
    """
    if not texts:
        raise ConfigError("MODEL: expected a folder, an id on the hub or a run folder, got none")
    models: list[EvaluatedModel] = []
    for text in texts:
        name, place = _name_and_place(text)
        path = Path(place).expanduser()
        run = RunFolder(path.resolve())
        if run.started() and checkpoints:
            models += _checkpoints_of(run, name or run.root.name, config)
        elif checkpoints:
            raise ConfigError(f"--checkpoints: expected a run folder of `geoalign train`, got {place}")
        elif run.started():
            models.append(_final_model(run, name or run.root.name, config))
        elif path.is_dir():
            models.append(_model_in_folder(path, name, config))
        elif is_hub_id(place):
            on_hub = _model(name or place.rpartition("/")[2], place, None, config)
            models.append(replace(on_hub, revision=config.revision))
        else:
            raise ConfigError(
                f"MODEL: expected a folder, an id on the hub or a run folder, got {place!r}: no such folder"
            )
    for name, count in Counter(model.name for model in models).items():
        if count > 1:
            raise ConfigError(f"MODEL: {count} models are called {name}: give each a name of its own, as in NAME=MODEL")
    return models


def _name_and_place(text: str) -> tuple[str | None, str]:
    """The name and the place of `NAME=MODEL`; None and the place where the whole text is a folder or has no name."""
    name, equals, place = text.partition("=")
    if not equals or not name or Path(text).expanduser().exists():
        return None, text
    return name, place


def _final_model(run: RunFolder, name: str, config: EvaluateConfig) -> EvaluatedModel:
    if not run.final.is_dir():
        raise ConfigError(
            f"{run.root}: expected a run with a final model, got one that is not finished: evaluate what there is "
            "with --checkpoints"
        )
    return _model(name, run.final, run, config)


def _checkpoints_of(run: RunFolder, name: str, config: EvaluateConfig) -> list[EvaluatedModel]:
    """Every checkpoint of the RL stage, and the final model unless it is one of them."""
    kept = complete_checkpoints(run.rl_checkpoints)
    models = [_checkpoint(run, name, path, config) for path in kept]
    if run.final.is_dir() and not (kept and is_last_checkpoint(kept[-1])):
        final = _model(f"{name}-final", run.final, run, config)
        if run.summary.is_file():
            final = replace(final, series=name, step=int(read_json(run.summary)["steps"]))
        models.append(final)
    if not models:
        raise ConfigError(f"{run.root}: expected a run with checkpoints of its RL stage, got one without any yet")
    return models


def _model_in_folder(path: Path, name: str | None, config: EvaluateConfig) -> EvaluatedModel:
    """The model in a folder; one in the folder of a run is named after the run, and answers in its chat template."""
    _check_whole(path)
    if not (path / "config.json").is_file():
        raise ConfigError(f"{path}: expected a model (config.json) or a run folder, got a folder that is neither")
    if config.revision is not None:
        raise ConfigError(f"revision: expected null for the folder {path}, got {config.revision!r}")
    folder = path.resolve()
    runs = [RunFolder(parent) for parent in folder.parents]
    run = next((run for run in runs if run.started() and folder.is_relative_to(run.checkpoints)), None)
    if run is not None and is_checkpoint(folder):
        return _checkpoint(run, name or run.root.name, path, config)
    if run is not None and folder == run.final:
        return _model(name or run.root.name, path, run, config)
    return _model(name or folder.name, path, run, config)


def _checkpoint(run: RunFolder, name: str, path: Path, config: EvaluateConfig) -> EvaluatedModel:
    _check_whole(path)
    step = checkpoint_step(path.resolve())
    return replace(_model(f"{name}-step-{step:06d}", path, run, config), series=name, step=step)


def _model(name: str, path: Path | str, run: RunFolder | None, config: EvaluateConfig) -> EvaluatedModel:
    """The model at a path; it answers in the chat template that its run was trained in, unless the settings say."""
    options = config.chat_template_kwargs
    if options is None and run is not None:
        options = (run.read_config().get("model") or {}).get("chat_template_kwargs")
    return EvaluatedModel(
        name=name, path=str(path), template_options=options or {}, trust_remote_code=config.trust_remote_code
    )


def _check_whole(path: Path) -> None:
    if (path / "adapter_config.json").is_file():
        raise ConfigError(
            f"{path}: expected a whole model, got adapters (model.lora); they are merged in the run's checkpoints/final"
        )


# --- what is known of a model, and its engine -------------------------------------------------------------------------


@dataclass(frozen=True)
class DescribedModel:
    """A model before its weights are loaded: its tokenizer, longest sequence (None: unknown), and fingerprint."""

    model: EvaluatedModel
    tokenizer: Any
    longest: int | None
    fingerprint: str


def describe(model: EvaluatedModel) -> DescribedModel:
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
    folder = Path(model.path)
    return DescribedModel(
        model=model,
        tokenizer=tokenizer,
        longest=getattr(settings.get_text_config(), "max_position_embeddings", None),
        fingerprint=model_fingerprint(folder) if folder.is_dir() else f"{model.path}@{settings._commit_hash}",
    )


def open_engine(described: DescribedModel, config: EvaluateConfig) -> AbstractContextManager[Engine]:
    """Loads a model into the engine of the settings, which frees it at its end."""
    model = described.model
    device, dtype = device_and_dtype(config)
    if device is None:
        return VLLMEngine(model, described.tokenizer, dtype=dtype, seed=config.seed, options=config.vllm)
    try:
        loaded, _ = initial_model(model.settings(dtype=dtype), alphabet=None, seed=0)
    except ConfigError as error:
        raise ConfigError(str(error).replace("model.path", "MODEL", 1)) from error
    try:
        return TransformersEngine(loaded.to(device), described.tokenizer)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device: expected one of this machine, got {device!r}: {error}") from error


def device_and_dtype(config: EvaluateConfig) -> tuple[str | None, str]:
    """Device (None: vLLM's own) and type of the weights on this machine."""
    if config.engine == "vllm":
        return None, "bfloat16" if config.dtype == "auto" else config.dtype
    device = config.device
    if device is None:
        device = str(torch.accelerator.current_accelerator()) if torch.accelerator.is_available() else "cpu"
    return device, fastest_dtype(device) if config.dtype == "auto" else config.dtype
