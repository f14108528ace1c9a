"""How well each score finds flipped rewards, step by step."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.analysis.run_detection import GDI, MEAN_GDI, MOST_PAIRS, Detection
from geoalign.lab.analysis.statistics import ema
from geoalign.lab.reports.figures.style import STEP_AXIS, Panel, Theme


def areas_panel(detection: Detection) -> Panel:
    """AUROC over steps for GDI, mean GDI and the pair count, against one half."""
    steps = np.array([step.step for step in detection.steps])
    areas = {name: np.array([step.auroc[name] for step in detection.steps]) for name in (GDI, MEAN_GDI, MOST_PAIRS)}
    means = ", ".join(f"{name} {np.nanmean(values):.2f}" for name, values in areas.items() if np.isfinite(values).any())

    def draw(axes: Axes, theme: Theme) -> None:
        looks = {GDI: (theme.blue, "-"), MEAN_GDI: (theme.green, "-."), MOST_PAIRS: (theme.orange, "--")}
        for name, values in areas.items():
            known = np.isfinite(values)
            colour, dash = looks[name]
            axes.plot(steps[known], values[known], "o", color=colour, markersize=2.5, alpha=0.5)
            axes.plot(steps[known], ema(values[known]), color=colour, linestyle=dash, linewidth=2.2, label=name)
        axes.axhline(0.5, color=theme.soft, linewidth=1.2, linestyle=":")
        axes.set(xlabel=STEP_AXIS, ylabel="AUROC for flipped rewards", ylim=(0, 1.02))
        axes.legend(loc="lower left")

    return Panel(
        name="auroc",
        title="Finding flipped rewards, step by step",
        alt=f"AUROC for flipped rewards, mean over steps: {means}; chance 0.5.",
        caption="Dots: each step; lines: smoothed. Dotted: chance. Where the pair count does as well as GDI, the "
        "geometry adds nothing to being in the minority of one's group. Few flips in a step make its AUROC jump.",
        draw=draw,
    )
