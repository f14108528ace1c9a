"""What wrong rewards cost, and what each curator won back: final scores as bars."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.analysis.comparison.recovery import Recovery
from geoalign.lab.analysis.comparison.scores import evaluation_series
from geoalign.lab.analysis.comparison.table import ArmRow, LevelTable
from geoalign.lab.reports.comparison.figures.palette import palette, slug
from geoalign.lab.reports.figures.style import Panel, Theme
from geoalign.lab.store.comparison_plan import METRICS, Plan
from geoalign.lab.store.comparison_results import Cell
from geoalign.lab.text import inert, label, short


def recovered_panel(level: LevelTable, found: Recovery, cells: list[Cell], plan: Plan) -> Panel:
    """Final scores as bars from the score before RL, with the arm without wrong rewards on top."""
    others = [arm.row for arm in found.arms]
    rows = [found.clean, *sorted([*others, found.baseline], key=lambda row: -row.score.interval.estimate)]
    before = _before(cells, plan.metric)
    style = palette(level.rows)
    words = "; ".join(f"{inert(row.arm, 40)} {short(row.score.interval.estimate)}" for row in rows)

    def draw(axes: Axes, theme: Theme) -> None:
        heights = np.arange(len(rows))[::-1]
        start = before if np.isfinite(before) else 0.0
        for height, row in zip(heights, rows, strict=True):
            score, colour = row.score.interval, getattr(theme, style[row.arm].colour)
            axes.barh(height, score.estimate - start, left=start, height=0.62, color=colour)
            if np.isfinite(score.low):
                axes.plot([score.low, score.high], [height, height], color=theme.soft, linewidth=1.6)
            end = np.nanmax([score.estimate, score.high, start])
            axes.annotate(
                short(score.estimate), (end, height), xytext=(5, 0), textcoords="offset points", va="center",
                fontsize=10, color=theme.ink,
            )  # fmt: skip
        axes.axvline(found.baseline.score.interval.estimate, color=theme.soft, linewidth=1.0, linestyle=":")
        axes.set_yticks(heights, [_name(row) for row in rows], fontsize=max(6.5, 10 - len(rows) / 5))
        axes.grid(False, axis="y")
        low, high = axes.get_xlim()
        axes.set(xlim=(low, high + 0.14 * (high - low)), ylim=(-0.6, len(rows) - 0.4))
        axes.set_xlabel(f"{METRICS[plan.metric]}{', from that before RL' if np.isfinite(before) else ''}")
        axes.figure.subplots_adjust(left=0.3)

    return Panel(
        name=f"recovered-{slug(level.level)}",
        title="Final scores",
        alt=f"Final {METRICS[plan.metric]}: {words}.",
        caption=f"Mean of the last {plan.last} evaluations and over seeds, with its 95% interval from three seeds on. "
        f"Top: no wrong rewards. Dotted: {inert(found.baseline.arm, 40)}, which believes every reward.",
        draw=draw,
    )


def _name(row: ArmRow) -> str:
    return label(row.arm, 22)


def _before(cells: list[Cell], metric: str) -> float:
    """The mean score before RL; NaN where it was not measured."""
    series = [evaluation_series(cell, metric) for cell in cells]
    known = [float(curve.values[0]) for curve in series if len(curve.steps) and curve.steps[0] == 0]
    return float(np.mean(known)) if known else float("nan")
