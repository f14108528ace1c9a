"""How well corrupted rewards are detected: the one definition behind terminal summary, report and comparison.

A row *counts* where it is known whether its reward was corrupted and it is in a pair: its group holds another
reward. Nobody who compares the rollouts of a group could rank any other row. Over these rows:

- base rate: the share that was corrupted;
- AUROC and average precision: a score ranks those of them that it scored, within one batch; a run has the mean over the
  batches where that is defined;
- recall: the share of the corrupted ones that was marked.

Precision is the share of corrupted rows among all marked rows of known truth, in a pair or not: whoever marks a row
that could not be ranked answers for it. "Marked" is what the caller looks at: flagged by the curator, or replaced.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray

from geoalign.lab.analysis.statistics import auroc, average_precision


@dataclass(frozen=True)
class Ranking:
    """AUROC and average precision of one score on one batch; NaN where rows of one kind alone have a score."""

    auroc: float
    average_precision: float

    @property
    def defined(self) -> bool:
        return not math.isnan(self.auroc)


@dataclass(frozen=True)
class Tally:
    """Counts over any number of batches: rows that count, the corrupted ones among them, and those of both marked.

    `marked` and `marked_corrupted` are over all rows of known truth, `found` are the marked ones among `corrupted`.
    """

    rows: int = 0
    corrupted: int = 0
    marked: int = 0
    marked_corrupted: int = 0
    found: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.rows + other.rows,
            self.corrupted + other.corrupted,
            self.marked + other.marked,
            self.marked_corrupted + other.marked_corrupted,
            self.found + other.found,
        )

    @property
    def base_rate(self) -> float:
        """Share of corrupted rewards among the rows that count; NaN where there is none."""
        return self.corrupted / self.rows if self.rows else math.nan

    @property
    def precision(self) -> float:
        """Share of corrupted rewards among the marked rows; NaN where nothing was marked."""
        return self.marked_corrupted / self.marked if self.marked else math.nan

    @property
    def recall(self) -> float:
        """Share of the corrupted rows that count which was marked; NaN where none was corrupted."""
        return self.found / self.corrupted if self.corrupted else math.nan


def pair_counts(rewards: Float[np.ndarray, " b"], groups: Int[np.ndarray, " b"]) -> Int[np.ndarray, " b"]:
    """[B] for each row the rows of its group with a different finite reward: the pairs it is in (Eq. 3, all pairs).

    A row without a reward is in none.
    """
    known = ~np.isnan(rewards)
    counts = np.zeros(len(rewards), dtype=np.int64)
    if not known.any():
        return counts
    _, group = np.unique(groups[known], return_inverse=True)
    _, level = np.unique(rewards[known], return_inverse=True)
    _, cell, sizes = np.unique(np.stack([group, level]), axis=1, return_inverse=True, return_counts=True)
    counts[known] = np.bincount(group)[group] - sizes[cell.reshape(-1)]
    return counts


def rows_that_count(
    rewards: Float[np.ndarray, " b"], groups: Int[np.ndarray, " b"], known: Bool[np.ndarray, " b"]
) -> Bool[np.ndarray, " b"]:
    """[B] True for the rows of known truth that are in a pair."""
    return known & (pair_counts(rewards, groups) > 0)


def ranking(
    scores: Float[np.ndarray, " b"], corrupted: Bool[np.ndarray, " b"], counting: Bool[np.ndarray, " b"]
) -> Ranking:
    """How a score ranks the corrupted rows of one batch above the others; rows without a score are left out."""
    return Ranking(
        auroc(scores[counting], corrupted[counting]), average_precision(scores[counting], corrupted[counting])
    )


def tally(
    marked: Bool[np.ndarray, " b"],
    corrupted: Bool[np.ndarray, " b"],
    counting: Bool[np.ndarray, " b"],
    known: Bool[np.ndarray, " b"],
) -> Tally:
    """The counts of one batch."""
    return Tally(
        rows=_count(counting),
        corrupted=_count(counting & corrupted),
        marked=_count(known & marked),
        marked_corrupted=_count(known & marked & corrupted),
        found=_count(counting & marked & corrupted),
    )


def mean_ranking(rankings: Iterable[Ranking]) -> tuple[Ranking, int]:
    """The mean over the batches where the ranking is defined, and their number; NaN and 0 where there is none."""
    defined = [item for item in rankings if item.defined]
    if not defined:
        return Ranking(math.nan, math.nan), 0
    area = sum(item.auroc for item in defined) / len(defined)
    return Ranking(area, sum(item.average_precision for item in defined) / len(defined)), len(defined)


def _count(rows: NDArray[np.bool_]) -> int:
    return int(rows.sum())
