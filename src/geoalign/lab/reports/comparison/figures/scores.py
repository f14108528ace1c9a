"""Final scores: paired differences to the baseline, robustness against the corruption rate, alpha."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.analysis.comparison.groups import Sweep
from geoalign.lab.analysis.comparison.table import ArmRow, LevelTable, Measure
from geoalign.lab.analysis.statistics import Interval
from geoalign.lab.reports.comparison.figures.palette import legend_above, palette, portions, slug
from geoalign.lab.reports.figures.style import Panel, Theme
from geoalign.lab.store.comparison_plan import METRICS, Plan
from geoalign.lab.text import inert, label


def differences_panel(level: LevelTable, plan: Plan) -> Panel | str:
    """Every arm's paired difference to the baseline with its interval, and the headroom as a band."""
    rows = [row for row in level.rows if row.role != "baseline" and row.score.difference.pairs]
    if not rows:
        return f"No arm at {inert(level.level, 40)} shares a finished seed with {inert(plan.baseline, 40)}."
    style = palette(level.rows)
    differences = [row.score.difference for row in rows]
    words = "; ".join(
        f"{inert(row.arm, 40)} {_words(item.interval)}" for row, item in zip(rows, differences, strict=True)
    )
    undefined = [row.arm for row, item in zip(rows, differences, strict=True) if not item.defined]
    missing = f" No interval: {', '.join(inert(arm, 40) for arm in undefined)}." if undefined else ""

    def draw(axes: Axes, theme: Theme) -> None:
        heights = np.arange(len(rows))[::-1]
        axes.axvline(0, color=theme.ink, linewidth=1.2)
        for height, row, item in zip(heights, rows, differences, strict=True):
            look = style[row.arm]
            axes.errorbar(
                item.interval.estimate, height, xerr=_reach(item.interval), fmt=look.marker, markersize=6, capsize=4,
                linewidth=1.8, color=getattr(theme, look.colour),
            )  # fmt: skip
        axes.set_yticks(heights, [label(row.arm, 22) for row in rows], fontsize=max(6.5, 10 - len(rows) / 5))
        axes.set(
            xlabel=f"{METRICS[plan.metric]} minus that of {label(plan.baseline, 24)}", ylim=(-0.6, len(rows) - 0.4)
        )
        axes.figure.subplots_adjust(left=0.31)

    return Panel(
        name=f"differences-{slug(level.level)}",
        title=f"Difference to {label(plan.baseline, 16)}, {label(level.level, 20)}",
        alt=f"Paired differences in {METRICS[plan.metric]} to {inert(plan.baseline, 40)}: {words}.",
        caption="Mean over paired seeds with its 95% interval, not corrected for the number of arms. The oracle's is "
        f"the headroom: where it reaches zero, no curator can be judged.{missing}",
        draw=draw,
    )


def robustness_panels(levels: Sequence[LevelTable], plan: Plan) -> list[Panel | str]:
    """Final score against the share of corrupted rewards, one picture a kind of corruption and group of arms."""
    kinds = list(dict.fromkeys(tuple(level.corruption) for level in levels if level.corruption))
    panels: list[Panel | str] = []
    for kind in kinds:
        same = sorted(
            (level for level in levels if tuple(level.corruption) == kind or level.rate == 0),
            key=lambda item: item.rate,
        )
        if len({level.rate for level in same}) > 1:
            panels.extend(_robustness(same, " and ".join(kind), plan))
    return panels or ["Robustness needs at least two levels that differ in the rate of one kind of corruption."]


def _robustness(levels: Sequence[LevelTable], kind: str, plan: Plan) -> list[Panel]:
    rows: dict[str, ArmRow] = {}
    for level in levels:
        for row in level.rows:
            if row.seeds and len(rate_curve(levels, row.arm)) > 1:
                rows.setdefault(row.arm, row)
    parts = portions(list(rows.values()))
    return [_robustness_panel(levels, part, list(rows.values()), kind, plan, at) for at, part in enumerate(parts, 1)]


