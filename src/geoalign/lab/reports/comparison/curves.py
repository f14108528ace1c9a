"""How the runs of a level went: evaluations, training reward, trust region, projector, pass@k, over seeds; and how arms
look, the same in every picture."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence

from geoalign.lab.analysis.comparison.scores import series_of, stacked
from geoalign.lab.analysis.comparison.table import ArmRow, Curve, LevelTable
from geoalign.lab.analysis.statistics import mean
from geoalign.lab.config.compare import METRICS, CompareConfig
from geoalign.lab.reports.figures.curves import ACCURACIES, POLICY, PROJECTOR, accuracies_panel
from geoalign.lab.reports.figures.style import Line, Look, Panel, band, interval_line, line_panel
from geoalign.lab.store.comparison import Cell
from geoalign.text import label, visible

# More bands than these hide one another: further arms get further pictures, each with the baseline.
PER_PICTURE = 5
_LONGEST_SLUG = 80
_BY_ROLE = {
    "baseline": Look("ink", "o", "-"), "primary": Look("blue", "s", "-"), "control": Look("orange", "D", "--"),
    "oracle": Look("green", "^", "-."), "bound": Look("soft", "v", ":"),
}  # fmt: skip
_OTHERS = (
    Look("purple", "P", "-"), Look("blue", "X", "--"), Look("orange", "s", "-."), Look("green", "D", ":"),
    Look("soft", "^", "-"),
)  # fmt: skip


def palette(rows: Sequence[ArmRow]) -> dict[str, Look]:
    """A look for every arm: baseline, primary arms, control and bounds by their role, further ones in turn."""
    first = {row.role: row.arm for row in reversed(rows) if row.role in _BY_ROLE}
    others = [row.arm for row in rows if row.arm not in first.values()]
    return {arm: _BY_ROLE[role] for role, arm in first.items()} | {
        arm: _OTHERS[at % len(_OTHERS)] for at, arm in enumerate(others)
    }


def portions(rows: Sequence[ArmRow]) -> list[list[ArmRow]]:
    """The arms in pictures of at most six: the planned parts first, then the others beside the baseline."""
    done = [row for row in rows if row.seeds]
    main = [row for row in done if row.role != "exploratory"]
    others = [row for row in done if row.role == "exploratory"]
    if len(done) <= PER_PICTURE + 1:
        return [main + others] if done else []
    baseline = [row for row in done if row.role == "baseline"]
    parts = [baseline + others[at : at + PER_PICTURE] for at in range(0, len(others), PER_PICTURE)]
    return [part for part in [main, *parts] if part]


def slug(level: str) -> str:
    """A level's name in file names and addresses: as it is, or what is left of it with eight digits of its hash."""
    plain = re.sub(r"[^A-Za-z0-9_.+-]+", "-", level)[:_LONGEST_SLUG]
    if plain == level and level:
        return level
    return f"{plain}-{hashlib.sha256(level.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


# --- evaluations ------------------------------------------------------------------------------------------------------

_CAPTION = (
    "Mean over seeds; thick: smoothed seed by seed (s = 0.6 s + 0.4 x, from eight evaluations on), thin: unsmoothed; "
    "band: pointwise 95% t interval over seeds, none with fewer than three. Bands that overlap may belong to arms that "
    "differ clearly, since seeds shift all arms alike: see the paired differences."
)


def evaluation_panels(level: LevelTable, metric: str, name: str = "evaluation") -> list[Panel | str]:
    words = METRICS[metric]
    parts = [[row for row in part if row.curves[metric].values.size] for part in portions(level.rows)]
    panels: list[Panel | str] = []
    for number, part in enumerate([part for part in parts if part], 1):
        lines = _bands(level, [(row, row.curves[metric]) for row in part])
        ends = "; ".join(f"{visible(row.arm, 40)} {_ends(line)}" for row, line in zip(part, lines, strict=True))
        panels.append(
            line_panel(
                numbered(f"{name}-{slug(level.level)}", number),
                f"{words[:1].upper()}{words[1:]}, {label(level.level, 28)}",
                f"Smoothed mean {words} over seeds at {visible(level.level, 40)}, first to last: {ends}.",
                _CAPTION,
                lines,
                y=words,
                legend="above",
            )
        )
    return panels or [f"No finished run at {visible(level.level, 40)} has an evaluation with {words}."]


