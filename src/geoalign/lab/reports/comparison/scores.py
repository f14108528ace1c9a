"""What the runs of a level came to: final scores and differences, alpha, detection, the kept generations' scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.analysis.comparison.groups import Sweep
from geoalign.lab.analysis.comparison.recovery import Recovery
from geoalign.lab.analysis.comparison.scores import evaluation_series, mean
from geoalign.lab.analysis.comparison.table import ArmRow, LevelTable
from geoalign.lab.analysis.statistics import Interval
from geoalign.lab.config.compare import METRICS, CompareConfig
from geoalign.lab.reports.comparison.looks import numbered, palette, portions, slug
from geoalign.lab.reports.figures.scores import RankCurve, curve_of, pooled_panel, step_panel, tenths_panel
from geoalign.lab.reports.figures.style import (
    Line,
    Look,
    Panel,
    Theme,
    interval_line,
    interval_panel,
    line_panel,
    name_rows,
)
from geoalign.lab.store.columns import Bools, Floats
from geoalign.lab.store.comparison_results import Cell, Snapshot
from geoalign.lab.text import inert, label, short

BINS = 40
# Rewards of a comparison are corrupted in more ways than by flipping.
WORD = "corrupted"
_SCORE_WORDS = {
    "score": "own score", "mean_score": "score per pair", "pair_count": "pair count, many", "fewest_pairs":
    "pair count, few", "distance": "distance to mean",
}  # fmt: skip


def recovered_panel(level: LevelTable, found: Recovery, cells: Sequence[Cell], plan: CompareConfig) -> Panel:
    """Final scores as bars from the score before RL, with the arm without wrong rewards on top."""
    others = [*(arm.row for arm in found.arms), found.baseline]
    rows = [found.clean, *sorted(others, key=lambda row: -row.score.interval.estimate)]
    curves = [evaluation_series(cell, plan.metric) for cell in cells]
    before = mean(np.array([curve.values[0] for curve in curves if len(curve.steps) and curve.steps[0] == 0]))
    start = 0.0 if math.isnan(before) else before
    style = palette(level.rows)
    words = "; ".join(f"{inert(row.arm, 40)} {short(row.score.interval.estimate)}" for row in rows)

    def draw(axes: Axes, theme: Theme) -> None:
        for height, row in enumerate(reversed(rows)):
            score, colour = row.score.interval, getattr(theme, style[row.arm].colour)
            axes.barh(height, score.estimate - start, left=start, height=0.62, color=colour)
            axes.plot([score.low, score.high], [height, height], color=theme.soft, linewidth=1.6)
            end, named = float(np.nanmax([score.estimate, score.high, start])), short(score.estimate)
            axes.annotate(
                named, (end, height), xytext=(5, 0), textcoords="offset points", va="center", fontsize=10,
                color=theme.ink,
            )  # fmt: skip
        axes.axvline(found.baseline.score.interval.estimate, color=theme.soft, linewidth=1.0, linestyle=":")
        name_rows(axes, [label(row.arm, 22) for row in rows])
        axes.grid(False, axis="y")
        low, high = axes.get_xlim()
        axes.set_xlim(low, high + 0.14 * (high - low))
        axes.set_xlabel(f"{METRICS[plan.metric]}{'' if math.isnan(before) else ', from that before RL'}")

    return Panel(
        name=f"recovered-{slug(level.level)}",
        title="Final scores",
        alt=f"Final {METRICS[plan.metric]}: {words}.",
        caption=f"Mean of the last {plan.last_evaluations} evaluations and over seeds, "
        "with its 95% interval from three seeds on. "
        f"Top: no wrong rewards. Dotted: {inert(found.baseline.arm, 40)}, which believes every reward.",
        draw=draw,
    )


def differences_panel(level: LevelTable, plan: CompareConfig) -> Panel | str:
    """Every arm's paired difference to the baseline with its interval."""
    rows = [row for row in level.rows if row.role != "baseline" and row.score.difference.pairs]
    if not rows:
        return f"No arm at {inert(level.level, 40)} shares a finished seed with {inert(plan.baseline, 40)}."
    style = palette(level.rows)
    words = "; ".join(f"{inert(row.arm, 40)} {_words(row.score.difference.interval)}" for row in rows)
    undefined = ", ".join(inert(row.arm, 40) for row in rows if not row.score.difference.defined)
    return interval_panel(
        f"differences-{slug(level.level)}",
        f"Difference to {label(plan.baseline, 16)}, {label(level.level, 20)}",
        f"Paired differences in {METRICS[plan.metric]} to {inert(plan.baseline, 40)}: {words}.",
        "Mean over paired seeds with its 95% interval, not corrected for the number of arms. The oracle's is "
        "the headroom: where it reaches zero, no curator can be judged."
        + (f" No interval: {undefined}." if undefined else ""),
        [(label(row.arm, 22), style[row.arm], row.score.difference.interval) for row in rows],
        x=f"{METRICS[plan.metric]} minus that of {label(plan.baseline, 24)}",
        zero=0,
    )


