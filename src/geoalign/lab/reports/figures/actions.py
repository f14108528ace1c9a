"""What the curator did at each step."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.reports.figures.style import STEP_AXIS, Panel, Theme
from geoalign.lab.store.columns import Floats
from geoalign.lab.store.run import Run


def action_shares(run: Run) -> tuple[Floats, Floats, Floats]:
    """Steps with scores, and for each the share of its scored rollouts that was flagged and that was replaced."""
    steps = [step for step in run.rollouts if step.scored.any()]
    scored = np.array([step.scored.sum() for step in steps], dtype=np.float64)
    flagged = np.array([step.anomalous.sum() for step in steps], dtype=np.float64)
    replaced = np.array([step.replaced.sum() for step in steps], dtype=np.float64)
    return np.array([step.step for step in steps], dtype=np.float64), flagged / scored, replaced / scored


def actions_panel(run: Run) -> Panel:
    """Flagged and replaced shares over steps."""
    steps, flagged, replaced = action_shares(run)

    def draw(axes: Axes, theme: Theme) -> None:
        top = max(1.0, 110 * float(flagged.max()), 110 * float(replaced.max()))
        mark = "o" if len(steps) < 3 else ""
        axes.plot(steps, 100 * flagged, color=theme.orange, linewidth=2, marker=mark, label="flagged")
        axes.plot(steps, 100 * replaced, color=theme.blue, linewidth=2, linestyle="--", marker=mark, label="replaced")
        axes.set(xlabel=STEP_AXIS, ylabel="% of scored rollouts", ylim=(0, top))
        axes.legend(loc="best")

    return Panel(
        name="actions",
        title="Flagged and replaced",
        alt=f"Share of the scored rollouts, mean over {len(steps)} steps: flagged {flagged.mean():.1%}, "
        f"replaced {replaced.mean():.1%}.",
        caption="Where the lines part, flagged rollouts had no stable donor, or the curator only observed or acts "
        "otherwise than by replacing.",
        draw=draw,
    )
