"""What the runs of a level came to: final scores and differences, the kept generations' scores."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from geoalign.lab.analysis.comparison.table import ArmRow, LevelTable
from geoalign.lab.analysis.comparison.verdicts import Recovery
from geoalign.lab.analysis.statistics import Interval
from geoalign.lab.config.compare import METRICS, CompareConfig
from geoalign.lab.numbers import estimate, short, signed
from geoalign.lab.reports.comparison.curves import numbered, palette, portions, slug
from geoalign.lab.reports.figures.scores import RankCurve, rank_curve, rank_panel
from geoalign.lab.reports.figures.style import Panel, interval_line, interval_panel, line_panel
from geoalign.lab.store.comparison import Cell, Snapshot
from geoalign.text import label, visible


def recovered_panel(level: LevelTable, found: Recovery, plan: CompareConfig) -> Panel:
    others = [*(arm.row for arm in found.arms), found.baseline]
    rows = [found.clean, *sorted(others, key=lambda row: -row.score.interval.estimate)]
    style = palette(level.rows)
    scores = [(row, row.score.interval) for row in rows]
    return interval_panel(
        f"recovered-{slug(level.level)}",
        "Final scores",
        f"Final {METRICS[plan.metric]}: "
        + "; ".join(f"{visible(row.arm, 40)} {short(score.estimate)}" for row, score in scores)
        + ".",
        f"Mean of the last {plan.last_evaluations} evaluations and over seeds, with its 95% interval from three "
        f"seeds on. Top: no wrong rewards. Dotted: {visible(found.baseline.arm, 40)}, which believes every reward.",
        [(f"{label(row.arm, 22)} {short(score.estimate)}", style[row.arm], score) for row, score in scores],
        x=METRICS[plan.metric],
        zero=found.baseline.score.interval.estimate,
    )


def differences_panel(level: LevelTable, plan: CompareConfig) -> Panel | str:
    rows = [row for row in level.rows if row.role != "baseline" and row.score.difference.pairs]
    if not rows:
        return f"No arm at {visible(level.level, 40)} shares a finished seed with {visible(plan.baseline, 40)}."
    style = palette(level.rows)
    words = "; ".join(f"{visible(row.arm, 40)} {estimate(row.score.difference.interval, signed)}" for row in rows)
    undefined = ", ".join(visible(row.arm, 40) for row in rows if not row.score.difference.defined)
    return interval_panel(
        f"differences-{slug(level.level)}",
        f"Difference to {label(plan.baseline, 16)}, {label(level.level, 20)}",
        f"Paired differences in {METRICS[plan.metric]} to {visible(plan.baseline, 40)}: {words}.",
        "Mean over paired seeds with its 95% interval, not corrected for the number of arms. The oracle's is "
        "the headroom: where it reaches zero, no curator can be judged."
        + (f" No interval: {undefined}." if undefined else ""),
        [(label(row.arm, 22), style[row.arm], row.score.difference.interval) for row in rows],
        x=f"{METRICS[plan.metric]} minus that of {label(plan.baseline, 24)}",
        zero=0,
    )


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
    curves: dict[str, list[tuple[float, Interval]]] = {}
    rows: dict[str, ArmRow] = {}
    for row in (row for level in levels for row in level.rows if row.seeds):
        curves.setdefault(row.arm, rate_curve(levels, row.arm))
        if len(curves[row.arm]) > 1:
            rows.setdefault(row.arm, row)
    style, panels = palette(list(rows.values())), []
    for number, part in enumerate(portions(list(rows.values())), 1):
        words, lines = [], []
        for at, arm in enumerate(row.arm for row in part):
            # Side by side, so that intervals at one rate do not cover each other.
            shift = (at - (len(part) - 1) / 2) * max(level.rate for level in levels) * 1.2
            x, found = [100 * rate + shift for rate, _ in curves[arm]], [item for _, item in curves[arm]]
            lines.append(interval_line(label(arm, 24), x, found, style[arm], bars=True))
            values = ", ".join(f"{item.estimate:.3f} at {rate:.0%}" for rate, item in curves[arm])
            words.append(f"{visible(arm, 40)} {values}")
        panels.append(
            line_panel(
                numbered(f"robustness-{slug(kind)}", number),
                f"Robustness: {kind}",
                f"Final {METRICS[plan.metric]} by share of corrupted rewards: {'; '.join(words)}.",
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
    rows = [(level.rate, level.row(arm)) for level in levels]
    return [
        (rate, row.score.interval)
        for rate, row in rows
        if row is not None and row.seeds and not math.isnan(row.score.interval.estimate)
    ]


def kept_rank_panel(level: LevelTable, arm: str, cells: Sequence[Cell]) -> Panel | str:
    """The score by rank with crosses at corrupted rollouts, all kept generations pooled."""
    curves = [curve for cell in cells for item in cell.snapshots if len((curve := snapshot_curve(item)).score)]
    if not curves:
        return f"No kept generation of {visible(arm, 40)} at {visible(level.level, 40)} has scores."
    return rank_panel(curves, "corrupted", slug(level.level))


def snapshot_curve(snapshot: Snapshot) -> RankCurve:
    """The scored rollouts of a kept generation, lowest score first."""
    unknown = np.zeros(len(snapshot.score), dtype=bool)
    return rank_curve(snapshot.score, unknown if snapshot.corrupted is None else snapshot.corrupted)
