"""What the details of a step show: the density of its scores, and its directions before and after the projector."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Circle

from geoalign.lab.reports.figures.style import Panel, Theme
from geoalign.lab.store.rollouts import Density, Details
from geoalign.lab.store.run import Floats, RolloutStep


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


ALIGNED = 0.8
BINS = 40


def share_aligned(cosines: Floats) -> float:
    """Share of cosines above 0.8, as in the paper; NaN without any."""
    return float((cosines > ALIGNED).mean()) if len(cosines) else float("nan")


def cosine_panels(details: Details) -> list[Panel]:
    """Histograms of the pairs' cosines to the prototype, raw and projected, on the same axis."""
    return [
        _cosine_panel(details.step, "before", details.raw_cosine),
        _cosine_panel(details.step, "after", details.projected_cosine),
    ]


def _cosine_panel(step: int, side: str, cosines: Floats) -> Panel:
    share = share_aligned(cosines)

    def draw(axes: Axes, theme: Theme) -> None:
        bins = np.linspace(-1, 1, BINS + 1)
        weights = np.full(len(cosines), 100 / len(cosines))
        axes.hist(np.clip(cosines, -1, 1), bins=bins.tolist(), weights=weights, color=theme.blue)
        axes.axvline(ALIGNED, color=theme.orange, linewidth=2, linestyle="--", label=f"above {ALIGNED}: {share:.0%}")
        axes.set(xlabel="cosine to the prototype", ylabel="pairs, %", xlim=(-1, 1))
        axes.legend(loc="upper left")

    return Panel(
        name=f"cosines-{side}",
        title=f"Cosines {side} projection, step {step}",
        alt=f"Histogram of the cosines of {len(cosines)} pairs to their prototype {side} projection: "
        f"mean {cosines.mean():.2f}, {share:.0%} above {ALIGNED}.",
        caption=f"{len(cosines):,} pairs of step {step}, mean {cosines.mean():.2f}.",
        draw=draw,
    )


def plane_panels(details: Details) -> list[Panel]:
    """The sampled unit directions in the plane of the prototype and of their own widest spread across it."""
    return [
        _plane_panel(details.step, "before", details.raw_plane),
        _plane_panel(details.step, "after", details.projected_plane),
    ]


def _plane_panel(step: int, side: str, plane: Floats) -> Panel:
    aligned = plane[:, 0] > ALIGNED

    def draw(axes: Axes, theme: Theme) -> None:
        axes.add_patch(Circle((0, 0), 1, fill=False, edgecolor=theme.soft, linewidth=1))
        for mask, colour, marker, what in (
            (aligned, theme.blue, "o", f"above {ALIGNED}"),
            (~aligned, theme.orange, "^", f"up to {ALIGNED}"),
        ):
            label = f"{what}: {int(mask.sum())}"
            axes.scatter(plane[mask, 0], plane[mask, 1], s=11, marker=marker, color=colour, linewidths=0, label=label)
        axes.set(
            xlabel="cosine to the prototype", ylabel="widest spread across it", xlim=(-1.05, 1.05), ylim=(-1.05, 1.05)
        )
        axes.set_aspect("equal", anchor="W")
        legend = axes.legend(loc="upper left", bbox_to_anchor=(1.03, 1), markerscale=2, title="cosine")
        legend.get_title().set(color=theme.ink, fontsize=9.5)

    return Panel(
        name=f"directions-{side}",
        title=f"Directions {side} projection, step {step}",
        alt=f"{len(plane)} unit directions {side} projection inside the unit circle; mean cosine to the prototype "
        f"{plane[:, 0].mean():.2f}, {int(aligned.sum())} of them above {ALIGNED}, standard deviation across "
        f"{plane[:, 1].std():.2f}.",
        caption="Each point is the direction from a worse to a better response. Right: agrees with the prototype. Two "
        "of many coordinates: in a large space random directions gather near the centre.",
        draw=draw,
    )
