"""Sensitivity to alpha: arms that differ in it alone."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.analysis.comparison.groups import Sweep
from geoalign.lab.analysis.comparison.table import LevelTable, Measure
from geoalign.lab.reports.comparison.figures.palette import legend_above, slug
from geoalign.lab.reports.comparison.figures.scores import reach
from geoalign.lab.reports.figures.style import Panel, Theme
from geoalign.lab.store.comparison_plan import METRICS, Plan
from geoalign.lab.text import label


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


def _level_line(axes: Axes, theme: Theme, score: Measure, name: str) -> None:
    axes.axhline(score.interval.estimate, color=theme.ink, linewidth=1.6, label=name)
    if not math.isnan(score.interval.low):
        axes.axhspan(score.interval.low, score.interval.high, color=theme.ink, alpha=0.08, linewidth=0)
