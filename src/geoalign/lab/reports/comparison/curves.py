"""How the runs of a level went: evaluations, training reward, trust region, projector, pass@k, over seeds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from geoalign.lab.analysis.comparison.scores import series_of, stacked
from geoalign.lab.analysis.comparison.table import ArmRow, Curve, LevelTable
from geoalign.lab.analysis.statistics import ema, seed_interval
from geoalign.lab.config.compare import METRICS, CompareConfig
from geoalign.lab.reports.comparison.looks import numbered, palette, portions, slug
from geoalign.lab.reports.figures.curves import ACCURACIES, SMOOTHED_FROM
from geoalign.lab.reports.figures.style import Line, Look, Panel, interval_line, line_panel
from geoalign.lab.store.columns import Floats
from geoalign.lab.store.comparison_results import Cell
from geoalign.lab.text import inert, label

_CAPTION = (
    "Mean over seeds; thick: smoothed seed by seed (s = 0.6 s + 0.4 x, from eight evaluations on), thin: unsmoothed; "
    "band: pointwise 95% t interval over seeds, none with fewer than three. Bands that overlap may belong to arms that "
    "differ clearly, since seeds shift all arms alike: see the paired differences."
)


_PLAIN = Look("blue")


def band(curve: Curve, name: str = "", look: Look = _PLAIN) -> Line:
    """Smooths each seed's curve (from eight points on; s = 0.6 s + 0.4 x), then takes mean and t interval over seeds.

    A step that a seed lacks is left out for that seed. The unsmoothed mean is drawn thin.
    """
    smooth = np.full_like(curve.values, np.nan)
    for row, values in enumerate(curve.values):
        known = ~np.isnan(values)
        smooth[row, known] = ema(values[known]) if known.sum() >= SMOOTHED_FROM else values[known]
    intervals = [seed_interval(column) for column in smooth.T]
    return Line(
        name,
        curve.steps,
        np.array([seed_interval(column).estimate for column in curve.values.T]),
        low=np.array([item.low for item in intervals]),
        high=np.array([item.high for item in intervals]),
        smooth=np.array([item.estimate for item in intervals]),
        look=look,
    )


# --- evaluations ------------------------------------------------------------------------------------------------------


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
    return [*proxy, *gold, *[_paths(level, part, number) for number, part in enumerate(portions(level.rows), 1)]]


def _panels(level: LevelTable, which: str, name: str, metric: str) -> list[Panel | str]:
    parts = [[row for row in part if getattr(row, which).values.size] for part in portions(level.rows)]
    panels: list[Panel | str] = []
    for number, part in enumerate([part for part in parts if part], 1):
        ends = "; ".join(f"{inert(row.arm, 40)} {_ends(getattr(row, which))}" for row in part)
        panels.append(
            line_panel(
                numbered(name, number),
                f"{metric[:1].upper()}{metric[1:]}, {label(level.level, 28)}",
                f"Smoothed mean {metric} over seeds at {inert(level.level, 40)}, first to last: {ends}.",
                _CAPTION,
                _bands(level, [(row, getattr(row, which)) for row in part]),
                y=metric,
                legend="above",
            )
        )
    return panels or [f"No finished run at {inert(level.level, 40)} has an evaluation with {metric}."]


def _bands(level: LevelTable, curves: Sequence[tuple[ArmRow, Curve]]) -> list[Line]:
    style = palette(level.rows)
    return [band(curve, label(row.arm, 24), style[row.arm]) for row, curve in curves]


def seeds_panels(level: LevelTable, metric: str) -> list[Panel | str]:
    """Every seed's own curve for the baseline and the primary arm (the paper's stability figure)."""
    rows = [row for row in level.rows if row.role in ("baseline", "primary") and row.curve.values.size]
    if not any(len(row.seeds) > 1 for row in rows):
        return [f"Single seeds are drawn from two seeds on; {inert(level.level, 40)} has fewer."]
    style = palette(level.rows)
    spreads = "; ".join(f"{inert(row.arm, 40)}: {len(row.seeds)} seeds, last {_range(row.curve)}" for row in rows)
    lines = []
    for row in rows:
        for seed, values in enumerate(row.curve.values):
            known, name = ~np.isnan(values), label(row.arm, 24) if seed == 0 else "_further"
            lines.append(Line(name, row.curve.steps[known], ema(values[known]), look=style[row.arm]))
    return [
        line_panel(
            f"seeds-{slug(level.level)}",
            f"Seed by seed, {label(level.level, 28)}",
            f"One smoothed curve a seed. {spreads}.",
            "Each line is one seed, smoothed. Runs of the same seed saw the same prompts in the same order and "
            "the same corrupted slots, whatever the arm.",
            lines,
            y=METRICS[metric],
            legend="above",
        )
    ]


def _paths(level: LevelTable, rows: Sequence[ArmRow], number: int) -> Panel:
    style = palette(level.rows)
    known = [row for row in rows if row.gold_curve.values.size and row.reward_curve.values.size]
    words = "; ".join(
        f"{inert(row.arm, 40)}: proxy {_ends(row.reward_curve)}, gold {_ends(row.gold_curve)}" for row in known
    )
    lines = []
    for row in known:
        proxy, gold = path(row)
        lines.append(Line(label(row.arm, 24), proxy, gold, look=style[row.arm]))
        lines.append(Line("_end", proxy[-1:], gold[-1:], look=style[row.arm]))
    return line_panel(
        numbered(f"proxy-gold-{slug(level.level)}", number),
        f"Gold against proxy, {label(level.level, 28)}",
        f"Path of gold utility against proxy reward, first to last: {words}.",
        "Smoothed means over seeds from the first evaluation to the last (marker). A path that turns down "
        "while it goes right is reward hacking: the proxy still rises, what it stands for falls.",
        lines,
        x="proxy reward",
        y="gold utility",
        legend="above",
    )


def path(row: ArmRow) -> tuple[Floats, Floats]:
    """Smoothed mean proxy reward and gold utility at the steps that have both."""
    proxy, gold = row.reward_curve, row.gold_curve
    common = np.intersect1d(proxy.steps, gold.steps)
    pair = (np.asarray(band(curve).smooth)[np.searchsorted(curve.steps, common)] for curve in (proxy, gold))
    first, second = pair
    return first, second


def _ends(curve: Curve) -> str:
    means = band(curve).smooth
    return f"{means[0]:.3f} to {means[-1]:.3f}" if len(means) else "unknown"


def _range(curve: Curve) -> str:
    last = curve.values[:, -1]
    last = last[~np.isnan(last)]
    return f"{last.min():.3f} to {last.max():.3f}" if len(last) else "unknown"


# --- training ---------------------------------------------------------------------------------------------------------

# Quantity -> file, title, axis, caption.
_LOGGED = {
    "reward": ("training-reward", "Training reward", "mean reward of the batch", "As scored, corrupted ones included."),
    "true_reward": ("true-reward", "True training reward", "mean reward", "Before corruption; nobody trains on it."),
    "mean_abs_advantage": ("advantages", "Advantages", "mean of |advantage|", "After curation, over the batch."),
    "ppo_kl": ("kl", "PPO KL", "PPO KL", "Old minus new log-probability, mean over tokens, whatever beta is."),
    "clip_fraction": ("clip-fraction", "Clip fraction", "share of tokens", "Tokens outside the clipping range."),
}


def logged_panels(
    level: LevelTable, cells_of: Callable[[ArmRow], Sequence[Cell]], names: Sequence[str], plan: CompareConfig
) -> list[Panel | str]:
    """Logged quantities over steps with bands over seeds: baseline, primary arms, control and bounds."""
    rows = portions(level.rows)[0] if portions(level.rows) else []
    panels: list[Panel | str] = []
    for name in names:
        stem, title, axis, note = _LOGGED[name]
        if name in ("ppo_kl", "clip_fraction") and plan.zero_by_construction:
            panels.append(f"{title} is zero by construction: each generation is used for a single update.")
            continue
        curves = [(row, _logged(cells_of(row), name)) for row in rows]
        curves = [(row, curve) for row, curve in curves if curve.values.size]
        words = "; ".join(f"{inert(row.arm, 40)} {np.nanmean(curve.values):.4g}" for row, curve in curves)
        if curves:
            panels.append(
                line_panel(
                    f"{stem}-{slug(level.level)}",
                    f"{title}, {label(level.level, 28)}",
                    f"{title} over steps, mean over seeds and steps: {words}.",
                    f"{note} Thick: smoothed, mean over seeds with its 95% interval.",
                    _bands(level, curves),
                    y=axis,
                    legend="above",
                )
            )
        elif name != "mean_abs_advantage":
            panels.append(f"{title} was not logged at {inert(level.level, 40)}.")
    return panels


def _logged(cells: Sequence[Cell], name: str) -> Curve:
    return stacked(cells, [series_of(cell, name) for cell in cells])


def projector_panel(level: LevelTable, row: ArmRow, cells: Sequence[Cell]) -> Panel | str:
    """The projector's accuracy on training pairs, held-out pairs and new groups, with bands over seeds."""
    curves = [(_logged(cells, name), words, look) for name, words, look in ACCURACIES]
    curves = [item for item in curves if item[0].values.size]
    if not curves:
        return f"{inert(row.arm, 40)} logged no projector accuracy."
    means = "; ".join(f"{words} {np.nanmean(curve.values):.3f}" for curve, words, _ in curves)
    return line_panel(
        f"projector-{slug(level.level)}",
        f"Projector of {label(row.arm, 20)}, {label(level.level, 18)}",
        f"Projector accuracy, mean over seeds and steps: {means}; chance 0.5.",
        "Held-out pairs share rollouts with training pairs; only accuracy on new groups says whether there is "
        "a consensus to trust. Bands: 95% interval over seeds.",
        [band(*item) for item in curves],
        y="pairs ordered rightly",
        ylim=(0, 1.03),
        chance=0.5,
        legend="lower left",
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
    lines = [
        interval_line(
            label(row.arm, 24), list(row.pass_at_k), [item.interval for item in row.pass_at_k.values()], style[row.arm]
        )
        for row in rows
    ]
    return line_panel(
        f"pass-at-k-{slug(level.level)}",
        f"pass@k after RL, {label(level.level, 24)}",
        f"pass@k after RL: {words}.",
        "Chance that one of k answers is right, unbiased estimate, mean over seeds with 95% bands. A flatter "
        "curve means less diverse answers.",
        lines,
        x="k",
        y="pass@k",
        powers=list(rows[0].pass_at_k),
        legend="above",
    )
