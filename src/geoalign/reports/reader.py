"""Reading a run folder: finished, still growing, or cut off by a kill."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import yaml
from safetensors import SafetensorError, safe_open

from geoalign.errors import RunFolderError
from geoalign.masking import masked_yaml, without_secrets
from geoalign.reports.evaluations import parse_evaluation
from geoalign.reports.run import Density, Details, Floats, Ints, MetricRow, RolloutStep, Run

SCHEMA_VERSION = 1
_NUMBERS = (
    "row", "group", "reward", "true_reward", "corrupted", "score", "anomalous", "source", "weight",
)  # fmt: skip
_STEP = re.compile(r"step-(\d+)")


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
    config_text = masked_yaml(_text(folder / "config.yaml"))
    versions = _mapping(_parsed(folder / "versions.json", json.loads), folder / "versions.json")
    if versions.get("schema_version") != SCHEMA_VERSION:
        raise RunFolderError(
            f"schema_version: expected {SCHEMA_VERSION}, got {versions.get('schema_version')!r} "
            f"in {folder / 'versions.json'}"
        )
    return Run(
        folder=folder,
        config=without_secrets(_mapping(_parsed(folder / "config.yaml", yaml.safe_load), folder / "config.yaml")),
        config_text=config_text,
        versions=versions,
        metrics=tuple(_metric_row(line, where) for line, where in _lines(folder / "metrics.jsonl", notes)),
        rollouts=tuple(_rollouts(folder / "rollouts", notes)),
        details=dict(_step_files(folder / "details", ".safetensors")),
        evaluations=tuple(parse_evaluation(line, where) for line, where in _lines(folder / "evaluation.jsonl", notes)),
        finished=(folder / "summary.json").is_file(),
        notes=tuple(notes),
    )


def read_texts(rollouts: RolloutStep, rows: Iterable[int]) -> dict[int, tuple[str, str]]:
    """Prompt and response of the rows named (values of `rollouts.row`); rows that are not there are left out."""
    wanted = set(rows)
    table = pyarrow.parquet.read_table(rollouts.path, columns=["prompt", "response"])
    found = {}
    for at, row in enumerate(rollouts.row.tolist()):
        if row in wanted:
            found[row] = (table["prompt"][at].as_py() or "", table["response"][at].as_py() or "")
    return found


def read_details(path: Path) -> Details:
    """Reads one details file.

    Raises:
        RunFolderError: it is truncated, or lacks a tensor.
    """
    try:
        with safe_open(path, framework="numpy") as file:
            names = set(file.keys())
            metadata = file.metadata() or {}
            return Details(
                step=_step_of(path),
                winner=_tensor(file, "pairs.winner", np.int64),
                loser=_tensor(file, "pairs.loser", np.int64),
                raw_cosine=_tensor(file, "pairs.raw_cosine", np.float64),
                projected_cosine=_tensor(file, "pairs.projected_cosine", np.float64),
                density=_density(file, metadata) if "density.grid" in names else None,
                plane_pairs=_tensor(file, "plane_pairs", np.int64),
                raw_plane=_tensor(file, "raw_plane", np.float64),
                projected_plane=_tensor(file, "projected_plane", np.float64),
            )
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise RunFolderError(
            f"details: expected a whole file of schema {SCHEMA_VERSION}, got {error} in {path}"
        ) from error


def _tensor(file: Any, name: str, dtype: type) -> Any:
    return file.get_tensor(name).astype(dtype)


def _density(file: Any, metadata: Mapping[str, str]) -> Density:
    numbers = json.loads(metadata["density"])
    return Density(
        grid=_tensor(file, "density.grid", np.float64),
        density=_tensor(file, "density.density", np.float64),
        **{name: _number(numbers.get(name)) for name in ("peak", "mode", "alpha", "threshold")},
    )


def _rollouts(folder: Path, notes: list[str]) -> Iterable[RolloutStep]:
    for step, path in _step_files(folder, ".parquet"):
        try:
            present = pyarrow.parquet.read_schema(path).names
            missing = [name for name in (*_NUMBERS, "prompt", "response") if name not in present]
            if missing:
                raise RunFolderError(f"columns: expected {', '.join(missing)}, got {', '.join(present)} in {path}")
            table = pyarrow.parquet.read_table(path, columns=list(_NUMBERS))
        except (pyarrow.ArrowException, OSError) as error:
            notes.append(f"rollouts/{path.name} could not be read and is left out: {error}")
            continue
        yield _rollout_step(step, path, table)


def _rollout_step(step: int, path: Path, table: pyarrow.Table) -> RolloutStep:
    reward, true_reward = _floats(table, "reward"), _floats(table, "true_reward")
    corrupted = _floats(table, "corrupted")
    derived = ~np.isnan(true_reward) & ~np.isnan(reward)
    flipped = np.where(derived, true_reward != reward, corrupted == 1)
    return RolloutStep(
        step=step,
        path=path,
        row=_ints(table, "row"),
        group=_ints(table, "group"),
        reward=reward,
        true_reward=true_reward,
        flipped=flipped,
        flip_known=derived | ~np.isnan(corrupted),
        score=_floats(table, "score"),
        anomalous=_floats(table, "anomalous") == 1,
        source=_ints(table, "source"),
        weight=_floats(table, "weight"),
    )


def _floats(table: pyarrow.Table, name: str) -> Floats:
    """A column of numbers or booleans, nulls as NaN."""
    column = table[name].cast(pyarrow.float64())
    return column.fill_null(float("nan")).to_numpy().astype(np.float64)


def _ints(table: pyarrow.Table, name: str) -> Ints:
    """A column of whole numbers, nulls as -1."""
    return table[name].cast(pyarrow.int64()).fill_null(-1).to_numpy().astype(np.int64)


def _step_files(folder: Path, suffix: str) -> list[tuple[int, Path]]:
    """Files step-<number><suffix> by rising step; a writer's temporary files have other names."""
    found = [path for path in folder.glob(f"step-*{suffix}") if _STEP.fullmatch(path.name.removesuffix(suffix))]
    return sorted((_step_of(path), path) for path in found)


