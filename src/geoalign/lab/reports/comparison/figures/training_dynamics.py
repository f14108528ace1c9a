"""How the runs went: training reward, trust region, projector, pass@k, detection."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.analysis.comparison.scores import series_of, stacked
from geoalign.lab.analysis.comparison.table import ArmRow, Curve, DetectionRow, LevelTable
from geoalign.lab.reports.comparison.figures.palette import Look, draw_band, legend_above, palette, portions, slug
from geoalign.lab.reports.figures.style import STEP_AXIS, Panel, Theme
from geoalign.lab.store.comparison_plan import Plan
from geoalign.lab.store.comparison_results import Cell
from geoalign.lab.text import inert, label

_SCORE_WORDS = {
    "score": "own score", "mean_score": "score per pair", "pair_count": "pair count, many", "fewest_pairs":
    "pair count, few", "distance": "distance to mean",
}  # fmt: skip
# Quantity -> file, title, axis, caption.
_LOGGED = {
    "reward": ("training-reward", "Training reward", "mean reward of the batch", "As scored, corrupted ones included."),
    "true_reward": ("true-reward", "True training reward", "mean reward", "Before corruption; nobody trains on it."),
    "mean_abs_advantage": ("advantages", "Advantages", "mean of |advantage|", "After curation, over the batch."),
    "ppo_kl": ("kl", "PPO KL", "PPO KL", "Old minus new log-probability, mean over tokens, whatever beta is."),
    "clip_fraction": ("clip-fraction", "Clip fraction", "share of tokens", "Tokens outside the clipping range."),
}


def logged_panels(
    level: LevelTable, cells_of: Callable[[ArmRow], Sequence[Cell]], names: Sequence[str], plan: Plan
) -> list[Panel | str]:
    """Logged quantities over steps with bands over seeds: baseline, primary arms, control and bounds."""
    rows = portions(level.rows)[0] if portions(level.rows) else []
    panels: list[Panel | str] = []
    for name in names:
        if name in ("ppo_kl", "clip_fraction") and plan.zero_by_construction:
            panels.append(f"{_LOGGED[name][1]} is zero by construction: each generation is used for a single update.")
            continue
        curves = [(row, stacked(cells_of(row), [series_of(cell, name) for cell in cells_of(row)])) for row in rows]
        curves = [(row, curve) for row, curve in curves if curve.values.size]
        if curves:
            panels.append(_logged_panel(level, name, curves))
        elif name != "mean_abs_advantage":
            panels.append(f"{_LOGGED[name][1]} was not logged at {inert(level.level, 40)}.")
    return panels


def _logged_panel(level: LevelTable, name: str, curves: Sequence[tuple[ArmRow, Curve]]) -> Panel:
    stem, title, axis, note = _LOGGED[name]
    style = palette(level.rows)
    words = "; ".join(f"{inert(row.arm, 40)} {np.nanmean(curve.values):.4g}" for row, curve in curves)

    def draw(axes: Axes, theme: Theme) -> None:
        for row, curve in curves:
            draw_band(axes, theme, style[row.arm], curve, label(row.arm, 24))
        axes.set(xlabel=STEP_AXIS, ylabel=axis)
        legend_above(axes, len(curves))

    return Panel(
        name=f"{stem}-{slug(level.level)}",
        title=f"{title}, {label(level.level, 28)}",
        alt=f"{title} over steps, mean over seeds and steps: {words}.",
        caption=f"{note} Thick: smoothed, mean over seeds with its 95% interval.",
        draw=draw,
    )


def projector_panel(level: LevelTable, row: ArmRow, cells: Sequence[Cell]) -> Panel | str:
    """The projector's accuracy on training pairs, held-out pairs and new groups, with bands over seeds."""
    names = (
        ("train_accuracy", "training pairs", Look("soft", "v", ":")),
        ("heldout_pair_accuracy", "held-out pairs", Look("orange", "D", "--")),
        ("new_group_accuracy", "new groups", Look("blue", "s", "-")),
    )
    curves = [(words, look, stacked(cells, [series_of(cell, name) for cell in cells])) for name, words, look in names]
    curves = [item for item in curves if item[2].values.size]
    if not curves:
        return f"{inert(row.arm, 40)} logged no projector accuracy."
    words_and_means = "; ".join(f"{words} {np.nanmean(curve.values):.3f}" for words, _, curve in curves)

    def draw(axes: Axes, theme: Theme) -> None:
        for words, look, curve in curves:
            draw_band(axes, theme, look, curve, words)
        axes.axhline(0.5, color=theme.ink, linewidth=1.2, linestyle=(0, (1, 2)), label="chance")
        axes.set(xlabel=STEP_AXIS, ylabel="pairs ordered rightly", ylim=(0, 1.03))
        axes.legend(loc="lower left", ncols=2)

    return Panel(
        name=f"projector-{slug(level.level)}",
        title=f"Projector of {label(row.arm, 20)}, {label(level.level, 18)}",
        alt=f"Projector accuracy, mean over seeds and steps: {words_and_means}; chance 0.5.",
        caption="Held-out pairs share rollouts with training pairs; only accuracy on new groups says whether there is "
        "a consensus to trust. Bands: 95% interval over seeds.",
        draw=draw,
    )


