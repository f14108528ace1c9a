"""The rollouts of a run, a parquet file for each generation, and now and then the details of a curation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet
import safetensors.numpy
from pyarrow import Table
from safetensors import SafetensorError, safe_open

from geoalign.errors import RunFolderError
from geoalign.lab.store.columns import (
    Bools,
    CutOffError,
    Floats,
    Ints,
    decoded,
    floats,
    ints,
    read_columns,
    require_texts,
    schema_of,
    texts,
)
from geoalign.lab.store.files import write_atomically
from geoalign.lab.store.json_files import finite, present
from geoalign.lab.store.strict_json import strict_json
from geoalign.lab.store.values import number
from geoalign.shown import brief

SCHEMA_VERSION = 1
ROLLOUT_SCHEMA = pyarrow.schema(
    [
        ("step", pyarrow.int64()),
        ("row", pyarrow.int64()),
        ("group", pyarrow.int64()),
        ("sample", pyarrow.int64()),
        ("prompt", pyarrow.string()),
        ("response", pyarrow.string()),
        ("reward", pyarrow.float64()),
        ("true_reward", pyarrow.float64()),
        ("corrupted", pyarrow.bool_()),
        ("score", pyarrow.float64()),
        ("anomalous", pyarrow.bool_()),
        ("source", pyarrow.int64()),
        ("weight", pyarrow.float64()),
        ("tokens", pyarrow.int64()),
    ]
)


_NUMBERS = (
    "row", "group", "reward", "true_reward", "corrupted", "score", "anomalous", "source", "weight",
)  # fmt: skip
_TEXTS = ("prompt", "response")
ROLLOUTS, DETAILS = ".parquet", ".safetensors"
# More digits are no step that anybody took.
_STEP = re.compile(r"step-([0-9]{1,15})", re.ASCII)


@dataclass(frozen=True, eq=False)
class RolloutStep:
    """The rollouts of one step, texts left in the file. All arrays are [B] in the order of the file.

    Attributes:
        step: the step.
        path: the parquet file; `read_texts` gets prompts and responses from it.
        row: global row in the generation batch.
        group: group id.
        reward: reward as the curator saw it; NaN where the row could not be scored.
        true_reward: reward before corruption; NaN where not known.
        flipped: True where the reward was corrupted; meaningful only where `flip_known`.
        flip_known: True where the file says whether the reward was corrupted.
        score: the curator's suspicion; NaN where unscored.
        anomalous: what the curator flagged.
        source: row whose content is there; -1 where it is left out.
        weight: factor on the advantage.
    """

    step: int
    path: Path
    row: Ints
    group: Ints
    reward: Floats
    true_reward: Floats
    flipped: Bools
    flip_known: Bools
    score: Floats
    anomalous: Bools
    source: Ints
    weight: Floats

    def __len__(self) -> int:
        return len(self.row)

    @property
    def scored(self) -> Bools:
        return ~np.isnan(self.score)

    @property
    def replaced(self) -> Bools:
        """[B] True where the row has another row's content."""
        return (self.source != self.row) & (self.source >= 0)


@dataclass(frozen=True, eq=False)
class Density:
    """The density of the scores on a grid; `threshold` is NaN where no score was anomalous."""

    grid: Floats
    density: Floats
    peak: float
    mode: float
    alpha: float
    threshold: float


@dataclass(frozen=True, eq=False)
class Details:
    """What one call's geometry looked like.

    `winner`, `loser`, `raw_cosine` and `projected_cosine` are [P], one per pair; `raw_plane` and `projected_plane` are
    [S, 2], row i being pair `plane_pairs[i]`: cosine to the prototype, widest spread across it.
    """

    step: int
    winner: Ints
    loser: Ints
    raw_cosine: Floats
    projected_cosine: Floats
    density: Density | None
    plane_pairs: Ints
    raw_plane: Floats
    projected_plane: Floats


def step_files(folder: Path, suffix: str) -> list[tuple[int, Path]]:
    """Files step-<number><suffix> by rising step; a writer's temporary files have other names."""
    paths = [path for path in folder.glob(f"step-*{suffix}") if _STEP.fullmatch(path.name.removesuffix(suffix))]
    return sorted((_step_of(path), path) for path in paths)