def _robustness_panel(
    levels: Sequence[LevelTable], part: Sequence[ArmRow], rows: Sequence[ArmRow], kind: str, plan: Plan, number: int
) -> Panel:
    style = palette(rows)
    columns = {row.arm: rate_curve(levels, row.arm) for row in part}
    words = "; ".join(
        f"{inert(arm, 40)} " + ", ".join(f"{item.estimate:.3f} at {rate:.0%}" for rate, item in column)
        for arm, column in columns.items()
    )

    def draw(axes: Axes, theme: Theme) -> None:
        width = 100 * max(level.rate for level in levels)
        for at, (arm, column) in enumerate(columns.items()):
            # Side by side, so that intervals at one rate do not cover each other.
            shift = (at - (len(columns) - 1) / 2) * width * 0.012
            rates = [100 * rate + shift for rate, _ in column]
            values = [item.estimate for _, item in column]
            lengths = np.array([_reach(item) for _, item in column])[:, :, 0].T
            look = style[arm]
            axes.errorbar(
                rates, values, yerr=lengths, color=getattr(theme, look.colour), linestyle=look.dash, marker=look.marker,
                markersize=5, capsize=3, linewidth=1.8, label=label(arm, 24),
            )  # fmt: skip
        axes.set(xlabel=f"corrupted rewards ({kind}), %", ylabel=METRICS[plan.metric])
        legend_above(axes, len(columns))

    return Panel(
        name=f"robustness-{slug(kind)}" + (f"-{number}" if number > 1 else ""),
        title=f"Robustness: {kind}",
        alt=f"Final {METRICS[plan.metric]} by share of corrupted rewards: {words}.",
        caption="Final score with its 95% interval over seeds, arms moved a little sideways. These intervals hold the "
        "differences between seeds, which pairing takes out: judge by the paired differences.",
        draw=draw,
    )


def rate_curve(levels: Sequence[LevelTable], arm: str) -> list[tuple[float, Interval]]:
    """Corruption rate and final score of an arm at every level where it has one."""
    rows = [(level.rate, level.row(arm)) for level in levels]
    return [
        (rate, row.score.interval)
        for rate, row in rows
        if row is not None and row.seeds and not math.isnan(row.score.interval.estimate)
    ]


def alpha_panel(level: LevelTable, swept: Sweep, plan: Plan) -> Panel:
    """Final score by alpha, with the baseline as a band."""
    baseline = level.row(plan.baseline)
    words = ", ".join(
        f"{row.score.interval.estimate:.3f} at {value:g}" for value, row in zip(swept.values, swept.rows, strict=True)
    )

    def draw(axes: Axes, theme: Theme) -> None:
        if baseline is not None and baseline.seeds:
            _level_line(axes, theme, baseline.score, label(plan.baseline, 24))
        intervals = [row.score.interval for row in swept.rows]
        lengths = np.array([_reach(item) for item in intervals])[:, :, 0].T
        values = [item.estimate for item in intervals]
        axes.errorbar(swept.values, values, yerr=lengths, color=theme.blue, marker="s", capsize=4, label="GeoAlign")
        axes.set(xlabel="alpha", ylabel=METRICS[plan.metric])
        legend_above(axes, 2)

    return Panel(
        name=f"alpha-{slug(level.level)}",
        title=f"Sensitivity to alpha, {label(level.level, 24)}",
        alt=f"Final {METRICS[plan.metric]} by alpha: {words}.",
        caption="Arms whose settings differ in alpha alone: final score with its 95% interval over seeds, the "
        "baseline's as a band. Of several values the best is partly so by chance; only the primary one was fixed "
        "beforehand.",
        draw=draw,
    )


def _level_line(axes: Axes, theme: Theme, score: Measure, name: str) -> None:
    axes.axhline(score.interval.estimate, color=theme.ink, linewidth=1.6, label=name)
    if not math.isnan(score.interval.low):
        axes.axhspan(score.interval.low, score.interval.high, color=theme.ink, alpha=0.08, linewidth=0)


def _reach(interval: Interval) -> np.ndarray:
    """[2, 1] distances from the estimate to both ends; 0 where there are none."""
    ends = [interval.estimate - interval.low, interval.high - interval.estimate]
    return np.nan_to_num(np.array(ends)).reshape(2, 1)


def _words(interval: Interval) -> str:
    if math.isnan(interval.low):
        return f"{interval.estimate:+.3f} (no interval)"
    return f"{interval.estimate:+.3f} ({interval.low:+.3f} to {interval.high:+.3f})"
