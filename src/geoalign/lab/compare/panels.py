"""The pictures of a comparison's page, and how arms look, the same in every picture: final scores and differences, how
the runs of a level went over seeds, the kept generations' scores."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from geoalign.console.numbers import estimate, score_writers, share, signed
from geoalign.lab.compare.cell_numbers import logged_curve
from geoalign.lab.compare.results import Snapshot
from geoalign.lab.compare.settings import METRICS, CompareConfig
from geoalign.lab.compare.table import ArmRow, Curve, LevelTable
from geoalign.lab.runs.curves import ACCURACIES, AGAINST_CHANCE, POLICY, PROJECTOR
from geoalign.pages.documents import Drawn
from geoalign.pages.score_panels import RankCurve, rank_curve, rank_panel
from geoalign.pages.style import IntervalPanel, Line, LinePanel, Look, band, interval_line
from geoalign.statistics import Interval, mean
from geoalign.text import label, visible

# More bands than these hide one another: further arms get further pictures, each with the baseline.
PER_PICTURE = 5
_LONGEST_SLUG = 80
# Which arms come first where there are too many for a picture.
_WEIGHTS = {"baseline": 0, "primary": 1, "oracle": 2, "bound": 3, "control": 4}
_BY_ROLE = {
    "baseline": Look("ink", "o", "-"), "primary": Look("blue", "s", "-"), "control": Look("orange", "D", "--"),
    "oracle": Look("green", "^", "-."), "bound": Look("yellow", "v", ":"),
}  # fmt: skip
_OTHERS = (
    Look("purple", "P", "-"), Look("orange", "s", "-."), Look("green", "D", ":"), Look("blue", "X", "--"),
    Look("soft", "^", "-"), Look("purple", "v", "--"), Look("orange", "P", ":"), Look("blue", "D", "-."),
    Look("green", "s", "--"), Look("soft", "X", "-."),
)  # fmt: skip


def palette(plan: CompareConfig) -> dict[str, Look]:
    """A look for every arm, the same at every level: the first of each role has that role's, further ones in turn."""
    looks: dict[str, Look] = {}
    for role, look in _BY_ROLE.items():
        first = next((arm for arm in plan.arms if plan.role(arm) == role), None)
        if first is not None:
            looks[first] = look
    others = [arm for arm in plan.arms if arm not in looks]
    # Primary arms stand together in pictures: their looks must differ.
    others.sort(key=lambda arm: _WEIGHTS.get(plan.role(arm), len(_WEIGHTS)))
    return looks | {arm: _OTHERS[at % len(_OTHERS)] for at, arm in enumerate(others)}


def leading_rows(rows: Sequence[ArmRow]) -> list[ArmRow]:
    """The arms of the first pictures, at most six: the planned ones, then others as long as there is room."""
    done = [row for row in rows if row.seeds]
    by_weight = sorted(done, key=lambda row: _WEIGHTS.get(row.role, len(_WEIGHTS)))
    chosen = {row.arm for row in by_weight[: PER_PICTURE + 1]}
    return [row for row in done if row.arm in chosen]


def further_rows(rows: Sequence[ArmRow]) -> list[list[ArmRow]]:
    """The other arms, in pictures of the baseline and at most five of them."""
    leading = leading_rows(rows)
    baseline = [row for row in leading if row.role == "baseline"]
    others = [row for row in rows if row.seeds and row not in leading]
    return [baseline + others[at : at + PER_PICTURE] for at in range(0, len(others), PER_PICTURE)]


def slug(level: str) -> str:
    """A level's name in file names and addresses: as it is, or what is left of it with eight digits of its hash."""
    plain = re.sub(r"[^A-Za-z0-9_.+-]+", "-", level)[:_LONGEST_SLUG]
    if plain == level and level:
        return level
    return f"{plain}-{hashlib.sha256(level.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def leading_panels(level: LevelTable, plan: CompareConfig) -> list[Drawn]:
    """The pictures that a level opens with: how the arms went by the truth, and the gains over the baseline; the reward
    that they were trained on where it is a proxy, or where the true one is not known."""
    rows = leading_rows(level.rows)
    if _opens_with_proxy(rows, plan):
        curves = [
            evaluation_panel(level, plan, "gold_utility", rows),
            evaluation_panel(level, plan, "reward", rows, PROXY),
        ]
    else:
        beside = "true_reward" if _logs_true_rewards(rows) else "reward"
        curves = [evaluation_panel(level, plan, plan.metric, rows), logged_panel(level, plan, beside, rows)]
    return [*curves, differences_panel(level, plan)]