def _words(interval: Interval) -> str:
    if math.isnan(interval.low):
        return f"{interval.estimate:+.3f} (no interval)"
    return f"{interval.estimate:+.3f} ({interval.low:+.3f} to {interval.high:+.3f})"


def robustness_panels(levels: Sequence[LevelTable], plan: CompareConfig) -> list[Panel | str]:
    """Final score against the share of corrupted rewards, one picture a kind of corruption and group of arms."""
    panels: list[Panel | str] = []
    for kind in dict.fromkeys(tuple(level.corruption) for level in levels if level.corruption):
        same = [level for level in levels if tuple(level.corruption) == kind or level.rate == 0]
        same.sort(key=lambda level: level.rate)
        if len({level.rate for level in same}) > 1:
            panels.extend(_robustness(same, " and ".join(kind), plan))
    return panels or ["Robustness needs at least two levels that differ in the rate of one kind of corruption."]


def _robustness(levels: Sequence[LevelTable], kind: str, plan: CompareConfig) -> list[Panel]:
    rows: dict[str, ArmRow] = {}
    for level in levels:
        for row in level.rows:
            if row.seeds and len(rate_curve(levels, row.arm)) > 1:
                rows.setdefault(row.arm, row)
    style = palette(list(rows.values()))
    panels = []
    for number, part in enumerate(portions(list(rows.values())), 1):
        columns = {row.arm: rate_curve(levels, row.arm) for row in part}
        words = "; ".join(
            f"{inert(arm, 40)} " + ", ".join(f"{item.estimate:.3f} at {rate:.0%}" for rate, item in column)
            for arm, column in columns.items()
        )
        lines = []
        for at, (arm, column) in enumerate(columns.items()):
            # Side by side, so that intervals at one rate do not cover each other.
            shift = (at - (len(columns) - 1) / 2) * max(level.rate for level in levels) * 1.2
            x, found = [100 * rate + shift for rate, _ in column], [item for _, item in column]
            lines.append(interval_line(label(arm, 24), x, found, style[arm], bars=True))
        panels.append(
            line_panel(
                numbered(f"robustness-{slug(kind)}", number),
                f"Robustness: {kind}",
                f"Final {METRICS[plan.metric]} by share of corrupted rewards: {words}.",
                "Final score with its 95% interval over seeds, arms moved a little sideways. These intervals hold the "
                "differences between seeds, which pairing takes out: judge by the paired differences.",
                lines,
                x=f"corrupted rewards ({kind}), %",
                y=METRICS[plan.metric],
                legend="above",
            )
        )
    return panels


def rate_curve(levels: Sequence[LevelTable], arm: str) -> list[tuple[float, Interval]]:
    """Corruption rate and final score of an arm at every level where it has one."""
    rows = [(level.rate, level.row(arm)) for level in levels]
    return [
        (rate, row.score.interval)
        for rate, row in rows
        if row is not None and row.seeds and not math.isnan(row.score.interval.estimate)
    ]


def alpha_panel(level: LevelTable, swept: Sweep, plan: CompareConfig) -> Panel:
    """Final score by alpha, with the baseline as a band."""
    baseline = level.row(plan.baseline)
    column = [(value, row.score.interval) for value, row in zip(swept.values, swept.rows, strict=True)]
    words = ", ".join(f"{found.estimate:.3f} at {value:g}" for value, found in column)
    lines = [interval_line("GeoAlign", swept.values, [found for _, found in column], Look("blue", "s"), bars=True)]
    if baseline is not None and baseline.seeds:
        ends, found = [swept.values[0], swept.values[-1]], baseline.score.interval
        name = label(plan.baseline, 24)
        lines.insert(0, Line(name, ends, [found.estimate] * 2, [found.low] * 2, [found.high] * 2, look=Look("ink")))
    return line_panel(
        f"alpha-{slug(level.level)}",
        f"Sensitivity to alpha, {label(level.level, 24)}",
        f"Final {METRICS[plan.metric]} by alpha: {words}.",
        "Arms whose settings differ in alpha alone: final score with its 95% interval over seeds, the "
        "baseline's as a band. Of several values the best is partly so by chance; only the primary one was fixed "
        "beforehand.",
        lines,
        x="alpha",
        y=METRICS[plan.metric],
        legend="above",
    )


def detection_panel(level: LevelTable, row: ArmRow) -> Panel | str:
    """AUROC of the arm's score and of every control, with intervals over seeds."""
    if row.detection is None:
        return f"Nothing to detect for {inert(row.arm, 40)} at {inert(level.level, 40)}: no AUROC was recorded."
    known = [item for item in row.detection.rows if not math.isnan(item.auroc.estimate)]
    named = {item.score: _SCORE_WORDS.get(item.score, label(item.score, 24)) for item in known}
    words = "; ".join(f"{named[item.score]} {item.auroc.estimate:.3f}" for item in known)
    own, others = Look("blue", "s"), Look("orange")
    return interval_panel(
        f"detection-{slug(level.level)}",
        f"Finding corruption, {label(row.arm, 16)}, {label(level.level, 16)}",
        f"AUROC for corrupted rewards: {words}; chance 0.5.",
        "Within each generation, mean over generations, 95% interval over seeds. Orange: controls that know "
        "nothing of hidden states; dotted: chance. A control far below 0.5 works turned round.",
        [(named[item.score], own if item.score in ("score", "mean_score") else others, item.auroc) for item in known],
        x="AUROC for corrupted rewards",
        zero=0.5,
        xlim=(0, 1),
    )