def pass_at_k_panel(level: LevelTable) -> Panel | str:
    """pass@k of the last evaluation by arm, with intervals over seeds."""
    parts = portions([row for row in level.rows if len(row.pass_at_k) > 1])
    if not parts:
        return f"pass@k for more than one k was not measured at {inert(level.level, 40)}."
    rows, style = parts[0], palette(level.rows)
    words = "; ".join(
        f"{inert(row.arm, 40)} "
        + ", ".join(f"{item.interval.estimate:.3f} at {k}" for k, item in row.pass_at_k.items())
        for row in rows
    )

    def draw(axes: Axes, theme: Theme) -> None:
        for row in rows:
            look, ks = style[row.arm], list(row.pass_at_k)
            colour = getattr(theme, look.colour)
            intervals = [item.interval for item in row.pass_at_k.values()]
            if not math.isnan(intervals[0].low):
                ends = [item.low for item in intervals], [item.high for item in intervals]
                axes.fill_between(ks, *ends, color=colour, alpha=0.12, linewidth=0)
            axes.plot(
                ks, [item.estimate for item in intervals], color=colour, linestyle=look.dash, marker=look.marker,
                markersize=5, linewidth=1.8, label=label(row.arm, 24),
            )  # fmt: skip
        axes.set_xscale("log", base=2)
        ticks = list(rows[0].pass_at_k)
        axes.set_xticks(ticks, [str(k) for k in ticks])
        axes.set(xlabel="k", ylabel="pass@k")
        legend_above(axes, len(rows))

    return Panel(
        name=f"pass-at-k-{slug(level.level)}",
        title=f"pass@k after RL, {label(level.level, 24)}",
        alt=f"pass@k after RL: {words}.",
        caption="Chance that one of k answers is right, unbiased estimate, mean over seeds with 95% bands. A flatter "
        "curve means less diverse answers.",
        draw=draw,
    )


def detection_panel(level: LevelTable, row: ArmRow) -> Panel | str:
    """AUROC of the arm's score and of every control, with intervals over seeds."""
    if row.detection is None:
        return f"Nothing to detect for {inert(row.arm, 40)} at {inert(level.level, 40)}: no AUROC was recorded."
    rows = [item for item in row.detection.rows if not math.isnan(item.auroc.estimate)]
    words = "; ".join(f"{_named(item)} {item.auroc.estimate:.3f}" for item in rows)

    def draw(axes: Axes, theme: Theme) -> None:
        heights = np.arange(len(rows))[::-1]
        for height, item in zip(heights, rows, strict=True):
            own = item.score in ("score", "mean_score")
            ends = [item.auroc.estimate - item.auroc.low, item.auroc.high - item.auroc.estimate]
            axes.errorbar(
                item.auroc.estimate, height, xerr=np.nan_to_num(np.array(ends)).reshape(2, 1), capsize=4, linewidth=1.8,
                fmt="s" if own else "o", color=theme.blue if own else theme.orange,
            )  # fmt: skip
        axes.axvline(0.5, color=theme.soft, linestyle=":", linewidth=1.2)
        axes.set_yticks(heights, [_named(item) for item in rows])
        axes.set(xlabel="AUROC for corrupted rewards", xlim=(0, 1), ylim=(-0.6, len(rows) - 0.4))
        axes.figure.subplots_adjust(left=0.31)

    return Panel(
        name=f"detection-{slug(level.level)}",
        title=f"Finding corruption, {label(row.arm, 16)}, {label(level.level, 16)}",
        alt=f"AUROC for corrupted rewards: {words}; chance 0.5.",
        caption="Within each generation, mean over generations, 95% interval over seeds. Orange: controls that know "
        "nothing of hidden states; dotted: chance. A control far below 0.5 works turned round.",
        draw=draw,
    )


def _named(item: DetectionRow) -> str:
    return _SCORE_WORDS.get(item.score, label(item.score, 24))
