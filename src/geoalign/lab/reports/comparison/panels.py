"""The pictures of a comparison's page, and how arms look, the same in every picture: final scores and differences, how
the runs of a level went over seeds, the kept generations' scores."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence

import numpy as np

from geoalign.lab.analysis.comparison.scores import logged_curve
from geoalign.lab.analysis.comparison.table import ArmRow, Curve, LevelTable, Recovery
from geoalign.lab.analysis.statistics import Interval, mean
from geoalign.lab.config.compare import METRICS, CompareConfig
from geoalign.lab.numbers import estimate, share, short, signed
from geoalign.lab.reports.documents import Drawn
from geoalign.lab.reports.figures.curves import ACCURACIES, AGAINST_CHANCE, POLICY, PROJECTOR
from geoalign.lab.reports.figures.scores import RankCurve, rank_curve, rank_panel
from geoalign.lab.reports.figures.style import IntervalPanel, Line, LinePanel, Look, band, interval_line
from geoalign.lab.store.comparison import Snapshot
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


def level_panels(level: LevelTable, plan: CompareConfig) -> list[tuple[str, str, list[Drawn]]]:
    """The sections of a level: name, title, and its pictures or why there are none."""
    ranks: list[Drawn] = []
    projector: list[Drawn] = [f"No GeoAlign arm has a finished run at {visible(level.level, 40)}."]
    if (like := level.reference) is not None:
        ranks, projector = [kept_rank_panel(level, like)], [projector_panel(level, like)]
    return [
        ("recovered", "", recovered_panels(level, level.recovery, plan) if level.recovery else []),
        ("scores", "Final scores", [differences_panel(level, plan)]),
        ("curves", "Evaluation curves", evaluation_panels(level, plan.metric)),
        ("hacking", "Proxy reward against gold utility", hacking_panels(level, plan.metric)),
        ("ranks", "Where corrupted rewards stand in the ranking", ranks),
        ("projector", "Does the projector generalise?", projector),
        ("training", "Training", logged_panels(level, ("reward", "true_reward"))),
        ("policy", "How far the policy moved", logged_panels(level, ("ppo_kl", "clip_fraction"))),
        ("diversity", "pass@k", [pass_at_k_panel(level)]),
    ]


def numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


# --- evaluations ------------------------------------------------------------------------------------------------------

_CAPTION = (
    "Mean over seeds; thick: smoothed seed by seed (s = 0.6 s + 0.4 x, from eight evaluations on), thin: unsmoothed; "
    "band: pointwise 95% t interval over seeds, none with fewer than three. Bands that overlap may belong to arms that "
    "differ clearly, since seeds shift all arms alike: see the paired differences."
)


def evaluation_panels(level: LevelTable, metric: str, name: str = "evaluation") -> list[Drawn]:
    words = METRICS[metric]
    parts = [[row for row in part if row.curves[metric].values.size] for part in portions(level.rows)]
    panels: list[Drawn] = []
    for number, part in enumerate([part for part in parts if part], 1):
        lines = _bands(level, [(row, row.curves[metric]) for row in part])
        ends = "; ".join(f"{visible(row.arm, 40)} {_ends(line)}" for row, line in zip(part, lines, strict=True))
        panels.append(
            LinePanel(
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


def hacking_panels(level: LevelTable, compared: str) -> list[Drawn]:
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


def logged_panels(level: LevelTable, names: Sequence[str]) -> list[Drawn]:
    """A picture of each logged quantity; of how far the policy moved without the arms for which it is always zero."""
    drawn = next(iter(portions(level.rows)), [])
    panels: list[Drawn] = []
    for name in names:
        stem, title, axis, note = _LOGGED[name]
        rows = [row for row in drawn if not (name in POLICY and row.zero_by_construction)]
        if drawn and not rows:
            panels.append(f"{title} is zero by construction: each generation is used for a single update.")
            continue
        curves = [(row, curve) for row in rows if (curve := logged_curve(row.cells, name)).values.size]
        if not curves:
            panels.append(f"{title} was not logged at {visible(level.level, 40)}.")
            continue
        words = "; ".join(f"{visible(row.arm, 40)} {mean(curve.values):.4g}" for row, curve in curves)
        panels.append(
            LinePanel(
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


def projector_panel(level: LevelTable, row: ArmRow) -> Drawn:
    curves = [(words, look, logged_curve(row.cells, name)) for name, words, look in ACCURACIES]
    curves = [item for item in curves if item[-1].values.size]
    if not curves:
        return f"{visible(row.arm, 40)} logged no projector accuracy."
    means = "; ".join(f"{words} {mean(curve.values):.3f}" for words, _, curve in curves)
    return LinePanel(
        f"projector-{slug(level.level)}",
        f"Projector of {label(row.arm, 20)}, {label(level.level, 18)}",
        f"Projector accuracy, mean over seeds and steps: {means}; chance 0.5.",
        f"{PROJECTOR} Bands: 95% interval over seeds.",
        [band(words, look, curve.steps, curve.values) for words, look, curve in curves],
        **AGAINST_CHANCE,
    )


def pass_at_k_panel(level: LevelTable) -> Drawn:
    parts = portions([row for row in level.rows if len(row.pass_at_k) > 1])
    if not parts:
        return f"pass@k for more than one k was not measured at {visible(level.level, 40)}."
    style, lines, words = palette(level.rows), [], []
    for row in parts[0]:
        found = {k: measure.interval for k, measure in row.pass_at_k.items()}
        lines.append(interval_line(label(row.arm, 24), list(found), list(found.values()), style[row.arm]))
        words.append(f"{visible(row.arm, 40)} " + ", ".join(f"{item.estimate:.3f} at {k}" for k, item in found.items()))
    return LinePanel(
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


# --- final scores -----------------------------------------------------------------------------------------------------


def recovered_panels(level: LevelTable, found: Recovery, plan: CompareConfig) -> list[Drawn]:
    """Final scores of the arms over the seeds of the headline; before them the truth, where they are a proxy of it."""
    panels: list[Drawn] = []
    if plan.metric == "reward" and found.truth_known:
        truths = [(arm.row, arm.truth) for arm in found.everyone]
        panels.append(_recovered_panel(level, found, plan, METRICS["gold_utility"], "true-utility", truths))
    scores = [(arm.row, arm.score) for arm in found.everyone]
    panels.append(_recovered_panel(level, found, plan, METRICS[plan.metric], "recovered", scores))
    return panels


def _recovered_panel(
    level: LevelTable,
    found: Recovery,
    plan: CompareConfig,
    metric: str,
    name: str,
    numbers: Sequence[tuple[ArmRow, Interval]],
) -> IntervalPanel:
    style = palette(level.rows)
    baseline = next(number for row, number in numbers if row.arm == plan.baseline)
    values = "; ".join(f"{visible(row.arm, 40)} {short(number.estimate)}" for row, number in numbers)
    seeds = ", ".join(map(str, found.seeds))
    return IntervalPanel(
        f"{name}-{slug(level.level)}",
        f"Final {metric}",
        f"Final {metric}, with seeds {seeds}: {values}.",
        f"Mean of the last {plan.last_evaluations} evaluations and over seeds {seeds}, which all these arms have, with "
        "its 95% interval from three seeds on. Top: no wrong rewards. Dotted: "
        f"{visible(plan.baseline, 40)}, which believes every reward.",
        [(f"{label(row.arm, 22)} {short(number.estimate)}", style[row.arm], number) for row, number in numbers],
        x=metric,
        zero=baseline.estimate,
    )


def differences_panel(level: LevelTable, plan: CompareConfig) -> Drawn:
    rows = [row for row in level.rows if row.role != "baseline" and row.score.difference.pairs]
    if not rows:
        return f"No arm at {visible(level.level, 40)} shares a finished seed with {visible(plan.baseline, 40)}."
    style = palette(level.rows)
    words = "; ".join(f"{visible(row.arm, 40)} {estimate(row.score.difference.interval, signed)}" for row in rows)
    undefined = ", ".join(visible(row.arm, 40) for row in rows if not row.score.difference.defined)
    return IntervalPanel(
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


def robustness_panels(levels: Sequence[LevelTable], plan: CompareConfig) -> list[Drawn]:
    """Final score against the share of corrupted rewards, one picture a kind of corruption and group of arms."""
    panels: list[Drawn] = []
    for kind in dict.fromkeys(tuple(level.corruption) for level in levels if level.corruption):
        same = [level for level in levels if tuple(level.corruption) == kind or level.rate == 0]
        same.sort(key=lambda level: level.rate)
        if len({level.rate for level in same}) > 1:
            panels.extend(_robustness(same, " and ".join(kind), plan))
    return panels or ["Robustness needs at least two levels that differ in the rate of one kind of corruption."]


def _robustness(levels: Sequence[LevelTable], kind: str, plan: CompareConfig) -> list[Drawn]:
    curves: dict[str, list[tuple[float, Interval]]] = {}
    rows: dict[str, ArmRow] = {}
    for row in (row for level in levels for row in level.rows if row.seeds):
        curves.setdefault(row.arm, rate_curve(levels, row.arm))
        if len(curves[row.arm]) > 1:
            rows.setdefault(row.arm, row)
    panels: list[Drawn] = []
    style = palette(list(rows.values()))
    for number, part in enumerate(portions(list(rows.values())), 1):
        words, lines = [], []
        for at, arm in enumerate(row.arm for row in part):
            # Side by side, so that intervals at one rate do not cover each other.
            shift = (at - (len(part) - 1) / 2) * max(level.rate for level in levels) * 1.2
            x, found = [100 * rate + shift for rate, _ in curves[arm]], [item for _, item in curves[arm]]
            lines.append(interval_line(label(arm, 24), x, found, style[arm], bars=True))
            values = ", ".join(f"{item.estimate:.3f} at {share(rate)}" for rate, item in curves[arm])
            words.append(f"{visible(arm, 40)} {values}")
        panels.append(
            LinePanel(
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


def kept_rank_panel(level: LevelTable, row: ArmRow) -> Drawn:
    """The score by rank with crosses at corrupted rollouts, all kept generations of an arm pooled."""
    curves = [curve for cell in row.cells for item in cell.snapshots if len((curve := snapshot_curve(item)).score)]
    if not curves:
        return f"No kept generation of {visible(row.arm, 40)} at {visible(level.level, 40)} has scores."
    return rank_panel(curves, "corrupted", slug(level.level))


def snapshot_curve(snapshot: Snapshot) -> RankCurve:
    """The scored rollouts of a kept generation, lowest score first."""
    unknown = np.zeros(len(snapshot.score), dtype=bool)
    return rank_curve(snapshot.score, unknown if snapshot.corrupted is None else snapshot.corrupted)
