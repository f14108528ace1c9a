"""A run folder in memory: what the figures and tables read, free of torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoalign.lab.store.records import Evaluation, MetricRow

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Series:
    """A quantity over steps: rising steps without repeats, and its finite values."""

    steps: Ints
    values: Floats

    def __len__(self) -> int:
        return len(self.steps)


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
        source: row whose content stands there; -1 where nothing does.
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
        """[B] True where another row's content stands."""
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


@dataclass(frozen=True, eq=False)
class Run:
    """A run folder as it stands, finished or not.

    Attributes:
        folder: where it is.
        config: the resolved settings.
        config_text: the file they come from, as it stands.
        versions: contents of versions.json.
        metrics: rows of metrics.jsonl.
        rollouts: readable rollout files, by rising step.
        details: detail files by rising step; `read_details` reads one.
        evaluations: rows of evaluation.jsonl.
        finished: whether summary.json stands: the run came to its end.
        notes: what was left out on reading and why, for the reader of the page.
    """

    folder: Path
    config: Mapping[str, Any]
    config_text: str
    versions: Mapping[str, Any]
    metrics: tuple[MetricRow, ...]
    rollouts: tuple[RolloutStep, ...]
    details: Mapping[int, Path]
    evaluations: tuple[Evaluation, ...]
    finished: bool
    notes: tuple[str, ...]

    def series(self, *keys: str, stage: str = "rl") -> Series:
        """The first of `keys` that has a number in any row of `stage`; of rows with equal steps the last one counts."""
        for key in keys:
            points = {
                row.step: row.values[key]
                for row in self.metrics
                if row.stage == stage and np.isfinite(row.values.get(key, np.nan))
            }
            if points:
                steps = sorted(points)
                return Series(np.array(steps, dtype=np.int64), np.array([points[step] for step in steps]))
        return Series(np.empty(0, dtype=np.int64), np.empty(0))

    @property
    def curator(self) -> Mapping[str, Any]:
        """The `curator` section of the config; empty where there is none."""
        section = self.config.get("curator")
        return section if isinstance(section, Mapping) else {}

    @property
    def curator_name(self) -> str:
        return str(self.curator.get("type", "unknown"))
