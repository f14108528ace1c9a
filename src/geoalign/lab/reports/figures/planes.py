"""A two-dimensional view of the directions of preference, before and after the projector."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.patches import Circle

from geoalign.lab.reports.figures.cosines import ALIGNED
from geoalign.lab.reports.figures.style import Panel, Theme
from geoalign.lab.store.columns import Floats
from geoalign.lab.store.rollouts import Details


def plane_panels(details: Details) -> list[Panel]:
    """The sampled unit directions in the plane of the prototype and of their own widest spread across it."""
    pictures = (
        ("before", "before projection", details.raw_plane),
        ("after", "after projection", details.projected_plane),
    )
    return [_panel(details.step, name, words, plane) for name, words, plane in pictures]


def _panel(step: int, name: str, words: str, plane: Floats) -> Panel:
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
        name=f"directions-{name}",
        title=f"Directions {words}, step {step}",
        alt=f"{len(plane)} unit directions {words} inside the unit circle; mean cosine to the prototype "
        f"{plane[:, 0].mean():.2f}, {int(aligned.sum())} of them above {ALIGNED}, standard deviation across "
        f"{plane[:, 1].std():.2f}.",
        caption="Each point is the direction from a worse to a better response. Right: agrees with the prototype. Two "
        "of many coordinates: in a large space random directions gather near the centre.",
        draw=draw,
    )
