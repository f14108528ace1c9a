"""The results in `evidence/`, by comparison, level and arm, and what is computed of one level."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas

from geoalign.files.columns import Series
from geoalign.lab.compare.analysis import analyse
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.numbers import arm_evaluation_curves, arm_pass_at_k, logged_curves
from geoalign.lab.compare.results import RunResult, read_results
from geoalign.lab.compare.table import ArmRow, LevelTable
from geoalign.statistics import Interval, PairedDifference, paired_difference, share_interval

ROOT = Path(__file__).parents[2]

# A number of one run, for example its gold utility at the end.
NumberOfRun = Callable[["OneRun"], float]


def difference_from_zero(gains: list[float]) -> PairedDifference:
    """The mean of some differences with its interval and p value: each is a unit."""
    by_unit = dict(enumerate(gains))
    return paired_difference(by_unit, dict.fromkeys(by_unit, 0.0))


@dataclass(frozen=True)
class OneRun:
    """One finished run of a level, and its numbers."""

    level: Level
    result: RunResult

    def _of_this(self, curves: pandas.Series) -> Series:
        """The part of curves of a level that is this run's, over steps."""
        runs = (self.result.level, self.result.arm, self.result.seed)
        if runs not in curves.index.droplevel("step"):
            return Series(np.empty(0, dtype=np.int64), np.empty(0))
        curve = curves.loc[runs]
        return Series(curve.index.to_numpy(), curve.to_numpy())

    def curve(self, metric: str) -> Series:
        """A metric of the evaluations over steps, the evaluation before RL at step 0."""
        return self._of_this(_evaluation_curves(self.level.table, metric, before=True))

    def logged(self, metric: str) -> Series:
        """A logged number over steps."""
        return self._of_this(_logged_curves(self.level.table, metric))

    def final_score(self, metric: str, last: int) -> float:
        """The mean of the last evaluations, that before RL left out; NaN without any."""
        values = self._of_this(_evaluation_curves(self.level.table, metric, before=False)).values[-last:]
        return float(values.mean()) if len(values) else math.nan

    def pass_at(self, k: int) -> float:
        """pass@k after RL."""
        runs = (self.result.level, self.result.arm, self.result.seed)
        return float(arm_pass_at_k(self.level.table.numbers).loc[runs, f"pass@{k}"])


@functools.cache
def _evaluation_curves(table: LevelTable, metric: str, *, before: bool) -> pandas.Series:
    return arm_evaluation_curves(table.numbers, metric, before=before)


@functools.cache
def _logged_curves(table: LevelTable, metric: str) -> pandas.Series:
    return logged_curves(table.numbers, metric)


