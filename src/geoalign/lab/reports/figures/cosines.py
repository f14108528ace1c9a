"""How far the directions of preference agree, before and after the projector."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.reports.figures.style import Panel, Theme
from geoalign.lab.store.columns import Floats
from geoalign.lab.store.rollouts import Details

ALIGNED = 0.8
BINS = 40


def share_aligned(cosines: Floats) -> float:
    """Share of cosines above 0.8, as in the paper; NaN without any."""
    return float((cosines > ALIGNED).mean()) if len(cosines) else float("nan")


def cosine_panels(details: Details) -> list[Panel]:
    """Histograms of the pairs' cosines to the prototype, raw and projected, on the same axis."""
    pictures = (
        ("before", "before projection", details.raw_cosine),
        ("after", "after projection", details.projected_cosine),
    )
    return [_panel(details.step, name, words, cosines) for name, words, cosines in pictures]


def _panel(step: int, name: str, words: str, cosines: Floats) -> Panel:
    share = share_aligned(cosines)

    def draw(axes: Axes, theme: Theme) -> None:
        bins = np.linspace(-1, 1, BINS + 1)
        weights = np.full(len(cosines), 100 / len(cosines))
        axes.hist(np.clip(cosines, -1, 1), bins=bins.tolist(), weights=weights, color=theme.blue)
        axes.axvline(ALIGNED, color=theme.orange, linewidth=2, linestyle="--", label=f"above {ALIGNED}: {share:.0%}")
        axes.set(xlabel="cosine to the prototype", ylabel="pairs, %", xlim=(-1, 1))
        axes.legend(loc="upper left")

    return Panel(
        name=f"cosines-{name}",
        title=f"Cosines {words}, step {step}",
        alt=f"Histogram of the cosines of {len(cosines)} pairs to their prototype {words}: mean {cosines.mean():.2f}, "
        f"{share:.0%} above {ALIGNED}.",
        caption=f"{len(cosines):,} pairs of step {step}, mean {cosines.mean():.2f}.",
        draw=draw,
    )
