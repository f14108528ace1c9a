"""Sensitivity to alpha: arms that differ in it alone, and sweeps over the kept scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.analysis.comparison.groups import Sweep
from geoalign.lab.analysis.comparison.scores import mean
from geoalign.lab.analysis.comparison.table import LevelTable, Measure
from geoalign.lab.reports.comparison.figures.looks import legend_above, slug
from geoalign.lab.reports.comparison.figures.scores import reach
from geoalign.lab.reports.figures.style import Panel, Theme
from geoalign.lab.store.columns import Floats
from geoalign.lab.store.comparison_plan import METRICS, Plan
from geoalign.lab.store.comparison_results import Cell
from geoalign.lab.text import inert, label


def alpha_panel(level: LevelTable, found: Sweep, plan: Plan) -> Panel:
    """Final score by alpha, with the baseline as a band."""
    baseline = level.row(plan.baseline)
    words = ", ".join(
        f"{row.score.interval.estimate:.3f} at {value:g}" for value, row in zip(found.values, found.rows, strict=True)
    )

    def draw(axes: Axes, theme: Theme) -> None:
        if baseline is not None and baseline.seeds:
            _level_line(axes, theme, baseline.score, label(plan.baseline, 24))
        intervals = [row.score.interval for row in found.rows]
        lengths = np.array([reach(item) for item in intervals])[:, :, 0].T
        values = [item.estimate for item in intervals]
        axes.errorbar(found.values, values, yerr=lengths, color=theme.blue, marker="s", capsize=4, label="GeoAlign")
        axes.set(xlabel="alpha", ylabel=METRICS[plan.metric])
        legend_above(axes, 2)

    return Panel(
        name=f"alpha-{slug(level.level)}",
        title=f"Sensitivity to alpha, {label(level.level, 24)}",
        alt=f"Final {METRICS[plan.metric]} by alpha: {words}.",
        caption="Arms whose settings differ in alpha alone: final score with its 95% interval over seeds, the "
        "baseline's as a band. Of several values the best is partly so by chance; only the primary one was fixed "
        "beforehand.",
        draw=draw,
    )


def alpha_sweep_panel(level: LevelTable, arm: str, cells: Sequence[Cell]) -> Panel | str:
    """What other values of alpha would have flagged in the kept generations, where the results hold such a sweep."""
    columns = sweep_columns(cells)
    if not columns:
        return f"The results of {inert(arm, 40)} at {inert(level.level, 40)} hold no sweep over alpha."
    alphas = columns.pop("alpha")
    words = "; ".join(f"{inert(name, 40)} {values[0]:.3g} to {values[-1]:.3g}" for name, values in columns.items())

    def draw(axes: Axes, theme: Theme) -> None:
        dashes = ("-", "--", "-.", ":")
        for at, (name, values) in enumerate(columns.items()):
            colour = (theme.blue, theme.orange, theme.green, theme.purple)[at % 4]
            axes.plot(
                alphas, values, color=colour, linestyle=dashes[at % 4], marker="o", markersize=4, label=label(name)
            )
        axes.set(xlabel="alpha", ylabel="mean over seeds")
        axes.legend(loc="best")

    return Panel(
        name=f"alpha-sweep-{slug(level.level)}",
        title=f"Other alphas on the same scores, {label(level.level, 18)}",
        alt=f"From alpha {alphas[0]:g} to {alphas[-1]:g}: {words}.",
        caption="The same scores under other thresholds; nothing was trained again.",
        draw=draw,
    )


def sweep_columns(cells: Sequence[Cell]) -> dict[str, Floats]:
    """Mean over seeds of each column of the sweeps, "alpha" first; empty unless every seed swept the same values."""
    found = [cell.alpha_sweep for cell in cells if cell.alpha_sweep]
    if not found or any(not np.array_equal(item["alpha"], found[0]["alpha"]) for item in found):
        return {}
    names = ["alpha", *(name for name in found[0] if name != "alpha")]
    tables = {name: np.array([item[name] for item in found if name in item]) for name in names}
    return {name: np.array([mean(column) for column in values.T]) for name, values in tables.items()}


def _level_line(axes: Axes, theme: Theme, score: Measure, name: str) -> None:
    axes.axhline(score.interval.estimate, color=theme.ink, linewidth=1.6, label=name)
    if not math.isnan(score.interval.low):
        axes.axhspan(score.interval.low, score.interval.high, color=theme.ink, alpha=0.08, linewidth=0)