@dataclass(frozen=True)
class Level:
    """One level of one comparison: its table and its runs."""

    table: LevelTable
    results: tuple[RunResult, ...]
    metric: str
    seeds_per_warm_start: int | None

    def has(self, arm: str) -> bool:
        """Whether the arm has a finished run here."""
        row = self.table.row(arm)
        return row is not None and bool(row.seeds)

    def row(self, arm: str) -> ArmRow:
        """The row of an arm."""
        row = self.table.row(arm)
        if row is None:
            raise LookupError(f"evidence: expected an arm of {self.table.level}, got {arm}")
        return row

    def scores(self, arm: str) -> dict[int, float]:
        """The final score of each finished run of an arm, by seed."""
        return dict(self.row(arm).score.values)

    def final(self, arm: str) -> float:
        """The final score of an arm, mean over its runs."""
        return self.row(arm).score.interval.estimate

    def finished(self, arm: str) -> list[OneRun]:
        """The finished runs of an arm."""
        return [OneRun(self, result) for result in self.results if result.arm == arm and result.finished]

    def of(self, arm: str, number: NumberOfRun) -> dict[int, float]:
        """A number of each finished run of an arm, by seed."""
        return {run.result.seed: number(run) for run in self.finished(arm)}

    def minus(self, arm: str, number: NumberOfRun, against: str = "grpo") -> PairedDifference:
        """The difference of a number of two arms, paired by seed."""
        return paired_difference(self.of(arm, number), self.of(against, number))

    def score(self, arm: str, against: str = "grpo") -> PairedDifference:
        """The difference of the final scores of two arms, paired by seed."""
        return paired_difference(self.scores(arm), self.scores(against))

    @property
    def seeds(self) -> list[int]:
        """Seeds of both GRPO and the oracle."""
        return sorted(set(self.scores("grpo")) & set(self.scores("oracle")))

    def warm_start_of(self, seed: int) -> int:
        """The place of a seed's warm start among those of the plan; all seeds share one where the plan says nothing."""
        return seed // (self.seeds_per_warm_start or sys.maxsize)

    def by_warm_start(self, arm: str, number: NumberOfRun | None = None, against: str = "grpo") -> list[float]:
        """The difference of two arms on each warm start, mean over its seeds: of final scores, or of a number."""
        mine = self.scores(arm) if number is None else self.of(arm, number)
        theirs = self.scores(against) if number is None else self.of(against, number)
        differences: dict[int, list[float]] = {}
        for seed in sorted(set(mine) & set(theirs)):
            differences.setdefault(self.warm_start_of(seed), []).append(mine[seed] - theirs[seed])
        return [sum(values) / len(values) for values in differences.values()]

    def over_warm_starts(self, arm: str, number: NumberOfRun | None = None, against: str = "grpo") -> PairedDifference:
        """The difference of two arms with a warm start as the unit."""
        return difference_from_zero(self.by_warm_start(arm, number, against))

    def ends_by_warm_start(self, arm: str) -> list[float]:
        """The final score of an arm on each warm start, mean over its seeds."""
        ends: dict[int, list[float]] = {}
        for seed, score in self.scores(arm).items():
            ends.setdefault(self.warm_start_of(seed), []).append(score)
        return [sum(values) / len(values) for values in ends.values()]

    def last_evaluation(self, arm: str) -> PairedDifference:
        """The difference to GRPO at the last evaluation alone."""
        return self.minus(arm, lambda run: run.final_score(self.metric, 1))

    def curves(self, arm: str) -> dict[int, Series]:
        """The evaluation curve of each finished run of an arm, by seed."""
        return {run.result.seed: run.curve(self.metric) for run in self.finished(arm)}

    def curve(self, arm: str) -> Series:
        """The evaluation curve of an arm, mean over its seeds."""
        curves = list(self.curves(arm).values())
        return Series(curves[0].steps, np.mean([curve.values for curve in curves], axis=0))

    def before(self) -> float:
        """The score before training, mean over GRPO's runs."""
        return float(np.mean([curve.values[0] for curve in self.curves("grpo").values()]))

    def updates(self) -> int:
        """How many updates GRPO's runs have."""
        return int(self.curve("grpo").steps[-1])

    def passed(self, arm: str, value: float) -> int:
        """The update of the first evaluation at which the mean curve of an arm is at or above a value."""
        curve = self.curve(arm)
        return int(curve.steps[np.flatnonzero(curve.values >= value)[0]])

    def share(self, arm: str, of: str = "oracle") -> Interval:
        """The share of another arm's gain over GRPO that an arm has, with Fieller's interval, over the seeds of all."""
        mine = self.scores(arm)
        grpo = self.scores("grpo")
        best = self.scores(of)
        seeds = sorted(set(mine) & set(grpo) & set(best))
        return share_interval([mine[s] - grpo[s] for s in seeds], [best[s] - grpo[s] for s in seeds])

    def cosine(self, arm: str) -> float:
        """Cosine of an arm's advantages with the true ones: mean over a run's generations, then over its runs."""
        return float(np.mean([run.logged("advantage_cosine").values.mean() for run in self.finished(arm)]))


@functools.cache
def levels_of(folder: str) -> dict[str, Level]:
    """Every level of a comparison, by name; a comparison is read and analysed once."""
    root = ROOT / "evidence" / folder
    plan = ComparisonFolder(root).read_plan()
    results = read_results(root)
    levels = {}
    for table in analyse(results, plan).levels:
        of_level = tuple(result for result in results if result.level == table.level)
        levels[table.level] = Level(table, of_level, plan.metric, plan.seeds_per_warm_start)
    return levels


def level_of(folder: str, name: str) -> Level:
    """A level of the comparison in `evidence/<folder>`."""
    return levels_of(folder)[name]


def has_run(folder: str, name: str) -> bool:
    """Whether the comparison in `evidence/<folder>` has a level, with runs of GRPO and `denoise`."""
    level = levels_of(folder).get(name)
    return level is not None and level.has("grpo") and level.has("denoise")
