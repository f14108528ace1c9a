"""The tables of a curated folder, written as files come: scores, pairs, densities (`reports.inspection.tables`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from geoalign.lab.curate.reading import Dump
from geoalign.lab.curate.rows import Row
from geoalign.lab.curate.steps import CuratedStep
from geoalign.lab.store.columns import whole_text
from geoalign.lab.store.curation import DENSITIES, DENSITIES_FILE, PAIRS, PAIRS_FILE, SCORES_FILE, TEXTS, scores_schema

# Rows of scores that are turned into columns at a time.
_ROWS = 4096


class TableWriter:
    """Writes the tables into a folder; a table without rows has no file, except the scores.

    Args:
        folder: where; files there are not to be looked at before `close`.
        redact: leave prompts, responses and answers out.
        pairs_per_step: pairs kept of groups without a flagged rollout.
    """

    def __init__(self, folder: Path, *, redact: bool, pairs_per_step: int) -> None:
        self._folder, self._redact, self._most = folder, redact, pairs_per_step
        self._writers: dict[str, pyarrow.parquet.ParquetWriter] = {}
        self.pairs_left_out = 0

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._writers.values():
            writer.close()

    def add(self, dump: Dump, steps: Sequence[CuratedStep], first: int) -> None:
        """Writes one file's steps; its rollouts are numbered from `first` on."""
        facts: list[dict[str, Any]] = [{}] * len(dump.rows)
        for step in steps:
            for member, values in zip(step.members, _facts(step, first), strict=True):
                facts[member] = values
            self._pairs(step, first)
            self._density(step)
        for start in range(0, len(dump.rows), _ROWS):
            part = range(start, min(start + _ROWS, len(dump.rows)))
            self._write(
                SCORES_FILE,
                scores_schema(self._redact),
                [self._score(dump, dump.rows[place], first + place) | facts[place] for place in part],
            )

    def _score(self, dump: Dump, row: Row, index: int) -> dict[str, Any]:
        values: dict[str, Any] = {
            "index": index,
            "file": whole_text(str(dump.path)),
            "row": row.row,
            "sample": row.sample,
            "id": whole_text(row.id),
            "answer": None if self._redact or row.answer is None else whole_text(row.answer),
            "reward": known(row.reward),
            "true_reward": row.true_reward,
            "correct": row.correct,
            "characters": len(row.response),
            "tokens": row.tokens,
            "truncated": row.truncated,
        }
        if not self._redact:
            values |= {name: whole_text(getattr(row, name)) for name in TEXTS}
        return values

    def _pairs(self, step: CuratedStep, first: int) -> None:
        if step.details is None:
            return
        pairs = step.details.pairs
        winner, loser = pairs.winner.cpu().numpy(), pairs.loser.cpu().numpy()
        group = np.asarray(step.groups)[winner]
        flagged = np.unique(np.asarray(step.groups)[step.curation.anomalous.cpu().numpy()])
        kept = _kept_pairs(group, np.isin(group, flagged), self._most)
        self.pairs_left_out += len(winner) - len(kept)
        index = np.asarray(step.members) + first
        columns = {
            "step": np.full(len(kept), step.step),
            "group": group[kept],
            "better": index[winner[kept]],
            "worse": index[loser[kept]],
            "deviation": _numbers(pairs.deviation)[kept],
            "raw_cosine": _numbers(pairs.raw_cosine)[kept],
            "projected_cosine": _numbers(pairs.projected_cosine)[kept],
        }
        # Where too few groups have pairs to judge by, the curator has no deviations.
        judged = ~np.isnan(columns["deviation"])
        columns = {name: values[judged] for name, values in columns.items()}
        self._write_table(PAIRS_FILE, pyarrow.table(columns, schema=PAIRS))

    def _density(self, step: CuratedStep) -> None:
        if step.details is None or step.details.density is None:
            return
        density = step.details.density
        size = len(density.grid)
        columns = {
            "step": [step.step] * size,
            "score": density.grid.tolist(),
            "density": density.density.tolist(),
            "threshold": [known(float(density.threshold))] * size,
            "peak": [float(density.peak)] * size,
        }
        self._write_table(DENSITIES_FILE, pyarrow.table(columns, schema=DENSITIES))

    def _write(self, name: str, schema: pyarrow.Schema, rows: list[dict[str, Any]]) -> None:
        self._write_table(name, pyarrow.Table.from_pylist(rows, schema=schema))

    def _write_table(self, name: str, table: pyarrow.Table) -> None:
        if name not in self._writers:
            path = self._folder / name
            self._writers[name] = pyarrow.parquet.ParquetWriter(path, table.schema, compression="zstd")
        self._writers[name].write_table(table)


def known(value: float | None) -> float | None:
    """None for NaN: what a table holds as null."""
    return None if value is None or math.isnan(value) else float(value)


def _facts(step: CuratedStep, first: int) -> list[dict[str, Any]]:
    """What the step says of each of its rollouts, in the columns of the scores."""
    curation, placement = step.curation, step.placement
    source = np.where(placement.kept.numpy(), placement.source.numpy(), -1)
    index = np.asarray(step.members) + first
    anomalous = curation.anomalous.cpu().numpy()
    statistics = group_statistics(step)
    scores = _numbers(curation.scores)
    weights, rewards = _numbers(placement.weights), _numbers(placement.rewards)
    return [
        {
            "step": step.step,
            "group": int(step.groups[row]),
            "score": known(scores[row]),
            "anomalous": bool(anomalous[row]),
            "source": -1 if source[row] < 0 else int(index[source[row]]),
            "weight": float(weights[row]),
            "new_reward": known(rewards[row]),
            "group_pairs": int(step.group_pairs[row]),
            **statistics[int(step.groups[row])],
        }
        for row in range(len(step.rows))
    ]


def group_statistics(step: CuratedStep) -> dict[int, dict[str, Any]]:
    """Of each group its size, mean and standard deviation (ddof 1) of the rewards that there are, rollouts flagged."""
    anomalous = step.curation.anomalous.cpu().numpy()
    groups = np.asarray(step.groups)
    rewards = np.array([row.reward for row in step.rows])
    order = np.argsort(groups, kind="stable")
    names, starts = np.unique(groups[order], return_index=True)
    found = {}
    for name, members in zip(names.tolist(), np.split(order, starts[1:]), strict=True):
        scored = rewards[members][~np.isnan(rewards[members])]
        found[name] = {
            "group_size": len(members),
            "group_mean": float(scored.mean()) if len(scored) else None,
            "group_std": float(scored.std(ddof=1)) if len(scored) > 1 else None,
            "group_flagged": int(anomalous[members].sum()),
        }
    return found


def _kept_pairs(group: np.ndarray, flagged: np.ndarray, most: int) -> np.ndarray:
    """All pairs of flagged groups; of the others whole groups, evenly spread, up to `most` pairs."""
    others, sizes = np.unique(group[~flagged], return_counts=True)
    every = max(1, math.ceil(sizes.sum() / most)) if most else len(others) + 1
    chosen, total = [], 0
    for name, size in zip(others[::every].tolist(), sizes[::every].tolist(), strict=True):
        if total + size > most:
            break
        chosen.append(name)
        total += size
    return np.flatnonzero(flagged | np.isin(group, chosen))


def _numbers(values: Any) -> np.ndarray:
    found: np.ndarray = values.detach().cpu().double().numpy()
    return found