def hacking_panels(level: LevelTable, compared: str) -> list[Panel | str]:
    """Proxy reward and gold utility over steps where the latter is known; the compared metric's curve stands above."""
    if not any(row.curves["gold_utility"].values.size for row in level.rows):
        return [f"No gold utility is known at {visible(level.level, 40)}, so reward hacking cannot be seen."]
    names = {"reward": "proxy-reward", "gold_utility": "gold-utility"}
    return [panel for key, name in names.items() if key != compared for panel in evaluation_panels(level, key, name)]


def _bands(level: LevelTable, curves: Sequence[tuple[ArmRow, Curve]]) -> list[Line]:
    style = palette(level.rows)
    return [band(label(row.arm, 24), style[row.arm], curve.steps, curve.values) for row, curve in curves]


def _ends(line: Line) -> str:
    return f"{line.smooth[0]:.3f} to {line.smooth[-1]:.3f}"


# --- training ---------------------------------------------------------------------------------------------------------

# Quantity -> file, title, axis, caption.
_LOGGED = {
    "reward": ("training-reward", "Training reward", "mean reward of the batch", "As scored, corrupted ones included."),
    "true_reward": ("true-reward", "True training reward", "mean reward", "Before corruption; nobody trains on it."),
    **{name: words[:4] for name, words in POLICY.items()},
}


def logged_panels(
    level: LevelTable, cells_of: Callable[[ArmRow], Sequence[Cell]], names: Sequence[str], plan: CompareConfig
) -> list[Panel | str]:
    rows = next(iter(portions(level.rows)), [])
    panels: list[Panel | str] = []
    for name in names:
        stem, title, axis, note = _LOGGED[name]
        if name in POLICY and plan.zero_by_construction:
            panels.append(f"{title} is zero by construction: each generation is used for a single update.")
            continue
        curves = [(row, curve) for row in rows if (curve := _logged(cells_of(row), name)).values.size]
        if not curves:
            panels.append(f"{title} was not logged at {visible(level.level, 40)}.")
            continue
        words = "; ".join(f"{visible(row.arm, 40)} {mean(curve.values):.4g}" for row, curve in curves)
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
    return panels


def _logged(cells: Sequence[Cell], name: str) -> Curve:
    return stacked(cells, [series_of(cell, name) for cell in cells])


def projector_panel(level: LevelTable, row: ArmRow, cells: Sequence[Cell]) -> Panel | str:
    curves = [(words, look, _logged(cells, name)) for name, words, look in ACCURACIES]
    curves = [item for item in curves if item[-1].values.size]
    if not curves:
        return f"{visible(row.arm, 40)} logged no projector accuracy."
    means = "; ".join(f"{words} {mean(curve.values):.3f}" for words, _, curve in curves)
    return accuracies_panel(
        f"projector-{slug(level.level)}",
        f"Projector of {label(row.arm, 20)}, {label(level.level, 18)}",
        f"Projector accuracy, mean over seeds and steps: {means}; chance 0.5.",
        f"{PROJECTOR} Bands: 95% interval over seeds.",
        [band(words, look, curve.steps, curve.values) for words, look, curve in curves],
    )


def pass_at_k_panel(level: LevelTable) -> Panel | str:
    parts = portions([row for row in level.rows if len(row.pass_at_k) > 1])
    if not parts:
        return f"pass@k for more than one k was not measured at {visible(level.level, 40)}."
    style, lines, words = palette(level.rows), [], []
    for row in parts[0]:
        found = {k: measure.interval for k, measure in row.pass_at_k.items()}
        lines.append(interval_line(label(row.arm, 24), list(found), list(found.values()), style[row.arm]))
        words.append(f"{visible(row.arm, 40)} " + ", ".join(f"{item.estimate:.3f} at {k}" for k, item in found.items()))
    return line_panel(
        f"pass-at-k-{slug(level.level)}",
        f"pass@k after RL, {label(level.level, 24)}",
        f"pass@k after RL: {'; '.join(words)}.",
        "Chance that one of k answers is right, unbiased estimate, mean over seeds with 95% bands. A flatter "
        "curve means less diverse answers.",
        lines,
        x="k",
        y="pass@k",
        powers=list(parts[0][0].pass_at_k),
        legend="above",
    )