def _step_of(path: Path) -> int:
    match = _STEP.match(path.name)
    if match is None:
        raise RunFolderError(f"file name: expected step-<number>, got {path.name} in {path.parent}")
    return int(match.group(1))


def _lines(path: Path, notes: list[str]) -> Iterable[tuple[dict[str, Any], str]]:
    """The objects of a .jsonl file with where each stands; a broken last line is a kill's work and is left out."""
    if not path.is_file():
        notes.append(f"{path.name} is not there (yet)")
        return
    lines = [(number, line) for number, line in enumerate(path.read_bytes().split(b"\n"), 1) if line.strip()]
    for number, line in lines:
        where = f"line {number} of {path}"
        try:
            value = json.loads(line)
        except ValueError as error:
            if number == lines[-1][0]:
                notes.append(f"{path.name}: the last line is incomplete and is left out")
                return
            raise RunFolderError(f"{path.name}: expected JSON, got {error} in {where}") from error
        yield _mapping(value, where), where


def _metric_row(line: Mapping[str, Any], where: str) -> MetricRow:
    try:
        stage, step = str(line["stage"]), int(line["step"])
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(f"metrics: expected 'stage' and a whole 'step', got {sorted(line)} in {where}") from error
    numbers = (float, int, type(None))
    values = {
        key: _number(value)
        for key, value in line.items()
        if key not in ("stage", "step") and isinstance(value, numbers) and not isinstance(value, bool)
    }
    return MetricRow(stage=stage, step=step, values=values)


def _number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{path.name}: expected a readable file, got {error}") from error


def _parsed(path: Path, parse: Any) -> Any:
    try:
        return parse(_text(path))
    except (ValueError, yaml.YAMLError) as error:
        raise RunFolderError(f"{path.name}: expected a whole file, got {error} in {path}") from error


def _mapping(value: Any, where: Path | str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RunFolderError(f"{where}: expected an object, got {type(value).__name__}")
    return value
