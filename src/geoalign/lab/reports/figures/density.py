"""The density of the GDI scores and where the anomalous tail begins."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.reports.figures.style import Panel, Theme
from geoalign.lab.store.rollouts import Density, RolloutStep


def density_panel(step: int, density: Density, rollouts: RolloutStep | None) -> Panel:
    """Density of one step's scores with alpha times its peak, the threshold and the flagged scores as ticks."""
    floor = density.alpha * density.peak
    room = density.peak if math.isfinite(density.peak) and density.peak > 0 else 0.0
    flagged = np.empty(0) if rollouts is None else rollouts.score[rollouts.anomalous & rollouts.scored]
    nowhere = math.isnan(density.threshold)
    threshold = "nothing is anomalous" if nowhere else f"threshold {density.threshold:.2f}"

    def draw(axes: Axes, theme: Theme) -> None:
        axes.plot(density.grid, density.density, color=theme.blue, linewidth=2.2, label="density of GDI")
        if not math.isnan(floor):
            axes.axhline(floor, color=theme.soft, linewidth=1.4, linestyle=":", label=f"{density.alpha:g} × peak")
        if not nowhere:
            axes.axvline(density.threshold, color=theme.orange, linewidth=2, linestyle="--", label="threshold")
            tail = density.grid >= density.threshold
            axes.fill_between(
                density.grid, density.density, where=tail.tolist(), color=theme.orange, alpha=0.3, linewidth=0
            )
        if len(flagged):
            height = np.full(len(flagged), -0.03 * room)
            axes.scatter(
                flagged, height, marker="|", s=60, linewidths=1.3, color=theme.ink, label=f"flagged: {len(flagged)}"
            )
        axes.set(xlabel="GDI", ylabel="density")
        if room:
            axes.set_ylim(-0.07 * room, None)
        axes.legend(loc="best")

    return Panel(
        name=f"gdi-density-step-{step:06d}",
        title=f"GDI density, step {step}",
        alt=f"Density of GDI at step {step}: mode {density.mode:.2f}, alpha {density.alpha:g} of the peak, "
        f"{threshold}; {len(flagged)} rollouts flagged.",
        caption=f"Step {step}: {threshold}. Ticks below the axis: the flagged scores. The threshold is the lowest "
        "anomalous score (pointwise tail: the density at the score itself is below the dotted line) or the first point "
        "where the curve falls below that line (first crossing); a cap may spare the lowest of the anomalous.",
        draw=draw,
    )
