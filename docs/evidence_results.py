"""The results in `evidence/` by comparison, level and arm, and the levels that the pages on evidence have rows of."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from geoalign.lab.analysis.comparison.analysis import analyse
from geoalign.lab.analysis.comparison.scores import evaluation_series, final_score
from geoalign.lab.analysis.comparison.table import ArmRow, LevelTable
from geoalign.lab.analysis.statistics import (
    Interval,
    PairedDifference,
    auroc,
    mean,
    paired_difference,
    share_interval,
)
from geoalign.lab.store.comparison import Cell, ComparisonFolder, read_results
from geoalign.lab.store.json_files import read_yaml
from geoalign.lab.store.read_run import Series

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Level:
    """One level of one comparison: its table and its cells."""

    table: LevelTable
    cells: tuple[Cell, ...]
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

    def of(self, arm: str, number: Callable[[Cell], float]) -> dict[int, float]:
        """A number of each finished cell of an arm, by seed."""
        return {cell.seed: number(cell) for cell in self.cells if cell.arm == arm and cell.finished}

    def minus(self, arm: str, number: Callable[[Cell], float], against: str = "grpo") -> PairedDifference:
        """The paired difference of a number of two arms."""
        return paired_difference(self.of(arm, number), self.of(against, number))

    def score(self, arm: str, against: str = "grpo") -> PairedDifference:
        """The paired difference of the final scores of two arms."""
        return paired_difference(self.row(arm).score.values, self.row(against).score.values)

    @property
    def seeds(self) -> list[int]:
        """Seeds of both GRPO and the oracle."""
        return sorted(set(self.row("grpo").score.values) & set(self.row("oracle").score.values))

    def by_warm_start(
        self, arm: str, number: Callable[[Cell], float] | None = None, against: str = "grpo"
    ) -> list[float]:
        """The mean difference to another arm over each warm start's seeds; over all seeds where they share one.

        Of the final scores, or of another number of a cell.
        """
        mine, theirs = (
            self.row(one).score.values if number is None else self.of(one, number) for one in (arm, against)
        )
        blocks: dict[int, list[float]] = {}
        for seed in sorted(set(mine) & set(theirs)):
            blocks.setdefault(seed // (self.seeds_per_warm_start or sys.maxsize), []).append(mine[seed] - theirs[seed])
        return [sum(values) / len(values) for values in blocks.values()]

    def over_warm_starts(
        self, arm: str, number: Callable[[Cell], float] | None = None, against: str = "grpo"
    ) -> PairedDifference:
        """The same difference with a warm start as the unit: over those means, of which there are four at most."""
        means = self.by_warm_start(arm, number, against)
        return paired_difference(dict(enumerate(means)), dict.fromkeys(range(len(means)), 0.0))

    def last_evaluation(self, arm: str) -> PairedDifference:
        """The difference to GRPO at the last evaluation alone."""
        return self.minus(arm, lambda cell: final_score(cell, self.metric, 1)[0])

    def curves(self, arm: str) -> list[Series]:
        """The evaluation curve of each finished run of an arm."""
        return [evaluation_series(cell, self.metric) for cell in self.cells if cell.arm == arm and cell.finished]

    def curve(self, arm: str) -> Series:
        """The evaluation curve of an arm, mean over its seeds."""
        curves = self.curves(arm)
        return Series(curves[0].steps, np.mean([curve.values for curve in curves], axis=0))

    def passed(self, arm: str, value: float) -> int:
        """The update of the first evaluation at which the mean curve of an arm is at or above a value."""
        curve = self.curve(arm)
        return int(curve.steps[np.flatnonzero(curve.values >= value)[0]])

    def share(self, arm: str, of: str = "oracle") -> Interval:
        """The share of another arm's gain on GRPO that an arm has, with Fieller's interval, over the seeds of all."""
        mine, grpo, best = (self.row(one).score.values for one in (arm, "grpo", of))
        seeds = sorted(set(mine) & set(grpo) & set(best))
        return share_interval([mine[s] - grpo[s] for s in seeds], [best[s] - grpo[s] for s in seeds])


@functools.cache
def _levels(folder: str) -> dict[str, Level]:
    """Every level of a comparison, by name: it is read and analysed once."""
    root = ROOT / "evidence" / folder
    plan, cells = ComparisonFolder(root).read_plan(), read_results(root)
    settings, _ = read_yaml(root / "compare.yaml")
    return {
        table.level: Level(
            table,
            tuple(cell for cell in cells if cell.level == table.level),
            plan.metric,
            settings.get("seeds_per_warm_start"),
        )
        for table in analyse(cells, plan).levels
    }


def level_of(folder: str, name: str) -> Level:
    """A level of the comparison in `evidence/<folder>`."""
    return _levels(folder)[name]


def has_run(folder: str, name: str) -> bool:
    """Whether the comparison in `evidence/<folder>` has a level, with runs of GRPO and `denoise`."""
    level = _levels(folder).get(name)
    return level is not None and level.has("grpo") and level.has("denoise")


@dataclass(frozen=True)
class Setting:
    """A level in the README's table and figure: its words, comparison and name."""

    label: str
    folder: str
    name: str

    @property
    def level(self) -> Level:
        """Its results."""
        return level_of(self.folder, self.name)