def _opens_with_proxy(rows: Sequence[ArmRow], plan: CompareConfig) -> bool:
    return plan.metric == "reward" and any(row.curves["gold_utility"].values.size for row in rows)


def _logs_true_rewards(rows: Sequence[ArmRow]) -> bool:
    return any(logged_curve(row.cells, "true_reward").values.size for row in rows)


def further_panels(level: LevelTable, plan: CompareConfig) -> list[tuple[str, str, list[Drawn]]]:
    """The other pictures of a level in sections: name, title, and the pictures or why there are none."""
    rows = leading_rows(level.rows)
    truth: list[Drawn] = []
    if plan.metric != "reward":
        # Of a task whose reward is an accuracy there is no gold reward; where it is known, the proxy stands beside it.
        known = any(row.curves["gold_utility"].values.size for row in rows)
        others = [("gold_utility", METRICS["gold_utility"]), ("reward", PROXY)] if known else []
        truth = [evaluation_panel(level, plan, name, rows, words) for name, words in others if name != plan.metric]
    of_others = [
        evaluation_panel(level, plan, plan.metric, part, number=number)
        for number, part in enumerate(further_rows(level.rows), 2)
    ]
    # What a level opens with is not drawn again.
    opens_with_true = _logs_true_rewards(rows) and not _opens_with_proxy(rows, plan)
    training = [logged_panel(level, plan, "reward" if opens_with_true else "true_reward", rows)]
    ranks: list[Drawn] = []
    projector: list[Drawn] = []
    like = level.reference
    if like is not None:
        ranks = [kept_rank_panel(level, like)]
        projector = [projector_panel(level, like)]
    return [
        ("others", "The other arms", of_others),
        ("truth", "Proxy and gold reward", truth),
        ("training", "Rewards during training", training),
        ("ranks", "Where wrong rewards stand in the ranking by the score", ranks),
        ("projector", "Does the projector generalise?", projector),
        ("policy", "How far the policy went from the one that sampled", logged_panels(level, plan, list(POLICY), rows)),
        ("diversity", "pass@k", [pass_at_k_panel(level, plan)]),
    ]


def numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


# --- evaluations ------------------------------------------------------------------------------------------------------

_CAPTION = (
    "Mean over seeds, smoothed where it is thick. Bands are 95% intervals over seeds, from three seeds on. Bands may "
    "overlap although the arms differ clearly, because a seed shifts all arms alike: the gains are paired by seed."
)


PROXY = "proxy reward"
# Of a second evaluated quantity in file names; the compared one is "evaluation".
_FILES = {"gold reward": "gold-reward", PROXY: "proxy-reward"}


def evaluation_panel(
    level: LevelTable, plan: CompareConfig, metric: str, rows: Sequence[ArmRow], words: str = "", number: int = 1
) -> Drawn:
    """A quantity of the evaluations over steps, a line for each arm; `words` name it, where not as usual."""
    words = words or METRICS[metric]
    drawn = [row for row in rows if row.curves[metric].values.size]
    if not drawn:
        return f"No finished run at {visible(level.level, 40)} has an evaluation with {words}."
    lines = _bands(plan, [(row, row.curves[metric]) for row in drawn])
    ends = "; ".join(f"{visible(row.arm, 40)} {_ends(line)}" for row, line in zip(drawn, lines, strict=True))
    file = _FILES.get(words, "evaluation")
    return LinePanel(
        numbered(f"{file}-{slug(level.level)}", number),
        f"{words[:1].upper()}{words[1:]} on problems kept aside",
        f"Smoothed mean {words} over seeds at {visible(level.level, 40)}, first to last: {ends}.",
        _CAPTION,
        lines,
        y=words,
        legend="above",
    )


def _bands(plan: CompareConfig, curves: Sequence[tuple[ArmRow, Curve]]) -> list[Line]:
    style = palette(plan)
    return [band(label(row.arm, 24), style[row.arm], curve.steps, curve.values) for row, curve in curves]


def _ends(line: Line) -> str:
    return f"{line.smooth[0]:.3f} to {line.smooth[-1]:.3f}"


# --- training ---------------------------------------------------------------------------------------------------------

