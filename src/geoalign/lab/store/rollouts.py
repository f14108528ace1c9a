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

from geoalign.lab.store.columns import Bools, Floats, Ints, floats, ints, read_columns, write_table
from geoalign.lab.store.files import write_atomically
from geoalign.lab.store.json_files import finite, float_or_nan
from geoalign.lab.store.run_folder import ROLLOUTS, step_files

ROLLOUT_SCHEMA = pyarrow.schema(
    {
        **dict.fromkeys(("step", "row", "group", "sample"), pyarrow.int64()),
        **dict.fromkeys(("prompt", "response"), pyarrow.string()),
        **dict.fromkeys(("reward", "true_reward"), pyarrow.float64()), "corrupted": pyarrow.bool_(),
        "score": pyarrow.float64(), "anomalous": pyarrow.bool_(), "source": pyarrow.int64(),
        "weight": pyarrow.float64(), "tokens": pyarrow.int64(),
    }
)  # fmt: skip
_FLOATS = ("reward", "true_reward", "corrupted", "score", "anomalous", "weight")
_NUMBERS = ("row", "group", "source", *_FLOATS)
_TEXTS = ("prompt", "response")


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


def write_rollouts(path: Path, columns: Mapping[str, Any]) -> None:
    """Writes the rollouts of one generation in the columns of `ROLLOUT_SCHEMA`; the file is whole or absent."""
    write_table(path, pyarrow.table(dict(columns), schema=ROLLOUT_SCHEMA))


def write_details(path: Path, arrays: Mapping[str, Any], density: Mapping[str, float] | None) -> None:
    """Writes a curation's arrays as a safetensors file; the numbers of the density, where there is one, are its
    metadata."""
    metadata = None if density is None else {"density": json.dumps(finite(density))}
    write_atomically(path, safetensors.numpy.save(dict(arrays), metadata=metadata))


def read_rollouts(folder: Path, notes: list[str] | None = None) -> Iterator[RolloutStep]:
    """The rollouts of a run by rising step, one file at a time; values that are left out are noted."""
    for step, path in step_files(folder, ROLLOUTS):
        yield _rollout_step(step, path, [] if notes is None else notes)


def _rollout_step(step: int, path: Path, notes: list[str]) -> RolloutStep:
    table = read_columns(path, _NUMBERS)
    columns = {name: floats(table, name, path, notes) for name in _FLOATS}
    reward, true_reward, corrupted = columns["reward"], columns["true_reward"], columns["corrupted"]
    derived = ~np.isnan(true_reward) & ~np.isnan(reward)
    return RolloutStep(
        step=step,
        path=path,
        row=ints(table, "row"),
        group=ints(table, "group"),
        reward=reward,
        true_reward=true_reward,
        flipped=np.where(np.isnan(corrupted), derived & (true_reward != reward), corrupted == 1),
        flip_known=derived | ~np.isnan(corrupted),
        score=columns["score"],
        anomalous=columns["anomalous"] == 1,
        source=ints(table, "source"),
        weight=columns["weight"],
    )


def read_texts(rollouts: RolloutStep, rows: Iterable[int]) -> dict[int, tuple[str, str]]:
    """Prompt and response of the rows named (values of `rollouts.row`); rows that are not there are left out."""
    wanted = set(rows)
    table = read_columns(rollouts.path, _TEXTS)
    texts = zip(*(table[name].to_pylist() for name in _TEXTS), strict=True)
    return {row: text for row, text in zip(rollouts.row.tolist(), texts, strict=True) if row in wanted}


def read_details(path: Path) -> Details:
    """Reads one details file."""
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        numbers = json.loads((file.metadata() or {}).get("density", "null"))
    density = None
    if numbers is not None:
        density = Density(
            grid=tensors["density.grid"].astype(np.float64),
            density=tensors["density.density"].astype(np.float64),
            **{name: float_or_nan(numbers[name]) for name in ("peak", "mode", "alpha", "threshold")},
        )
    return Details(
        step=int(path.stem.removeprefix("step-")),
        density=density,
        **{name: tensors[f"pairs.{name}"].astype(np.int64) for name in ("winner", "loser")},
        **{name: tensors[f"pairs.{name}"].astype(np.float64) for name in ("raw_cosine", "projected_cosine")},
        plane_pairs=tensors["plane_pairs"].astype(np.int64),
        **{name: tensors[name].astype(np.float64) for name in ("raw_plane", "projected_plane")},
    )