# The plan of configs/evidence. As the paper corrupts, a fixed share of every prompt's rewards, on dialogue exactly on
# the extremes.
PLANNED = (
    Setting("three numbers, 20% flipped", "math_denoise", "flip_20"),
    Setting("three numbers, 40% flipped", "math_denoise", "flip_40"),
    Setting("three numbers, shortcut rewarded", "math_denoise", "shortcut_50"),
    Setting("five numbers, 20% flipped", "math_hard_denoise", "flip_20"),
    Setting("five numbers, 40% flipped", "math_hard_denoise", "flip_40"),
    Setting("dialogue, 10% reversed", "dialogue_denoise_again", "extremes_10"),
    Setting("dialogue, 20% reversed", "dialogue_denoise_again", "extremes_20"),
    Setting("dialogue, 40% reversed", "dialogue_denoise_again", "extremes_40"),
    Setting("dialogue, flattery rewarded", "dialogue_denoise_again", "shortcut_50"),
    Setting("dialogue, wider model, 40% reversed", "dialogue_wide", "extremes_40"),
    Setting("dialogue, less bias, 40% reversed", "dialogue_unbiased", "extremes_40"),
)
# SmolLM2 has a plan of its own (configs/real), and `denoise` with its old default, expected rewards.
SMOLLM2 = Setting("SmolLM2, 40%, old default, 3 seeds", "real_maths", "flip_40")
SETTINGS = (*PLANNED, SMOLLM2)
# Today's `denoise`, with one seed on each of twelve fresh warm starts.
_TWELVE = {
    "math_denoise": "math_twelve",
    "math_hard_denoise": "math_hard_twelve",
    "dialogue_denoise_again": "dialogue_twelve",
    "dialogue_unbiased": "dialogue_unbiased_twelve",
}
_RATES = ("flip_20", "flip_40", "extremes_20", "extremes_40")
TWELVE = tuple(
    Setting(one.label, _TWELVE[one.folder], one.name) for one in PLANNED if one.folder in _TWELVE and one.name in _RATES
)
# SmolLM2. Nothing injected: a verifier that rewards the right number anywhere in a response.
VERIFIER = Setting("errs by itself, `denoise` before it was mended", "real_substring", "as_given")
# The same, `denoise` mended, on fresh seeds.
AGAIN = Setting("errs by itself", "real_substring_again", "as_given")
# Four more warm starts; the primary comparison is over those of both.
FRESH = Setting("errs by itself, four more", "real_substring_fresh", "as_given")
# The other arms, and beside injected flips, on a GPU.
ARMS = Setting("errs by itself, four more, on a GPU", "real_substring_gpu", "as_given")
FLIPPED = Setting("40% flipped, on a GPU", "real_flip_gpu", "flip_40")
EXPECTED = Setting("40% flipped, `least_slope: 1`", "real_flip_expected", "flip_40")
# Majority vote and labels; and a verifier that refuses right answers.
CONTROLS = Setting("errs by itself, four more, controls", "real_substring_controls", "as_given")
STRICT = Setting("refuses right answers for their form", "real_strict_gpu", "as_given")
# Dialogue whose reward is linear in the states that curators read.
IN_STATES = Setting("dialogue, reward linear in the states, 20% reversed", "real_dialogue_gpu", "extremes_20")
PRETRAINED = (VERIFIER, AGAIN, FRESH, ARMS, CONTROLS, STRICT, FLIPPED, EXPECTED, IN_STATES)


