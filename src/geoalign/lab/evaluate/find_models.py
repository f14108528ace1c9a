"""Which models an evaluation's arguments name: folders, ids on the hub, the final model of a run, its checkpoints."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError
from geoalign.files.json_files import read_json
from geoalign.lab.evaluate.evaluated_models import EvaluatedModel
from geoalign.lab.evaluate.settings import EvaluateConfig
from geoalign.lab.runs.folder import RunFolder, checkpoint_step, complete_checkpoints, is_checkpoint, is_last
from geoalign.pretrained.from_pretrained import is_hub_id


def find_models(texts: Sequence[str], config: EvaluateConfig, *, checkpoints: bool = False) -> list[EvaluatedModel]:
    """The models that the arguments name, each with a name of its own; `checkpoints`: of a run all that it kept."""
    if not texts:
        raise ConfigError("MODEL: expected a folder, an id on the hub or a run folder, got none")
    models: list[EvaluatedModel] = []
    runs = 0
    for text in texts:
        path = Path(text).expanduser()
        run = RunFolder(path)
        if path.is_dir() and run.started():
            runs += 1
            models += _of_run(run, config, checkpoints=checkpoints)
        elif path.is_dir():
            models.append(_of_folder(path, config))
        else:
            models.append(_of_hub(text, config))
    if checkpoints and not runs:
        raise ConfigError(f"--checkpoints: expected a run folder of `geoalign train`, got {', '.join(texts)}")
    # A checkpoint may be named by itself and through its run.
    named = _with_own_names(list({model.path: model for model in models}.values()))
    return [replace(model, trust_remote_code=config.trust_remote_code) for model in named]


def _of_run(run: RunFolder, config: EvaluateConfig, *, checkpoints: bool) -> list[EvaluatedModel]:
    name, root = _file_name(run.root.resolve().name), str(run.root.resolve())
    final = EvaluatedModel(name, str(run.final), template_options=_options(config, run))
    if not checkpoints:
        if not run.final.is_dir():
            raise ConfigError(
                f"{run.root}: expected a run with a final model, got one that is not finished: evaluate what there is "
                "with --checkpoints"
            )
        return [final]
    kept = complete_checkpoints(run.rl_checkpoints)
    models = []
    for path in kept:
        _check_whole(path)
        models.append(_checkpoint(path, name, root, checkpoint_step(path), final.template_options))
    if run.final.is_dir() and not (kept and is_last(kept[-1])):
        steps = int(read_json(run.summary)["steps"]) if run.summary.is_file() else None
        models.append(replace(final, name=f"{name}-final", series=None if steps is None else root, step=steps))
    if not models:
        raise ConfigError(f"{run.root}: expected a run with checkpoints of its RL stage, got one without any yet")
    return models


def _of_folder(path: Path, config: EvaluateConfig) -> EvaluatedModel:
    _check_whole(path)
    if not (path / "config.json").is_file():
        raise ConfigError(f"{path}: expected a model (config.json) or a run folder, got a folder that is neither")
    if config.revision is not None:
        raise ConfigError(f"revision: expected null for the folder {path}, got {config.revision!r}")
    folder = path.resolve()
    run = _run_of(folder)
    options = _options(config, run)
    if is_checkpoint(folder):
        root = run.root if run is not None else folder.parent
        return _checkpoint(path, _file_name(root.name), str(root), checkpoint_step(folder), options)
    # The last model of a run goes by the run's name here too.
    named = run.root if run is not None and folder == run.final else folder
    return EvaluatedModel(_file_name(named.name), str(path), template_options=options)


def _checkpoint(path: Path, name: str, root: str, step: int, options: Mapping[str, Any]) -> EvaluatedModel:
    return EvaluatedModel(f"{name}-step-{step:06d}", str(path), series=root, step=step, template_options=options)


def _run_of(folder: Path) -> RunFolder | None:
    runs = [RunFolder(parent) for parent in folder.parents[1:3]]
    return next((run for run in runs if run.started() and folder.is_relative_to(run.checkpoints)), None)


def _of_hub(text: str, config: EvaluateConfig) -> EvaluatedModel:
    if not is_hub_id(text):
        raise ConfigError(f"MODEL: expected a folder, an id on the hub or a run folder, got {text!r}: no such folder")
    name = _file_name(text.rpartition("/")[2])
    return EvaluatedModel(name, text, revision=config.revision, template_options=_options(config, None))


def _check_whole(path: Path) -> None:
    if (path / "adapter_config.json").is_file():
        raise ConfigError(
            f"{path}: expected a whole model, got adapters (model.lora); they are merged in the run's checkpoints/final"
        )


def _options(config: EvaluateConfig, run: RunFolder | None) -> dict[str, Any]:
    if config.chat_template_kwargs is not None or run is None:
        return dict(config.chat_template_kwargs or {})
    return dict((run.read_config().get("model") or {}).get("chat_template_kwargs") or {})


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text).lstrip(".") or "model"


def _with_own_names(models: Sequence[EvaluatedModel]) -> list[EvaluatedModel]:
    """Of equal names the second becomes name-2, and so on; series of folders become names likewise."""
    names: dict[str, str] = {}
    series: dict[str, str] = {}
    return [
        replace(
            model,
            name=_own(model.name, model.path, names),
            series=None if model.series is None else _own(_file_name(Path(model.series).name), model.series, series),
        )
        for model in models
    ]


def _own(name: str, path: str, taken: dict[str, str]) -> str:
    """The name under which a path goes: `name` itself, or with the first number that is free."""
    if path not in taken:
        taken[path] = free_name(name, taken.values())
    return taken[path]


def free_name(name: str, taken: Collection[str]) -> str:
    """`name` itself, or with the first number that is free; names that differ only by case are the same folder on some
    file systems."""
    folded = {other.casefold() for other in taken}
    names = (name if number == 1 else f"{name}-{number}" for number in count(1))
    return next(free for free in names if free.casefold() not in folded)
