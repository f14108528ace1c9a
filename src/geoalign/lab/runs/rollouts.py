"""The rollouts of a run, a parquet file for each generation, and now and then the details of a curation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import safetensors.numpy
from safetensors import safe_open

from geoalign.files.columns import Floats, floats, ints, read_columns, write_table
from geoalign.files.durable import write_atomically
from geoalign.files.json_files import finite, float_or_nan
from geoalign.files.rollout_step import Density, RolloutStep
from geoalign.lab.runs.folder import ROLLOUTS, step_files

ROLLOUT_SCHEMA = pyarrow.schema(
    {
        **dict.fromkeys(("step", "row", "group", "sample"), pyarrow.int64()),
        **dict.fromkeys(("prompt", "response"), pyarrow.string()),
        **dict.fromkeys(("reward", "true_reward"), pyarrow.float64()), "corrupted": pyarrow.bool_(),
        "score": pyarrow.float64(), "anomalous": pyarrow.bool_(), "source": pyarrow.int64(),
        "weight": pyarrow.float64(), "tokens": pyarrow.int64(),
    }
)  # fmt: skip
_NUMBERS = ("row", "group", "source", "reward", "true_reward", "corrupted", "score", "anomalous", "weight")
_TEXTS = ("prompt", "response")


@dataclass(frozen=True, eq=False)
class Details:
    """What one call's geometry looked like: cosines to the prototype [P], one per pair, and the scores' density."""

    step: int
    raw_cosine: Floats
    projected_cosine: Floats
    density: Density | None


def write_rollouts(path: Path, columns: Mapping[str, Any]) -> None:
    """Writes the rollouts of one generation in the columns of `ROLLOUT_SCHEMA`; the file is whole or absent."""
    write_table(path, pyarrow.table(dict(columns), schema=ROLLOUT_SCHEMA))


def write_details(path: Path, arrays: Mapping[str, Any], density: Mapping[str, float] | None) -> None:
    """Writes a curation's arrays as a safetensors file; the numbers of the density, if any, are its metadata."""
    metadata = None if density is None else {"density": json.dumps(finite(density))}
    write_atomically(path, safetensors.numpy.save(dict(arrays), metadata=metadata))


def read_rollouts(folder: Path) -> Iterator[RolloutStep]:
    """The rollouts of a run by rising step, one file at a time."""
    for step, path in step_files(folder, ROLLOUTS):
        yield read_rollout_file(step, path)


def read_rollout_file(step: int, path: Path) -> RolloutStep:
    """The rollouts of one generation; prompts and responses stay in the file."""
    table = read_columns(path, _NUMBERS)
    reward = floats(table, "reward")
    true_reward = floats(table, "true_reward")
    corrupted = floats(table, "corrupted")
    both_known = ~np.isnan(true_reward) & ~np.isnan(reward)
    return RolloutStep(
        step=step,
        path=path,
        row=ints(table, "row"),
        group=ints(table, "group"),
        reward=reward,
        true_reward=true_reward,
        # Where no column says whether a reward was corrupted, the two rewards tell.
        flipped=np.where(np.isnan(corrupted), both_known & (true_reward != reward), corrupted == 1),
        flip_known=both_known | ~np.isnan(corrupted),
        score=floats(table, "score"),
        anomalous=floats(table, "anomalous") == 1,
        source=ints(table, "source"),
        weight=floats(table, "weight"),
    )


def read_texts(rollouts: RolloutStep, rows: Iterable[int]) -> dict[int, tuple[str, str]]:
    """Prompt and response of the rows named (values of `rollouts.row`); rows that are not there are left out."""
    wanted = set(rows)
    table = read_columns(rollouts.path, _TEXTS)
    texts = zip(*(table[name].to_pylist() for name in _TEXTS), strict=True)
    return {row: text for row, text in zip(rollouts.row.tolist(), texts, strict=True) if row in wanted}


def read_details(path: Path) -> Details:
    """The details of a curation from a file that `write_details` wrote."""
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name).astype(np.float64) for name in file.keys()}  # noqa: SIM118 - no mapping
        numbers = json.loads((file.metadata() or {}).get("density", "null"))
    density = None
    if numbers is not None:
        density = Density(
            grid=tensors["density.grid"],
            density=tensors["density.density"],
            **{name: float_or_nan(value) for name, value in numbers.items()},
        )
    return Details(
        step=int(path.stem.removeprefix("step-")),
        raw_cosine=tensors["pairs.raw_cosine"],
        projected_cosine=tensors["pairs.projected_cosine"],
        density=density,
    )
