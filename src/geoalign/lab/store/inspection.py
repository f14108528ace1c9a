"""Reading what `geoalign curate` left in a folder: every rollout's facts in memory, its texts left in the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from geoalign.lab.store.columns import Bools, Floats, Ints, floats, ints, read_columns, texts
from geoalign.lab.store.curation import (
    DENSITIES,
    DENSITIES_FILE,
    PAIRS,
    PAIRS_FILE,
    SCORES,
    SCORES_FILE,
    SUMMARY_FILE,
    TEXTS,
)
from geoalign.lab.store.json_files import read_json

_WHOLE = ("row", "sample", "characters", "source", "group_pairs")
_NUMBERS = (
    "reward", "true_reward", "correct", "truncated", "tokens", "score", "weight", "new_reward", "probability_wrong",
    "denoised_reward",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Scored:
    """The rollouts of a folder, texts left in the file. All arrays are [B] in the order of the input.

    Attributes:
        step: number of the dump, or the step it names.
        group: number of the rollout's group, 0 and up by first appearance over all steps.
        group_id: the group's id as the file has it, unique within its step.
        row: row in its input file; `sample`: index among the responses of its prompt.
        reward: NaN where the rollout could not be scored; `true_reward`, `new_reward`, `score`: NaN where unknown.
        probability_wrong: of the reward; `denoised_reward`: the one in its place; NaN where none is estimated.
        correct: 1, 0, or NaN where the input does not say; `truncated` likewise.
        tokens: NaN where unknown.
        anomalous: what was flagged.
        source: the row whose content is here afterwards; its own number where untouched, -1 where it is left out.
        group_pairs: pairs of the rollout's group.
        file, identity, answer, final_answer: columns of text as bytes; the answers (gold, and the response's) may be
            null.
    """

    step: Ints
    group: Ints
    group_id: Ints
    row: Ints
    sample: Ints
    reward: Floats
    true_reward: Floats
    correct: Floats
    truncated: Floats
    characters: Ints
    tokens: Floats
    score: Floats
    anomalous: Bools
    source: Ints
    weight: Floats
    new_reward: Floats
    probability_wrong: Floats
    denoised_reward: Floats
    group_pairs: Ints
    file: pyarrow.ChunkedArray
    identity: pyarrow.ChunkedArray
    answer: pyarrow.ChunkedArray
    final_answer: pyarrow.ChunkedArray

    def __len__(self) -> int:
        return len(self.step)

    @property
    def first(self) -> Ints:
        """[G] the first row of every group."""
        return np.unique(self.group, return_index=True)[1]


@dataclass(frozen=True, eq=False)
class PairTable:
    """The saved pairs, [P] each: rows of the better and the worse rollout, deviation, cosines to the prototype."""

    step: Ints
    better: Ints
    worse: Ints
    deviation: Floats
    raw_cosine: Floats
    projected_cosine: Floats

    def __len__(self) -> int:
        return len(self.step)


@dataclass(frozen=True, eq=False)
class DensityTable:
    """The densities' grids of all steps, [N] each; `threshold` is NaN where nothing was anomalous."""

    step: Ints
    score: Floats
    density: Floats
    threshold: Floats
    peak: Floats


@dataclass(frozen=True, eq=False)
class Inspection:
    """A folder of `geoalign curate`. `pairs` and `densities` are None for curators that have none; `notes` say what was
    left out on reading the tables."""

    folder: Path
    scored: Scored
    pairs: PairTable | None
    densities: DensityTable | None
    redacted: bool
    summary: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def curator(self) -> Mapping[str, Any]:
        curator = self.summary.get("curator")
        return curator if isinstance(curator, Mapping) else {}


def read_inspection(folder: Path) -> Inspection:
    """Reads the tables and the summary; prompts and responses stay in their file.

    Raises:
        RunFolderError: a file is missing or cut off, or lacks a column; the message names it.
    """
    folder = Path(folder)
    notes: list[str] = []
    scored, redacted = _scored(folder / SCORES_FILE, notes)
    return Inspection(
        folder=folder,
        scored=scored,
        pairs=_pairs(folder / PAIRS_FILE, notes),
        densities=_densities(folder / DENSITIES_FILE, notes),
        redacted=redacted,
        summary=read_json(folder / SUMMARY_FILE),
        notes=tuple(notes),
    )


def _scored(path: Path, notes: list[str]) -> tuple[Scored, bool]:
    """The rollouts, and whether their texts are not there."""
    table = read_columns(path, [name for name in SCORES.names if name not in TEXTS])
    step, group = ints(table, "step"), ints(table, "group")
    columns: dict[str, Any] = {
        **{name: ints(table, name) for name in _WHOLE},
        **{name: floats(table, name, path, notes) for name in _NUMBERS},
        **{name: texts(table, name) for name in ("file", "answer", "final_answer")},
    }
    scored = Scored(
        step=step,
        group=_numbered(step, group),
        group_id=group,
        anomalous=floats(table, "anomalous", path, notes) == 1,
        identity=texts(table, "id"),
        **columns,
    )
    return scored, not set(TEXTS) <= set(pyarrow.parquet.read_schema(path).names)


def _numbered(step: Ints, group: Ints) -> Ints:
    """[B] groups of all steps numbered by first appearance."""
    if not len(step):
        return np.empty(0, dtype=np.int64)
    _, first, member = np.unique(np.stack([step, group]), axis=1, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[member.ravel()]


def _pairs(path: Path, notes: list[str]) -> PairTable | None:
    if not path.is_file():
        return None
    table = read_columns(path, PAIRS.names)
    return PairTable(
        ints(table, "step"),
        ints(table, "better"),
        ints(table, "worse"),
        *(floats(table, name, path, notes) for name in ("deviation", "raw_cosine", "projected_cosine")),
    )


def _densities(path: Path, notes: list[str]) -> DensityTable | None:
    if not path.is_file():
        return None
    table = read_columns(path, DENSITIES.names)
    return DensityTable(
        ints(table, "step"), *(floats(table, name, path, notes) for name in ("score", "density", "threshold", "peak"))
    )
