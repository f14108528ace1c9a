"""From the kept generations: where corrupted rewards stand in the ranking, and how the scores are distributed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.analysis.comparison.table import LevelTable
from geoalign.lab.reports.comparison.figures.palette import slug
from geoalign.lab.reports.figures.ranks import RankCurve, pooled_panel, step_panel, tenths_panel
from geoalign.lab.reports.figures.style import Panel, Theme
from geoalign.lab.store.columns import Bools, Floats
from geoalign.lab.store.comparison_results import Cell, Snapshot
from geoalign.lab.text import inert, label

BINS = 40
# Rewards of a comparison are corrupted in more ways than by flipping.
WORD = "corrupted"


def rank_panels(level: LevelTable, arm: str, cells: Sequence[Cell]) -> list[Panel | str]:
    """GDI by rank with crosses at corrupted rollouts: all kept generations pooled, and the last of the first seed."""
    snapshots = [snapshot_curve(item) for cell in cells for item in cell.snapshots]
    curves = [curve for curve in snapshots if len(curve.score)]
    if not curves:
        return [f"No kept generation of {inert(arm, 40)} at {inert(level.level, 40)} has scores."]
    last = next(curve for cell in cells for curve in map(snapshot_curve, reversed(cell.snapshots)) if len(curve.score))
    at = label(level.level, 24)
    drawn: list[tuple[Panel, str, str]] = [
        (pooled_panel(curves, WORD), "rank-pooled", f"GDI by rank, {label(arm, 20)}, {at}"),
        (step_panel(last, WORD), "rank-step", f"One generation, step {last.step}, {at}"),
    ]
    if any(curve.flipped.any() for curve in curves):
        drawn.append((tenths_panel(curves, WORD), "rank-tenths", f"Corrupted by tenth of the ranking, {at}"))
    return [replace(panel, name=f"{name}-{slug(level.level)}", title=title) for panel, name, title in drawn]


def snapshot_curve(snapshot: Snapshot) -> RankCurve:
    """The scored rollouts of a kept generation, lowest score first."""
    scored = ~np.isnan(snapshot.score)
    marks = snapshot.corrupted if snapshot.corrupted is not None else np.zeros(len(scored), dtype=bool)
    order = np.argsort(snapshot.score[scored], kind="stable")
    return RankCurve(snapshot.step, snapshot.score[scored][order], marks[scored][order])


def distribution_panels(level: LevelTable, arm: str, cells: Sequence[Cell]) -> list[Panel | str]:
    """Cumulative scores beside mean scores, corrupted rollouts apart (the paper's figure on normalisation)."""
    kept = [item for cell in cells for item in cell.snapshots]
    panels: list[Panel | str] = []
    for name, words in (("score", "cumulative"), ("mean_score", "mean")):
        values, marks = pooled_scores(kept, name)
        if len(values):
            panels.append(_distribution(level, arm, name, words, values, marks))
        else:
            panels.append(f"No {words} score of {inert(arm, 40)} at {inert(level.level, 40)} was kept.")
    return panels


def pooled_scores(snapshots: Sequence[Snapshot], name: str) -> tuple[Floats, Bools]:
    """A score of all kept generations, each divided by its generation's median, and whether it was corrupted.

    The median puts generations of different scale together without moving the shape; generations without scores, or
    with a median of 0, are left out.
    """
    values, marks = [np.empty(0)], [np.empty(0, dtype=bool)]
    for item in snapshots:
        score: Floats = getattr(item, name)
        known = ~np.isnan(score)
        middle = float(np.median(score[known])) if known.any() else 0.0
        if middle > 0:
            values.append(score[known] / middle)
            corrupted = item.corrupted if item.corrupted is not None else np.zeros(len(score), dtype=bool)
            marks.append(corrupted[known])
    return np.concatenate(values), np.concatenate(marks)


def _distribution(level: LevelTable, arm: str, name: str, words: str, values: Floats, marks: Bools) -> Panel:
    top = float(np.quantile(values, 0.99))
    outside = int((values > 1.15 * top).sum())
    described = (
        f"median of corrupted ones {np.median(values[marks]):.2f}" if marks.any() else "none is marked as corrupted"
    )

    def draw(axes: Axes, theme: Theme) -> None:
        bins = np.linspace(0, 1.15 * top, BINS + 1).tolist()
        for chosen, colour, title in ((~marks, theme.blue, "uncorrupted"), (marks, theme.orange, "corrupted")):
            if chosen.any():
                weights = np.full(int(chosen.sum()), 100 / chosen.sum())
                axes.hist(
                    values[chosen], bins=bins, weights=weights, histtype="step", linewidth=2, color=colour, label=title
                )
        axes.set(xlabel=f"{words} score / median of its generation", ylabel="rollouts of the kind, %")
        axes.legend(loc="best")

    return Panel(
        name=f"distribution-{name.replace('_', '-')}-{slug(level.level)}",
        title=f"{words.capitalize()} scores, {label(arm, 18)}, {label(level.level, 18)}",
        alt=f"Distribution of {len(values)} {words} scores of {inert(arm, 40)}, in medians of their generation: 99% "
        f"lie below {top:.2f}; {described}.",
        caption=f"{len(values):,} scored rollouts of the kept generations, {int(marks.sum()):,} of them corrupted; 99% "
        f"lie below {top:.2f} medians, {outside} are off the axis. A long tail of corrupted ones is what the "
        "threshold needs; a long tail by itself may be the number of pairs.",
        draw=draw,
    )