# Quantity -> file, title, axis, caption.
_LOGGED = {
    "reward": (
        "training-reward",
        "Reward during training, wrong ones included",
        "mean reward of the batch",
        "As the arms were given it: not what they are judged by.",
    ),
    "true_reward": (
        "true-reward",
        "True reward during training",
        "mean true reward of the batch",
        "The same batches without wrong rewards. Nothing is trained on it.",
    ),
    **{name: words[:4] for name, words in POLICY.items()},
}


# Of these no value is below 0.
_SHARES = ("clip_fraction",)


def logged_panels(level: LevelTable, plan: CompareConfig, names: Sequence[str], rows: Sequence[ArmRow]) -> list[Drawn]:
    """A picture of each logged quantity; of how far the policy went without the arms for which it is always zero."""
    panels: list[Drawn] = []
    for name in names:
        moving = [row for row in rows if not (name in POLICY and row.zero_by_construction)]
        if rows and not moving:
            panels.append(f"{_LOGGED[name][1]} is zero by construction: each generation is used for a single update.")
        else:
            panels.append(logged_panel(level, plan, name, moving))
    return panels


def logged_panel(level: LevelTable, plan: CompareConfig, name: str, rows: Sequence[ArmRow]) -> Drawn:
    """A logged quantity over steps, a line for each arm."""
    stem, title, axis, note = _LOGGED[name]
    curves = []
    for row in rows:
        curve = logged_curve(row.cells, name)
        if curve.values.size:
            curves.append((row, curve))
    if not curves:
        return f"{title} was not logged at {visible(level.level, 40)}."
    words = "; ".join(f"{visible(row.arm, 40)} {mean(curve.values):.4g}" for row, curve in curves)
    lines = _bands(plan, curves)
    if name in _SHARES:
        # An interval over few seeds may reach below what a share can be.
        lines = [replace(line, low=np.maximum(line.low, 0)) for line in lines]
    return LinePanel(
        f"{stem}-{slug(level.level)}",
        title,
        f"{title} over steps at {visible(level.level, 40)}, mean over seeds and steps: {words}.",
        f"{note} Thick: smoothed, mean over seeds with its 95% interval.",
        lines,
        y=axis,
        scientific=name in POLICY,
        legend="above",
    )


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


def pass_at_k_panel(level: LevelTable, plan: CompareConfig) -> Drawn:
    rows = leading_rows([row for row in level.rows if len(row.pass_at_k) > 1])
    if not rows:
        return f"pass@k for more than one k was not measured at {visible(level.level, 40)}."
    style = palette(plan)
    lines = []
    words = []
    for row in rows:
        found = {k: measure.interval for k, measure in row.pass_at_k.items()}
        lines.append(interval_line(label(row.arm, 24), list(found), list(found.values()), style[row.arm]))
        words.append(f"{visible(row.arm, 40)} " + ", ".join(f"{item.estimate:.3f} at {k}" for k, item in found.items()))
    return LinePanel(
        f"pass-at-k-{slug(level.level)}",
        f"pass@k after RL, {label(level.level, 24)}",
        f"pass@k after RL: {'; '.join(words)}.",
        "Chance that one of k answers is correct: unbiased estimate, mean over seeds with 95% bands. A flatter "
        "curve means less diverse answers.",
        lines,
        x="k",
        y="pass@k",
        powers=list(rows[0].pass_at_k),
        legend="above",
    )


# --- final scores -----------------------------------------------------------------------------------------------------


def differences_panel(level: LevelTable, plan: CompareConfig) -> Drawn:
    rows = [row for row in level.rows if row.role != "baseline" and row.score.difference.pairs]
    if not rows:
        return f"No arm at {visible(level.level, 40)} shares a finished seed with {visible(plan.baseline, 40)}."
    style = palette(plan)
    _, write = score_writers(plan.metric)
    gold = any(not math.isnan(row.gold.interval.estimate) for row in level.rows)
    metric = PROXY if plan.metric == "reward" and gold else METRICS[plan.metric]
    words = "; ".join(f"{visible(row.arm, 40)} {estimate(row.score.difference.interval, signed)}" for row in rows)
    undefined = ", ".join(visible(row.arm, 40) for row in rows if not row.score.difference.defined)
    return IntervalPanel(
        f"differences-{slug(level.level)}",
        f"Gain in final {metric} over {label(plan.baseline, 20)}",
        f"Paired gains in {metric} over {visible(plan.baseline, 40)}: {words}.",
        "Mean over the seeds that both have, with its 95% interval, not corrected for the number of arms."
        + (f" No interval: {undefined}." if undefined else ""),
        [
            (
                f"{label(row.arm, 22)} {write(row.score.difference.interval.estimate)}",
                style[row.arm],
                row.score.difference.interval,
            )
            for row in rows
        ],
        x=f"{metric} minus that of {label(plan.baseline, 24)}",
        zero=0,
    )


