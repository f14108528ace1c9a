"""Does the projector generalise? Its accuracy on pairs it saw, on held-out pairs and on new groups."""

from __future__ import annotations

from matplotlib.axes import Axes

from geoalign.lab.analysis.statistics import ema
from geoalign.lab.reports.figures.style import STEP_AXIS, Panel, Theme
from geoalign.lab.store.run import Run

_CURVES = (
    ("geoalign/train_accuracy", "training pairs", "soft", ":"),
    ("geoalign/heldout_pair_accuracy", "held-out pairs", "orange", "--"),
    ("geoalign/new_group_accuracy", "new groups", "blue", "-"),
)


def projector_panel(run: Run) -> Panel | str:
    """The projector's accuracies over steps against chance, or why they cannot be drawn."""
    found = [(run.series(key), name, colour, dash) for key, name, colour, dash in _CURVES]
    found = [item for item in found if len(item[0])]
    if not found:
        return f"The curator of this run ({run.curator_name}) logged no projector accuracy: it trains no projector."
    low, high = run.series("geoalign/new_group_accuracy_low"), run.series("geoalign/new_group_accuracy_high")
    chance_series = run.series("geoalign/chance_accuracy")
    chance = float(chance_series.values[-1]) if len(chance_series) else 0.5

    def draw(axes: Axes, theme: Theme) -> None:
        if len(low) and len(low) == len(high):
            axes.fill_between(low.steps, low.values, high.values, color=theme.blue, alpha=0.16, linewidth=0)
        for series, name, colour, dash in found:
            shade = getattr(theme, colour)
            axes.plot(series.steps, series.values, color=shade, linewidth=0.8, alpha=0.45)
            axes.plot(series.steps, ema(series.values), color=shade, linestyle=dash, linewidth=2.2, label=name)
            if len(series) == 1:
                axes.plot(series.steps, series.values, "o", color=shade)
        axes.axhline(chance, color=theme.ink, linewidth=1.2, linestyle=(0, (1, 2)), label="chance")
        axes.set(xlabel=STEP_AXIS, ylabel="pairs ordered rightly", ylim=(0, 1.03))
        axes.legend(loc="lower left", ncols=2)

    words = "; ".join(f"{name} {series.values.mean():.2f}" for series, name, _, _ in found)
    return Panel(
        name="projector-accuracy",
        title="Projector accuracy",
        alt=f"Projector accuracy, mean over steps: {words}; chance {chance:g}.",
        caption="Held-out pairs share their rollouts with the training pairs, so their accuracy says when to stop, not "
        "whether the projector generalises. Accuracy on new groups does; its band is the 95% interval that takes "
        "groups as independent.",
        draw=draw,
    )
