"""How a run went, step by step: what the curator did and flagged, its projector, and how far the policy moved."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.analysis.run_detection import GDI, MEAN_GDI, MOST_PAIRS, Detection
from geoalign.lab.analysis.statistics import ema
from geoalign.lab.reports.figures.style import STEP_AXIS, Panel, Theme
from geoalign.lab.store.run import Floats, Run, Series


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


def areas_panel(detection: Detection) -> Panel:
    """AUROC over steps for GDI, mean GDI and the pair count, against one half."""
    steps = np.array([step.step for step in detection.steps])
    areas = {name: np.array([step.auroc[name] for step in detection.steps]) for name in (GDI, MEAN_GDI, MOST_PAIRS)}
    means = ", ".join(f"{name} {np.nanmean(values):.2f}" for name, values in areas.items() if np.isfinite(values).any())

    def draw(axes: Axes, theme: Theme) -> None:
        styles = {GDI: (theme.blue, "-"), MEAN_GDI: (theme.green, "-."), MOST_PAIRS: (theme.orange, "--")}
        for name, values in areas.items():
            known = np.isfinite(values)
            colour, dash = styles[name]
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


_CURVES = (
    ("geoalign/train_accuracy", "training pairs", "soft", ":"),
    ("geoalign/heldout_pair_accuracy", "held-out pairs", "orange", "--"),
    ("geoalign/new_group_accuracy", "new groups", "blue", "-"),
)


def projector_panel(run: Run) -> Panel | str:
    """The projector's accuracies over steps against chance, or why they cannot be drawn."""
    curves = [(run.series(key), name, colour, dash) for key, name, colour, dash in _CURVES]
    curves = [item for item in curves if len(item[0])]
    if not curves:
        return f"The curator of this run ({run.curator_name}) logged no projector accuracy: it trains no projector."
    low, high = run.series("geoalign/new_group_accuracy_low"), run.series("geoalign/new_group_accuracy_high")
    chance_series = run.series("geoalign/chance_accuracy")
    chance = float(chance_series.values[-1]) if len(chance_series) else 0.5

    def draw(axes: Axes, theme: Theme) -> None:
        if len(low) and len(low) == len(high):
            axes.fill_between(low.steps, low.values, high.values, color=theme.blue, alpha=0.16, linewidth=0)
        for series, name, colour, dash in curves:
            shade = getattr(theme, colour)
            axes.plot(series.steps, series.values, color=shade, linewidth=0.8, alpha=0.45)
            axes.plot(series.steps, ema(series.values), color=shade, linestyle=dash, linewidth=2.2, label=name)
            if len(series) == 1:
                axes.plot(series.steps, series.values, "o", color=shade)
        axes.axhline(chance, color=theme.ink, linewidth=1.2, linestyle=(0, (1, 2)), label="chance")
        axes.set(xlabel=STEP_AXIS, ylabel="pairs ordered rightly", ylim=(0, 1.03))
        axes.legend(loc="lower left", ncols=2)

    words = "; ".join(f"{name} {series.values.mean():.2f}" for series, name, _, _ in curves)
    return Panel(
        name="projector-accuracy",
        title="Projector accuracy",
        alt=f"Projector accuracy, mean over steps: {words}; chance {chance:g}.",
        caption="Held-out pairs share their rollouts with the training pairs, so their accuracy says when to stop, not "
        "whether the projector generalises. Accuracy on new groups does; its band is the 95% interval that takes "
        "groups as independent.",
        draw=draw,
    )


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