def robustness_panels(levels: Sequence[LevelTable], plan: CompareConfig) -> list[Drawn]:
    """Final score against the share of wrong rewards, one picture a kind of corruption and group of arms; where the
    score is a proxy, the gold reward first."""
    gold = any(not math.isnan(row.gold.interval.estimate) for level in levels for row in level.rows)
    measures = {"score": METRICS[plan.metric]}
    if plan.metric == "reward" and gold:
        measures = {"gold": METRICS["gold_utility"], "score": PROXY}
    panels: list[Drawn] = []
    for kind in dict.fromkeys(tuple(level.corruption) for level in levels if level.corruption):
        same = [level for level in levels if tuple(level.corruption) == kind or level.rate == 0]
        same.sort(key=lambda level: level.rate)
        if len({level.rate for level in same}) > 1:
            for measure, words in measures.items():
                panels.extend(_robustness(same, " and ".join(kind), plan, measure, words))
    return panels or ["No curve over the share of wrong rewards: it needs two levels that differ in that share alone."]


def _robustness(
    levels: Sequence[LevelTable], kind: str, plan: CompareConfig, measure: str, words: str
) -> list[LinePanel]:
    curves: dict[str, list[tuple[float, Interval]]] = {}
    rows: dict[str, ArmRow] = {}
    for row in (row for level in levels for row in level.rows if row.seeds):
        curves.setdefault(row.arm, rate_curve(levels, row.arm, measure))
        if len(curves[row.arm]) > 1:
            rows.setdefault(row.arm, row)
    every = list(rows.values())
    style = palette(plan)
    parts = [leading_rows(every), *further_rows(every)] if every else []
    highest = max(level.rate for level in levels)
    stem = "robustness" if measure == "score" else f"robustness-{measure}"
    panels = []
    for number, part in enumerate(parts, 1):
        said = []
        lines = []
        for at, row in enumerate(part):
            # Side by side, so that intervals at one rate do not cover each other.
            shift = (at - (len(part) - 1) / 2) * highest * 1.2
            rates = [100 * rate + shift for rate, _ in curves[row.arm]]
            found = [interval for _, interval in curves[row.arm]]
            lines.append(interval_line(label(row.arm, 24), rates, found, style[row.arm], bars=True))
            values = ", ".join(f"{item.estimate:.3f} at {share(rate)}" for rate, item in curves[row.arm])
            said.append(f"{visible(row.arm, 40)} {values}")
        panels.append(
            LinePanel(
                numbered(f"{stem}-{slug(kind)}", number),
                f"Final {words} by the share of wrong rewards",
                f"Final {words} by the share of wrong rewards ({kind}): {'; '.join(said)}.",
                "Mean over seeds with its 95% interval; arms stand a little apart. These intervals hold the "
                "differences between seeds, which pairing takes out: judge by the gains at each level.",
                lines,
                x=f"wrong rewards ({kind}), %",
                y=words,
                legend="above",
            )
        )
    return panels


def rate_curve(levels: Sequence[LevelTable], arm: str, measure: str = "score") -> list[tuple[float, Interval]]:
    """A measure of an arm by the share of wrong rewards, where it is known."""
    curve = []
    for level in levels:
        row = level.row(arm)
        if row is not None and row.seeds:
            found = row.measures[measure].interval
            if not math.isnan(found.estimate):
                curve.append((level.rate, found))
    return curve


def kept_rank_panel(level: LevelTable, row: ArmRow) -> Drawn:
    """The score by rank with crosses at wrong rewards, all kept generations of an arm pooled."""
    curves = [curve for cell in row.cells for item in cell.snapshots if len((curve := snapshot_curve(item)).score)]
    if not curves:
        return f"No kept generation of {visible(row.arm, 40)} at {visible(level.level, 40)} has scores."
    return rank_panel(curves, slug(level.level))


def snapshot_curve(snapshot: Snapshot) -> RankCurve:
    """The scored rollouts of a kept generation, lowest score first."""
    unknown = np.zeros(len(snapshot.score), dtype=bool)
    return rank_curve(snapshot.score, unknown if snapshot.corrupted is None else snapshot.corrupted)