# --- kept generations -------------------------------------------------------------------------------------------------


def rank_panels(level: LevelTable, arm: str, cells: Sequence[Cell]) -> list[Panel | str]:
    """GDI by rank with crosses at corrupted rollouts: all kept generations pooled, and the last of the first seed."""
    by_cell = [[snapshot_curve(item) for item in cell.snapshots] for cell in cells]
    by_cell = [[curve for curve in curves if len(curve.score)] for curves in by_cell]
    curves = [curve for one in by_cell for curve in one]
    if not curves:
        return [f"No kept generation of {inert(arm, 40)} at {inert(level.level, 40)} has scores."]
    last = next(one[-1] for one in by_cell if one)
    at = label(level.level, 24)
    drawn: list[tuple[Panel, str, str]] = [
        (pooled_panel(curves, WORD), "rank-pooled", f"GDI by rank, {label(arm, 20)}, {at}"),
        (step_panel(last, WORD), "rank-step", f"One generation, step {last.step}, {at}"),
    ]
    if any(curve.flipped.any() for curve in curves):
        drawn.append((tenths_panel(curves, WORD), "rank-tenths", f"Corrupted by tenth of the ranking, {at}"))
    return [replace(panel, name=f"{name}-{slug(level.level)}", title=title) for panel, name, title in drawn]


def snapshot_curve(snapshot: Snapshot) -> RankCurve:
    """The scored rollouts of a kept generation, lowest score first."""
    return curve_of(snapshot.step, snapshot.score, _marks(snapshot), ~np.isnan(snapshot.score))


def _marks(snapshot: Snapshot) -> Bools:
    return snapshot.corrupted if snapshot.corrupted is not None else np.zeros(len(snapshot.score), dtype=bool)


def distribution_panels(level: LevelTable, arm: str, cells: Sequence[Cell]) -> list[Panel | str]:
    """Cumulative scores beside mean scores, corrupted rollouts apart (the paper's figure on normalisation)."""
    kept = [item for cell in cells for item in cell.snapshots]
    panels: list[Panel | str] = []
    for name, words in (("score", "cumulative"), ("mean_score", "mean")):
        values, marks = pooled_scores(kept, name)
        if len(values):
            panels.append(_distribution(level, arm, name, words, values, marks))
        else:
            panels.append(f"No {words} score of {inert(arm, 40)} at {inert(level.level, 40)} was kept.")
    return panels


def pooled_scores(snapshots: Sequence[Snapshot], name: str) -> tuple[Floats, Bools]:
    """A score of all kept generations, each divided by its generation's median, and whether it was corrupted.

    The median puts generations of different scale together without moving the shape; generations without scores, or
    with a median of 0, are left out.
    """
    values, marks = [np.empty(0)], [np.empty(0, dtype=bool)]
    for item in snapshots:
        score: Floats = getattr(item, name)
        known = ~np.isnan(score)
        middle = float(np.median(score[known])) if known.any() else 0.0
        if middle > 0:
            values.append(score[known] / middle)
            marks.append(_marks(item)[known])
    return np.concatenate(values), np.concatenate(marks)


def _distribution(level: LevelTable, arm: str, name: str, words: str, values: Floats, marks: Bools) -> Panel:
    top = float(np.quantile(values, 0.99))
    outside = int((values > 1.15 * top).sum())
    described = (
        f"median of corrupted ones {np.median(values[marks]):.2f}" if marks.any() else "none is marked as corrupted"
    )

    def draw(axes: Axes, theme: Theme) -> None:
        bins = np.linspace(0, 1.15 * top, BINS + 1).tolist()
        for chosen, colour, title in ((~marks, theme.blue, "uncorrupted"), (marks, theme.orange, "corrupted")):
            if chosen.any():
                weights = np.full(int(chosen.sum()), 100 / chosen.sum())
                axes.hist(
                    values[chosen], bins=bins, weights=weights, histtype="step", linewidth=2, color=colour, label=title
                )
        axes.set(xlabel=f"{words} score / median of its generation", ylabel="rollouts of the kind, %")
        axes.legend(loc="best")

    return Panel(
        name=f"distribution-{name.replace('_', '-')}-{slug(level.level)}",
        title=f"{words.capitalize()} scores, {label(arm, 18)}, {label(level.level, 18)}",
        alt=f"Distribution of {len(values)} {words} scores of {inert(arm, 40)}, in medians of their generation: 99% "
        f"lie below {top:.2f}; {described}.",
        caption=f"{len(values):,} scored rollouts of the kept generations, {int(marks.sum()):,} of them corrupted; 99% "
        f"lie below {top:.2f} medians, {outside} are off the axis. A long tail of corrupted ones is what the "
        "threshold needs; a long tail by itself may be the number of pairs.",
        draw=draw,
    )
