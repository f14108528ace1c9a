"""How far each update moved the policy: KL and clip fraction."""

from __future__ import annotations

from matplotlib.axes import Axes

from geoalign.lab.analysis.statistics import ema
from geoalign.lab.reports.figures.style import STEP_AXIS, Panel, Theme
from geoalign.lab.store.run import Run, Series

PPO_KL_KEYS = ("ppo_kl", "geoalign/ppo_kl")
CLIP_KEYS = ("clip_ratio/region_mean", "clip_ratio")


def kl_panel(run: Run) -> Panel | str:
    """KL over steps, or why it cannot be drawn."""
    moved = run.series(*PPO_KL_KEYS)
    if len(moved):
        caption = (
            "Mean over tokens of old minus new log-probability (PPO KL), whatever beta is. With one update per "
            "generation it is zero by construction: the policy that is updated is the one that generated. With "
            "several, the first on each batch is zero, hence a saw-tooth."
        )
        return _curve(moved, "kl", "PPO KL", "PPO KL", caption)
    reference = run.series("kl")
    if len(reference):
        caption = "KL to the reference model, as the trainer logs it where beta is above 0."
        return _curve(reference, "kl", "KL to the reference model", "KL", caption)
    return "No KL was logged: neither PPO KL (`ppo_kl`) nor, with beta = 0, a KL to the reference model (`kl`)."


def clip_panel(run: Run) -> Panel | str:
    """Share of clipped tokens over steps, or why it cannot be drawn."""
    clipped = run.series(*CLIP_KEYS)
    if not len(clipped):
        return "No clip fraction was logged (`clip_ratio/region_mean`)."
    caption = (
        "Share of tokens whose probability ratio left the clipping range. Zero by construction in the first update on "
        "each batch, so always with one update per generation."
    )
    return _curve(clipped, "clip-fraction", "Clip fraction", "share of tokens clipped", caption)


def _curve(series: Series, name: str, title: str, axis: str, caption: str) -> Panel:
    def draw(axes: Axes, theme: Theme) -> None:
        axes.plot(series.steps, series.values, color=theme.blue, linewidth=0.8, alpha=0.5)
        axes.plot(
            series.steps, ema(series.values), color=theme.blue, linewidth=2.2, marker="o" if len(series) == 1 else ""
        )
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 3))
        axes.yaxis.get_offset_text().set_color(theme.soft)
        axes.set(xlabel=STEP_AXIS, ylabel=axis)

    zero = " It is zero at every step." if not series.values.any() else ""
    return Panel(
        name=name,
        title=title,
        alt=f"{title} over {len(series)} steps: mean {series.values.mean():.4g}, "
        f"largest {series.values.max():.4g}.{zero}",
        caption=caption + zero,
        draw=draw,
    )
