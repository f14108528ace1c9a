"""The comparisons of configs/paper: every arm at every level, and how steady training is under GeoAlign."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import stdev

import numpy as np

from geoalign.lab.compare.table import ArmRow
from geoalign.statistics import Interval, PairedDifference
from tools.evidence.printing import plain, probability, signed, table
from tools.evidence.results import Level, NumberOfRun, OneRun, level_of, levels_of

FOLDERS = {
    "maths": ("math", "math_shortcut", "math_strategies", "math_alpha", "math_depth"),
    "dialogue": (
        "dialogue",
        "dialogue_again",
        "dialogue_shortcut",
        "dialogue_strategies",
        "dialogue_alpha",
        "dialogue_depth",
    ),
}
# Folders that repeat arms of the first one, from the very same runs.
ABLATIONS = ("strategies", "alpha", "depth")
REPEATED = ("grpo", "oracle", "pair_count", "geoalign", "geoalign_layers_3")


def arms(task: str) -> str:
    """Every arm: final score, minus GRPO's with p, p after Holm where the plan makes no claim, gold minus GRPO's."""

    def rows() -> Iterator[list[str]]:
        for folder in FOLDERS[task]:
            for name, level in levels_of(folder).items():
                for row in level.table.rows:
                    again = folder.endswith(ABLATIONS) and row.arm in REPEATED
                    if row.seeds and not again:
                        yield [f"`{folder}`, `{name}`", *_cells(level, row, task)]

    heads = ["folder, level", "arm", "seeds", "final score", "minus GRPO's (95%)", "p", "p after Holm"]
    return table([*heads, "gold minus GRPO's"] if task == "dialogue" else heads, rows())


def _cells(level: Level, row: ArmRow, task: str) -> list[str]:
    of_baseline = row.arm == "grpo"
    gain = row.score.difference
    cells = [f"`{row.arm}`", str(len(row.seeds)), plain(row.score.interval.estimate, 3)]
    cells += ["-", "-", "-"] if of_baseline else [signed(gain.interval), probability(gain.p), corrected(level, row.arm)]
    if task == "dialogue":
        cells.append("-" if of_baseline else signed(row.gold.difference.interval, 2))
    return cells


def corrected(level: Level, arm: str) -> str:
    """p after Holm's correction over the arms of a level that the plan does not call primary; "-" for the others."""
    found = [one for one in level.table.comparisons if one.arm == arm and one.against == "grpo"]
    return probability(found[0].adjusted_p) if found and not math.isnan(found[0].adjusted_p) else "-"


# --- how steady training is -------------------------------------------------------------------------------------------

STEADY = (
    ("maths, no errors", "math", "flip_00"),
    ("maths, 20%", "math", "flip_20"),
    ("maths, 40%", "math", "flip_40"),
    ("dialogue, no errors", "dialogue", "extremes_00"),
    ("dialogue, 20%", "dialogue", "extremes_20"),
    ("dialogue, 20%, ten new seeds", "dialogue_again", "extremes_20"),
    ("dialogue, 40%", "dialogue", "extremes_40"),
)
LARGEST_K = 4


def steady() -> str:
    """GeoAlign minus GRPO: change between evaluations, KL, clip fraction and pass@4; and the spread over seeds."""

    def row_of(words: str, folder: str, name: str) -> Iterator[str]:
        level = level_of(folder, name)
        yield words
        yield signed(level.minus("geoalign", _change(level.metric)).interval)
        yield signed(_times(level.minus("geoalign", _mean_of("ppo_kl")), 1e4), 1)
        yield signed(_times(level.minus("geoalign", _mean_of("clip_fraction")), 1e4), 1)
        spreads = [stdev(level.scores(arm).values()) for arm in ("geoalign", "grpo")]
        yield f"{spreads[0]:.3f}, {spreads[1]:.3f}"
        yield signed(level.minus("geoalign", _pass_at_most).interval) if folder == "math" else "-"

    heads = [
        "level",
        "change between evaluations, second half",
        "KL, in 1/10,000",
        "clip fraction, in 1/10,000",
        "deviation over seeds: GeoAlign, GRPO",
        f"pass@{LARGEST_K}",
    ]
    return table(heads, (row_of(*one) for one in STEADY))


def _times(difference: PairedDifference, factor: float) -> Interval:
    found = difference.interval
    return Interval(factor * found.estimate, factor * found.low, factor * found.high)


def _change(metric: str) -> NumberOfRun:
    """The mean absolute change from one evaluation to the next in the second half of training."""

    def number(run: OneRun) -> float:
        scores = run.curve(metric).values
        return float(np.abs(np.diff(scores[len(scores) // 2 :])).mean())

    return number


def _mean_of(name: str) -> NumberOfRun:
    return lambda run: float(run.logged(name).values.mean())


def _pass_at_most(run: OneRun) -> float:
    return run.pass_at(LARGEST_K)