def _step_of(path: Path) -> int:
    match = _STEP.match(path.name)
    if match is None:
        raise RunFolderError(f"file name: expected step-<number>, got {path.name} in {path.parent}")
    return int(match.group(1))


def write_rollouts(path: Path, columns: Mapping[str, Any]) -> None:
    """Writes the rollouts of one generation in the columns of `ROLLOUT_SCHEMA`; the file is whole or absent."""
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(dict(columns), schema=ROLLOUT_SCHEMA), sink, compression="zstd")
    write_atomically(path, sink.getvalue().to_pybytes())


def write_details(path: Path, arrays: Mapping[str, Any], density: Mapping[str, float] | None) -> None:
    """Writes a curation's arrays as a safetensors file; the numbers of the density, where there is one, are its
    metadata."""
    metadata = None if density is None else {"density": json.dumps(finite(density))}
    write_atomically(path, safetensors.numpy.save(dict(arrays), metadata=metadata))


def read_rollouts(folder: Path) -> Iterator[RolloutStep]:
    """The rollouts of a run by rising step, one file at a time.

    Raises:
        CutOffError: a file is no whole parquet file.
        RunFolderError: a column is missing or holds something else.
    """
    for step, path in step_files(folder, ROLLOUTS):
        yield read_rollout_step(step, path, [])


def whole_rollouts(folder: Path, notes: list[str]) -> Iterator[RolloutStep]:
    """As `read_rollouts`, but files that a kill cut off are left out and noted."""
    if not present(folder, "folder"):
        return
    for step, path in step_files(folder, ROLLOUTS):
        try:
            rollouts = read_rollout_step(step, path, notes)
        except CutOffError as error:
            notes.append(f"{folder.name}/{path.name} could not be read and is left out: {error}")
            continue
        yield rollouts


def read_rollout_step(step: int, path: Path, notes: list[str]) -> RolloutStep:
    """One file of rollouts; values that are left out are noted.

    Raises:
        CutOffError, RunFolderError: as `read_rollouts`.
    """
    schema = schema_of(path, (*_NUMBERS, *_TEXTS))
    table = read_columns(path, _NUMBERS)
    require_texts(schema, _TEXTS, path)
    return _rollout_step(step, path, table, notes)


def _rollout_step(step: int, path: Path, table: Table, notes: list[str]) -> RolloutStep:
    columns = {
        name: floats(table, name, path, notes)
        for name in ("reward", "true_reward", "corrupted", "score", "anomalous", "weight")
    }
    reward, true_reward, corrupted = columns["reward"], columns["true_reward"], columns["corrupted"]
    derived = ~np.isnan(true_reward) & ~np.isnan(reward)
    flipped = np.where(np.isnan(corrupted), derived & (true_reward != reward), corrupted == 1)
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
        score=columns["score"],
        anomalous=columns["anomalous"] == 1,
        source=ints(table, "source", path, null=-1),
        weight=columns["weight"],
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
            details = _details(file, _step_of(path))
    except RunFolderError:
        raise
    except (SafetensorError, OSError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise RunFolderError(
            f"details: expected a whole file of schema {SCHEMA_VERSION}, got {brief(error, 120)} in {path}"
        ) from error
    wrong = _misfit(details)
    if wrong:
        raise RunFolderError(f"details: expected tensors that fit one another, got {wrong} in {path}")
    return details


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
    converted = values.astype(dtype)
    if not np.isfinite(converted).all():
        raise ValueError(f"{name} with values that are not finite")
    return converted


def _density(file: Any, metadata: Mapping[str, str]) -> Density:
    numbers = strict_json(metadata["density"])
    if not isinstance(numbers, dict):
        raise TypeError(f"density of {type(numbers).__name__}")
    checked = {name: numbers.get(name) for name in ("peak", "mode", "alpha", "threshold")}
    wrong = [name for name, value in checked.items() if value is not None and number(value) is None]
    if wrong:
        raise ValueError(f"density without a number for {wrong[0]}")
    return Density(
        grid=_tensor(file, "density.grid", np.float64),
        density=_tensor(file, "density.density", np.float64),
        **{name: float("nan") if value is None else float(value) for name, value in checked.items()},
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