# Three times the updates; and learning rate and KL term chosen for `denoise` and for GRPO on another seed.
LONG = (
    Setting("on dialogue, three times as long", "dialogue_long", "extremes_40"),
    Setting("with five numbers, three times as long", "math_hard_long", "flip_40"),
)
TUNED = (
    (Setting("on dialogue", "dialogue_tuned", "extremes_40"), "denoise_fourfold", "grpo_double_kl_02"),
    (Setting("with five numbers", "math_hard_tuned", "flip_40"), "denoise_half", "grpo_kl_10"),
    (Setting("with three numbers", "math_tuned", "flip_40"), "denoise_half", "grpo_half"),
)
# Errors that repeat with the answer.
REPEATED = Setting("with three numbers, errors repeat", "math_repeated", "repeated_40")
# And where 26 of 256 responses are checked, on fresh warm starts; 40% and 20% of the answers.
APPEALS = Setting("with three numbers, errors repeat, eight more", "math_appeals", "repeated_40")
APPEALS_20 = Setting("with three numbers, errors repeat, 20%", "math_appeals", "repeated_20")


def unchanged(level: Level, arm: str) -> Iterator[bool]:
    """Of each generation whether the curator left its advantages as they were."""
    for cell in level.cells:
        if cell.arm == arm:
            cosines = (cell.series[name] for name in ("advantage_cosine", "observed_advantage_cosine"))
            yield from (given == observed for given, observed in zip(*cosines, strict=True) if not math.isnan(given))


def last_gold(cell: Cell) -> float:
    """Gold utility, mean of the last five evaluations."""
    return final_score(cell, "gold_utility", 5)[0]


def gold_at(cell: Cell, proxy: float) -> float:
    """Gold utility where the run first reaches a proxy reward."""
    return at_equal(cell, "reward", proxy, "gold_utility")


PROXIES = (0.5, 1.0, 1.5, 2.0)


def gold_beside_oracle(level: Level, arm: str, proxies: tuple[float, ...] = PROXIES) -> Iterator[PairedDifference]:
    """Gold utility minus the oracle's where each first reaches each of some proxy rewards."""
    for proxy in proxies:
        yield level.minus(arm, lambda cell, at=proxy: gold_at(cell, at), "oracle")


FIFTEEN = ("dialogue", "dialogue_again")


# --- along whole curves: the final score of a curve that still rises is mostly speed of learning ----------------------


def step_of(cell: Cell, metric: str, value: float) -> float:
    """The step at which the curve first reaches a value, linear between evaluations; NaN where it never does.

    A curve that begins at or above the value reaches it at its first step.
    """
    curve = evaluation_series(cell, metric)
    reached = np.flatnonzero(curve.values >= value)
    if not len(reached):
        return math.nan
    at = int(reached[0])
    if at == 0:
        return float(curve.steps[0])
    below, above = curve.values[at - 1], curve.values[at]
    return float(curve.steps[at - 1] + (value - below) / (above - below) * (curve.steps[at] - curve.steps[at - 1]))


def at_equal(cell: Cell, metric: str, value: float, other: str) -> float:
    """The other metric at the step at which this one first reaches a value, linear between evaluations.

    What a curator did to the gold utility is hidden by how fast it raised the proxy reward; at equal proxy reward it
    is not. NaN where the value is never reached or the other metric was not measured there.
    """
    step, curve = step_of(cell, metric, value), evaluation_series(cell, other)
    if math.isnan(step) or not len(curve.steps) or not curve.steps[0] <= step <= curve.steps[-1]:
        return math.nan
    return float(np.interp(step, curve.steps, curve.values))


def auroc_at_reward(cell: Cell, reward: float) -> float:
    """How a cell's score ranks corrupted rows among the rows of one observed reward, mean over its snapshots.

    A score that finds wrong answers instead of wrong rewards lies above 1/2 where the reward says right and below it
    where the reward says wrong, so that both together look like chance. NaN where no snapshot holds both kinds.
    """
    areas = [
        auroc(snapshot.score[rows], snapshot.corrupted[rows])
        for snapshot in cell.snapshots
        if snapshot.corrupted is not None and (rows := np.isclose(snapshot.reward, reward)).any()
    ]
    return mean(areas)
