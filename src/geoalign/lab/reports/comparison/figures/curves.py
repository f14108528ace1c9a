"""Evaluations over steps: all arms with bands over seeds, and seed by seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.analysis.comparison.table import ArmRow, Curve, LevelTable
from geoalign.lab.analysis.statistics import ema
from geoalign.lab.reports.comparison.figures.palette import band, draw_band, legend_above, palette, portions, slug
from geoalign.lab.reports.figures.style import STEP_AXIS, Panel, Theme
from geoalign.lab.store.comparison_plan import METRICS
from geoalign.lab.text import inert, label

_CAPTION = (
    "Mean over seeds; thick: smoothed seed by seed (s = 0.6 s + 0.4 x, from eight evaluations on), thin: unsmoothed; "
    "band: pointwise 95% t interval over seeds, none with fewer than three. Bands that overlap may belong to arms that "
    "differ clearly, since seeds shift all arms alike: see the paired differences."
)


def evaluation_panels(level: LevelTable, metric: str) -> list[Panel | str]:
    """The compared metric over steps, arms in groups of at most six."""
    return _panels(level, "curve", f"evaluation-{slug(level.level)}", METRICS[metric])


def proxy_and_gold_panels(level: LevelTable, metric: str) -> list[Panel | str]:
    """Proxy reward and gold utility over steps, and one against the other, where a gold utility is known.

    The curve of the compared metric is among the evaluation curves already and is left out.
    """
    if not any(row.gold_curve.values.size for row in level.rows):
        return []
    at = slug(level.level)
    proxy = _panels(level, "reward_curve", f"proxy-reward-{at}", "proxy reward") if metric != "reward" else []
    gold = _panels(level, "gold_curve", f"gold-utility-{at}", "gold utility") if metric != "gold_utility" else []
    return [
        *proxy,
        *gold,
        *[_paths(level, part, number) for number, part in enumerate(portions(level.rows), 1)],
    ]


def _panels(level: LevelTable, which: str, name: str, metric: str) -> list[Panel | str]:
    parts = [[row for row in part if getattr(row, which).values.size] for part in portions(level.rows)]
    parts = [part for part in parts if part]
    if not parts:
        return [f"No finished run at {inert(level.level, 40)} has an evaluation with {metric}."]
    return [_panel(level, part, which, name, metric, number) for number, part in enumerate(parts, 1)]


def _panel(level: LevelTable, rows: Sequence[ArmRow], which: str, name: str, metric: str, number: int) -> Panel:
    style = palette(level.rows)
    ends = "; ".join(f"{inert(row.arm, 40)} {_ends(getattr(row, which))}" for row in rows)

    def draw(axes: Axes, theme: Theme) -> None:
        for row in rows:
            draw_band(axes, theme, style[row.arm], getattr(row, which), label(row.arm, 24))
        axes.set(xlabel=STEP_AXIS, ylabel=metric)
        legend_above(axes, len(rows))

    return Panel(
        name=name if number == 1 else f"{name}-{number}",
        title=f"{metric[:1].upper()}{metric[1:]}, {label(level.level, 28)}",
        alt=f"Smoothed mean {metric} over seeds at {inert(level.level, 40)}, first to last: {ends}.",
        caption=_CAPTION,
        draw=draw,
    )


def seeds_panels(level: LevelTable, metric: str) -> list[Panel | str]:
    """Every seed's own curve for the baseline and the primary arm (the paper's stability figure)."""
    rows = [row for row in level.rows if row.role in ("baseline", "primary") and row.curve.values.size]
    if not any(len(row.seeds) > 1 for row in rows):
        return [f"Single seeds are drawn from two seeds on; {inert(level.level, 40)} has fewer."]
    style = palette(level.rows)
    spreads = "; ".join(f"{inert(row.arm, 40)}: {len(row.seeds)} seeds, last {_range(row.curve)}" for row in rows)

    def draw(axes: Axes, theme: Theme) -> None:
        for row in rows:
            colour = getattr(theme, style[row.arm].colour)
            for seed, values in enumerate(row.curve.values):
                known = ~np.isnan(values)
                axes.plot(
                    row.curve.steps[known], ema(values[known]), color=colour, linewidth=1.2, alpha=0.85,
                    linestyle=style[row.arm].dash, label=label(row.arm, 24) if seed == 0 else None,
                )  # fmt: skip
        axes.set(xlabel=STEP_AXIS, ylabel=METRICS[metric])
        legend_above(axes, len(rows))

    return [
        Panel(
            name=f"seeds-{slug(level.level)}",
            title=f"Seed by seed, {label(level.level, 28)}",
            alt=f"One smoothed curve a seed. {spreads}.",
            caption="Each line is one seed, smoothed. Runs of the same seed saw the same prompts in the same order and "
            "the same corrupted slots, whatever the arm.",
            draw=draw,
        )
    ]


def _paths(level: LevelTable, rows: Sequence[ArmRow], number: int) -> Panel:
    style = palette(level.rows)
    known = [row for row in rows if row.gold_curve.values.size and row.reward_curve.values.size]
    words = "; ".join(
        f"{inert(row.arm, 40)}: proxy {_ends(row.reward_curve)}, gold {_ends(row.gold_curve)}" for row in known
    )

    def draw(axes: Axes, theme: Theme) -> None:
        for row in known:
            proxy, gold = path(row)
            colour, look = getattr(theme, style[row.arm].colour), style[row.arm]
            axes.plot(proxy, gold, color=colour, linestyle=look.dash, linewidth=1.8, label=label(row.arm, 24))
            axes.plot(proxy[-1:], gold[-1:], look.marker, color=colour, markersize=7)
        axes.set(xlabel="proxy reward", ylabel="gold utility")
        legend_above(axes, len(known))

    return Panel(
        name=f"proxy-gold-{slug(level.level)}" + (f"-{number}" if number > 1 else ""),
        title=f"Gold against proxy, {label(level.level, 28)}",
        alt=f"Path of gold utility against proxy reward, first to last: {words}.",
        caption="Smoothed means over seeds from the first evaluation to the last (marker). A path that turns down "
        "while it goes right is reward hacking: the proxy still rises, what it stands for falls.",
        draw=draw,
    )


def path(row: ArmRow) -> tuple[np.ndarray, np.ndarray]:
    """Smoothed mean proxy reward and gold utility at the steps that have both."""
    proxy, gold = band(row.reward_curve), band(row.gold_curve)
    common = np.intersect1d(proxy.steps, gold.steps)
    first = proxy.mean[np.searchsorted(proxy.steps, common)]
    return first, gold.mean[np.searchsorted(gold.steps, common)]


def _ends(curve: Curve) -> str:
    means = band(curve).mean
    return f"{means[0]:.3f} to {means[-1]:.3f}" if len(means) else "unknown"


def _range(curve: Curve) -> str:
    last = curve.values[:, -1]
    last = last[~np.isnan(last)]
    return f"{last.min():.3f} to {last.max():.3f}" if len(last) else "unknown"
