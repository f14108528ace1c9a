"""Reading a run folder: finished, still growing, or cut off by a kill."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import Table
from safetensors import SafetensorError, safe_open

from geoalign.errors import RunFolderError
from geoalign.lab.store.columns import CutOffError, decoded, floats, ints, read_columns, require_texts, schema_of, texts
from geoalign.lab.store.records import (
    MetricRow,
    number,
    parse_evaluation,
    parse_metrics,
    parsed_json,
    present,
    read_object,
    read_yaml,
    shown,
    told,
    whole,
)
from geoalign.lab.store.run import Density, Details, RolloutStep, Run
from geoalign.settings.masking import masked_yaml, without_secrets

SCHEMA_VERSION = 1
_NUMBERS = (
    "row", "group", "reward", "true_reward", "corrupted", "score", "anomalous", "source", "weight",
)  # fmt: skip
_TEXTS = ("prompt", "response")
# More digits are no step that anybody took.
_STEP = re.compile(r"step-([0-9]{1,15})", re.ASCII)
_NOTED = 20


def read_run(folder: Path) -> Run:
    """Reads a run folder of schema version 1; prompts, responses and details stay in their files.

    A truncated last line of a .jsonl file and files that are not there yet are normal: what is left out stands in
    `Run.notes`.

    Raises:
        RunFolderError: not a run folder, another schema version, or a part that no kill explains; the message names it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise RunFolderError(f"run folder: expected a folder, got {folder}")
    notes: list[str] = []
    config, config_text = read_yaml(folder / "config.yaml")
    versions = read_object(folder / "versions.json")
    if whole(versions.get("schema_version")) != SCHEMA_VERSION:
        raise RunFolderError(
            f"schema_version: expected {SCHEMA_VERSION}, got {told(versions.get('schema_version'))} "
            f"in {folder / 'versions.json'}"
        )
    return Run(
        folder=folder,
        config=without_secrets(config),
        config_text=masked_yaml(config_text),
        versions=versions,
        metrics=_metrics(folder / "metrics.jsonl", notes),
        rollouts=tuple(_rollouts(folder / "rollouts", notes)),
        details=dict(_step_files(folder / "details", ".safetensors")),
        evaluations=tuple(parse_evaluation(line, where) for line, where in _lines(folder / "evaluation.jsonl", notes)),
        finished=_finished(folder / "summary.json", notes),
        notes=tuple(notes),
    )


def read_texts(rollouts: RolloutStep, rows: Iterable[int]) -> dict[int, tuple[str, str]]:
    """Prompt and response of the rows named (values of `rollouts.row`); rows that are not there are left out."""
    wanted = set(rows)
    table = read_columns(rollouts.path, _TEXTS)
    prompts, responses = (texts(table, name) for name in _TEXTS)
    return {
        row: (decoded(prompts[at].as_py()), decoded(responses[at].as_py()))
        for at, row in enumerate(rollouts.row.tolist())
        if row in wanted
    }


def read_details(path: Path) -> Details:
    """Reads one details file.

    Raises:
        RunFolderError: it is truncated, lacks a tensor, or its tensors do not fit one another.
    """
    if not present(path):
        raise RunFolderError(f"details: expected a file, got none at {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            found = _details(file, _step_of(path))
    except RunFolderError:
        raise
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise RunFolderError(
            f"details: expected a whole file of schema {SCHEMA_VERSION}, got {shown(error)} in {path}"
        ) from error
    wrong = _misfit(found)
    if wrong:
        raise RunFolderError(f"details: expected tensors that fit one another, got {wrong} in {path}")
    return found


def _details(file: Any, step: int) -> Details:
    return Details(
        step=step,
        winner=_tensor(file, "pairs.winner", np.int64),
        loser=_tensor(file, "pairs.loser", np.int64),
        raw_cosine=_tensor(file, "pairs.raw_cosine", np.float64),
        projected_cosine=_tensor(file, "pairs.projected_cosine", np.float64),
        density=_density(file, file.metadata() or {}) if "density.grid" in set(file.keys()) else None,
        plane_pairs=_tensor(file, "plane_pairs", np.int64),
        raw_plane=_tensor(file, "raw_plane", np.float64),
        projected_plane=_tensor(file, "projected_plane", np.float64),
    )


def _tensor(file: Any, name: str, dtype: type) -> Any:
    values = file.get_tensor(name)
    if values.dtype.kind not in ("iu" if dtype is np.int64 else "iuf"):
        raise ValueError(f"{name} of type {values.dtype}")
    found = values.astype(dtype)
    if not np.isfinite(found).all():
        raise ValueError(f"{name} with values that are not finite")
    return found


def _density(file: Any, metadata: Mapping[str, str]) -> Density:
    numbers = parsed_json(metadata["density"])
    if not isinstance(numbers, dict):
        raise TypeError(f"density of {type(numbers).__name__}")
    found = {name: numbers.get(name) for name in ("peak", "mode", "alpha", "threshold")}
    wrong = [name for name, value in found.items() if value is not None and number(value) is None]
    if wrong:
        raise ValueError(f"density without a number for {wrong[0]}")
    return Density(
        grid=_tensor(file, "density.grid", np.float64),
        density=_tensor(file, "density.density", np.float64),
        **{name: float("nan") if value is None else float(value) for name, value in found.items()},
    )


def _misfit(details: Details) -> str:
    """What does not fit in shape; empty where all does."""
    pairs, sample = details.winner.shape, len(details.plane_pairs) if details.plane_pairs.ndim == 1 else -1
    shapes = {
        "pairs.loser": (details.loser, pairs),
        "pairs.raw_cosine": (details.raw_cosine, pairs),
        "pairs.projected_cosine": (details.projected_cosine, pairs),
        "raw_plane": (details.raw_plane, (sample, 2)),
        "projected_plane": (details.projected_plane, (sample, 2)),
    }
    if details.density is not None:
        shapes["density.density"] = (details.density.density, details.density.grid.shape)
    for name, (values, shape) in shapes.items():
        if values.shape != shape or not 1 <= len(shape) <= 2:
            return f"{name} of shape {list(values.shape)} beside {list(shape)}"
    return "" if len(pairs) == 1 else f"pairs.winner of shape {list(pairs)}"


def _rollouts(folder: Path, notes: list[str]) -> Iterable[RolloutStep]:
    if not present(folder, "folder"):
        return
    for step, path in _step_files(folder, ".parquet"):
        try:
            schema = schema_of(path, (*_NUMBERS, *_TEXTS))
            table = read_columns(path, _NUMBERS)
        except CutOffError as error:
            notes.append(f"rollouts/{path.name} could not be read and is left out: {error}")
            continue
        require_texts(schema, _TEXTS, path)
        yield _rollout_step(step, path, table, notes)


def _rollout_step(step: int, path: Path, table: Table, notes: list[str]) -> RolloutStep:
    found = {
        name: floats(table, name, path, notes)
        for name in ("reward", "true_reward", "corrupted", "score", "anomalous", "weight")
    }
    reward, true_reward, corrupted = found["reward"], found["true_reward"], found["corrupted"]
    derived = ~np.isnan(true_reward) & ~np.isnan(reward)
    flipped = np.where(derived, true_reward != reward, corrupted == 1)
    row = ints(table, "row", path)
    if len(np.unique(row)) < len(row):
        raise RunFolderError(f"row: expected every row once, got one twice in {path}")
    return RolloutStep(
        step=step,
        path=path,
        row=row,
        group=ints(table, "group", path),
        reward=reward,
        true_reward=true_reward,
        flipped=flipped,
        flip_known=derived | ~np.isnan(corrupted),
        score=found["score"],
        anomalous=found["anomalous"] == 1,
        source=ints(table, "source", path, null=-1),
        weight=found["weight"],
    )


def _step_files(folder: Path, suffix: str) -> list[tuple[int, Path]]:
    """Files step-<number><suffix> by rising step; a writer's temporary files have other names."""
    found = [path for path in folder.glob(f"step-*{suffix}") if _STEP.fullmatch(path.name.removesuffix(suffix))]
    return sorted((_step_of(path), path) for path in found)


def _step_of(path: Path) -> int:
    match = _STEP.match(path.name)
    if match is None:
        raise RunFolderError(f"file name: expected step-<number>, got {path.name} in {path.parent}")
    return int(match.group(1))


def _metrics(path: Path, notes: list[str]) -> tuple[MetricRow, ...]:
    rows = []
    for line, where in _lines(path, notes):
        row = parse_metrics(line, where)
        rows.append(row)
    left_out = [(row, name) for row in rows for name in row.left_out]
    for row, name in left_out[:_NOTED]:
        notes.append(
            f"{path.name}: {shown(name)} of stage {shown(row.stage)}, step {row.step} is no number up to 1e100 and is "
            "left out"
        )
    if len(left_out) > _NOTED:
        notes.append(f"{path.name}: {len(left_out) - _NOTED} further values that are no numbers are left out")
    return tuple(rows)


def _lines(path: Path, notes: list[str]) -> Iterable[tuple[dict[str, Any], str]]:
    """The objects of a .jsonl file with where each stands; a broken last line is a kill's work and is left out."""
    if not present(path):
        notes.append(f"{path.name} is not there (yet)")
        return
    lines = [(at, line) for at, line in enumerate(path.read_bytes().split(b"\n"), 1) if line.strip()]
    if not lines:
        notes.append(f"{path.name} is empty")
    for at, line in lines:
        where = f"line {at} of {path}"
        try:
            value = parsed_json(line)
        except ValueError as error:
            if at == lines[-1][0]:
                notes.append(f"{path.name}: the last line is incomplete and is left out")
                return
            raise RunFolderError(f"{path.name}: expected JSON, got {shown(error)} in {where}") from error
        if not isinstance(value, dict):
            raise RunFolderError(f"{path.name}: expected an object, got {type(value).__name__} in {where}")
        yield value, where


def _finished(path: Path, notes: list[str]) -> bool:
    """Whether the run came to its end; its summary is not shown, but a broken one is told."""
    if not present(path):
        return False
    try:
        read_object(path)
    except RunFolderError as error:
        notes.append(f"{path.name} could not be read: {error}")
    return True
