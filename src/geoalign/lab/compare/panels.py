"""The pictures of a comparison's page, and how arms look, the same in every picture: final scores and differences, how
the runs of a level went over seeds, the kept generations' scores."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas

from geoalign.console.numbers import estimate, score_writers, share, signed
from geoalign.files.columns import Floats, Ints
from geoalign.lab.compare.numbers import arm_evaluation_curves, curves_of_arm, logged_curves
from geoalign.lab.compare.results import RunResult
from geoalign.lab.compare.settings import METRICS, CompareConfig
from geoalign.lab.compare.table import PROXY, ArmRow, LevelTable, Table, metric_words
from geoalign.lab.runs.curves import ACCURACIES, AGAINST_CHANCE, POLICY, PROJECTOR
from geoalign.pages.documents import Drawn
from geoalign.pages.score_panels import rank_curve, rank_panel
from geoalign.pages.style import IntervalPanel, Line, LinePanel, Look, band, interval_line
from geoalign.statistics import Interval, mean
from geoalign.text import label

# More bands than these hide one another: further arms get further pictures, each with the baseline.
PER_PICTURE = 5
# The roles in their order of weight, with the look of the first arm of each; further arms have the other looks in turn.
_BY_ROLE = {
    "baseline": Look("ink", "o", "-"), "primary": Look("blue", "s", "-"), "oracle": Look("green", "^", "-."),
    "bound": Look("yellow", "v", ":"), "control": Look("orange", "D", "--"),
}  # fmt: skip
_OTHERS = (
    Look("purple", "P", "-"), Look("orange", "s", "-."), Look("green", "D", ":"), Look("blue", "X", "--"),
    Look("soft", "^", "-"), Look("purple", "v", "--"), Look("orange", "P", ":"), Look("blue", "D", "-."),
    Look("green", "s", "--"), Look("soft", "X", "-."),
)  # fmt: skip


def _weight(role: str) -> int:
    """Where a role stands among the roles: where there are too many arms for a picture, those of a lower weight come
    first."""
    return list(_BY_ROLE).index(role) if role in _BY_ROLE else len(_BY_ROLE)


def palette(plan: CompareConfig) -> dict[str, Look]:
    """A look for every arm, the same at every level. Primary arms, which stand together in pictures, look different."""
    of_role = dict(_BY_ROLE)
    others = itertools.cycle(_OTHERS)
    looks = {}
    for arm in sorted(plan.arms, key=lambda arm: _weight(plan.role(arm))):
        role = plan.role(arm)
        looks[arm] = of_role.pop(role) if role in of_role else next(others)
    return looks


def leading_rows(rows: Sequence[ArmRow]) -> list[ArmRow]:
    """The arms of the first pictures, at most six: the planned ones, then others as long as there is room."""
    done = [row for row in rows if row.seeds]
    by_weight = sorted(done, key=lambda row: _weight(row.role))
    chosen = {row.arm for row in by_weight[: PER_PICTURE + 1]}
    return [row for row in done if row.arm in chosen]


def further_rows(rows: Sequence[ArmRow]) -> list[list[ArmRow]]:
    """The other arms, in pictures of the baseline and at most five of them."""
    leading = leading_rows(rows)
    baseline = [row for row in leading if row.role == "baseline"]
    others = [row for row in rows if row.seeds and row not in leading]
    return [baseline + others[at : at + PER_PICTURE] for at in range(0, len(others), PER_PICTURE)]


# A section of a level: its name, its title, and its pictures or why there are none.
SectionOfPanels = tuple[str, str, list[Drawn]]


def leading_panels(level: LevelTable, plan: CompareConfig) -> list[Drawn]:
    """The pictures that a level opens with: how the arms went by the truth, and the gains over the baseline; the reward
    that they were trained on where it is a proxy, or where the true one is not known."""
    rows = leading_rows(level.rows)
    if _opens_with_proxy(level, plan):
        curves = [
            evaluation_panel(level, plan, "gold_utility", rows),
            evaluation_panel(level, plan, "reward", rows, words=PROXY),
        ]
    else:
        trained_on = "true_reward" if _logs_true_rewards(level) else "reward"
        curves = [evaluation_panel(level, plan, plan.metric, rows), logged_panel(level, plan, trained_on, rows)]
    return [*curves, differences_panel(level, plan)]


def _opens_with_proxy(level: LevelTable, plan: CompareConfig) -> bool:
    return plan.metric == "reward" and level.has_gold


def _logs_true_rewards(level: LevelTable) -> bool:
    return bool((level.numbers.metric == "true_reward").any())


def further_panels(level: LevelTable, table: Table) -> list[SectionOfPanels]:
    """The other pictures of a level in sections."""
    plan = table.plan
    rows = leading_rows(level.rows)
    of_others = [
        evaluation_panel(level, plan, plan.metric, part, number=number)
        for number, part in enumerate(further_rows(level.rows), 2)
    ]
    truth: list[Drawn] = []
    if plan.metric != "reward" and level.has_gold:
        if plan.metric != "gold_utility":
            truth.append(evaluation_panel(level, plan, "gold_utility", rows))
        truth.append(evaluation_panel(level, plan, "reward", rows, words=PROXY))
    # What a level opens with is not drawn again.
    opens_with_true = _logs_true_rewards(level) and not _opens_with_proxy(level, plan)
    training = logged_panel(level, plan, "reward" if opens_with_true else "true_reward", rows)
    ranks: list[Drawn] = []
    projector: list[Drawn] = []
    reference = level.reference
    if reference is not None:
        ranks = [kept_rank_panel(level, reference, table.results)]
        projector = [arm_projector_panel(level, reference)]
    return [
        ("others", "The other arms", of_others),
        ("truth", "Proxy and gold reward", truth),
        ("training", "Rewards during training", [training]),
        ("ranks", "Where wrong rewards stand in the ranking by the score", ranks),
        ("projector", "Does the projector generalise?", projector),
        ("policy", "How far the policy went from the one that sampled", arm_policy_panels(level, plan, rows)),
        ("diversity", "pass@k", [pass_at_k_panel(level, plan)]),
    ]


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}-{number}"


# --- curves -----------------------------------------------------------------------------------------------------------

_CAPTION = (
    "Mean over seeds, smoothed where it is thick. Bands are 95% intervals over seeds, from three seeds on. Bands may "
    "overlap although the arms differ clearly, because a seed shifts all arms alike: the gains are paired by seed."
)
# Of a second evaluated quantity in file names; the compared one is "evaluation".
_FILES = {METRICS["gold_utility"]: "gold-reward", PROXY: "proxy-reward"}
# Logged quantity -> file, title, axis, caption.
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
    **POLICY,
}


# An arm's curve: its name, steps, and values [seeds, steps].
_ArmCurve = tuple[str, Ints, Floats]


def _arm_curves(level: LevelTable, curves: pandas.Series, rows: Sequence[ArmRow]) -> list[_ArmCurve]:
    """The curves of these arms, those without any left out."""
    found = [(row.arm, *curves_of_arm(curves, level.level, row.arm)) for row in rows]
    return [curve for curve in found if curve[2].size]


def _bands(plan: CompareConfig, curves: Sequence[_ArmCurve]) -> list[Line]:
    """A line with its interval over seeds for each arm."""
    style = palette(plan)
    return [band(label(arm, 24), style[arm], steps, values) for arm, steps, values in curves]


def evaluation_panel(
    level: LevelTable, plan: CompareConfig, metric: str, rows: Sequence[ArmRow], words: str = "", number: int = 1
) -> Drawn:
    """A quantity of the evaluations over steps, a line for each arm; `words` name it, where not as usual."""
    words = words or METRICS[metric]
    curves = _arm_curves(level, arm_evaluation_curves(level.numbers, metric), rows)
    if not curves:
        return f"No finished run at {level.level} has an evaluation with {words}."
    lines = _bands(plan, curves)
    ends = [
        f"{curve[0]} {line.smooth[0]:.3f} to {line.smooth[-1]:.3f}" for curve, line in zip(curves, lines, strict=True)
    ]
    return LinePanel(
        _numbered(f"{_FILES.get(words, 'evaluation')}-{level.level}", number),
        f"{words[:1].upper()}{words[1:]} on problems kept aside",
        f"Smoothed mean {words} over seeds at {level.level}, first to last: {'; '.join(ends)}.",
        _CAPTION,
        lines,
        y=words,
        legend="above",
    )


def logged_panel(level: LevelTable, plan: CompareConfig, metric: str, rows: Sequence[ArmRow]) -> Drawn:
    """A logged quantity over steps, a line for each arm."""
    stem, title, axis, note = _LOGGED[metric]
    curves = _arm_curves(level, logged_curves(level.numbers, metric), rows)
    if not curves:
        return f"{title} was not logged at {level.level}."
    words = "; ".join(f"{arm} {mean(values):.4g}" for arm, _, values in curves)
    lines = _bands(plan, curves)
    if metric == "clip_fraction":
        # An interval over few seeds may reach below what a share can be.
        lines = [replace(line, low=np.maximum(line.low, 0)) for line in lines]
    return LinePanel(
        f"{stem}-{level.level}",
        title,
        f"{title} over steps at {level.level}, mean over seeds and steps: {words}.",
        f"{note} Thick: smoothed, mean over seeds with its 95% interval.",
        lines,
        y=axis,
        scientific=metric in POLICY,
        legend="above",
    )


def arm_policy_panels(level: LevelTable, plan: CompareConfig, rows: Sequence[ArmRow]) -> list[Drawn]:
    """How far the policy went from the one that sampled, without the arms for which it is always zero."""
    moving = [row for row in rows if not row.zero_by_construction]
    if rows and not moving:
        zero = "is zero by construction: each generation is used for a single update."
        return [f"{_LOGGED[metric][1]} {zero}" for metric in POLICY]
    return [logged_panel(level, plan, metric, moving) for metric in POLICY]


def arm_projector_panel(level: LevelTable, row: ArmRow) -> Drawn:
    """The shares of pairs that the projector of an arm orders rightly, over steps."""
    lines = []
    means = []
    for metric, words, look in ACCURACIES:
        steps, values = curves_of_arm(logged_curves(level.numbers, metric), level.level, row.arm)
        if values.size:
            lines.append(band(words, look, steps, values))
            means.append(f"{words} {mean(values):.3f}")
    if not lines:
        return f"{row.arm} logged no projector accuracy."
    return LinePanel(
        f"projector-{level.level}",
        f"Projector of {label(row.arm, 20)}, {label(level.level, 18)}",
        f"Projector accuracy, mean over seeds and steps: {'; '.join(means)}; chance 0.5.",
        f"{PROJECTOR} Bands: 95% interval over seeds.",
        lines,
        **AGAINST_CHANCE,
    )


def pass_at_k_panel(level: LevelTable, plan: CompareConfig) -> Drawn:
    """pass@k after RL over k, a line for each arm."""
    rows = leading_rows([row for row in level.rows if len(row.pass_at_k) > 1])
    if not rows:
        return f"pass@k for more than one k was not measured at {level.level}."
    style = palette(plan)
    lines = []
    words = []
    for row in rows:
        intervals = [measure.interval for measure in row.pass_at_k.values()]
        lines.append(interval_line(label(row.arm, 24), list(row.pass_at_k), intervals, style[row.arm]))
        values = [f"{interval.estimate:.3f} at {k}" for k, interval in zip(row.pass_at_k, intervals, strict=True)]
        words.append(f"{row.arm} {', '.join(values)}")
    return LinePanel(
        f"pass-at-k-{level.level}",
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


def kept_rank_panel(level: LevelTable, row: ArmRow, results: Sequence[RunResult]) -> Drawn:
    """The score by rank with crosses at wrong rewards, all kept generations of an arm pooled."""
    curves = []
    for result in results:
        if (result.level, result.arm) == (level.level, row.arm):
            for kept in result.snapshots:
                unknown = np.zeros(len(kept.score), dtype=np.bool_)
                curves.append(rank_curve(kept.score, unknown if kept.corrupted is None else kept.corrupted))
    curves = [curve for curve in curves if len(curve.score)]
    if not curves:
        return f"No kept generation of {row.arm} at {level.level} has scores."
    return rank_panel(curves, level.level)


# --- final scores -----------------------------------------------------------------------------------------------------


def differences_panel(level: LevelTable, plan: CompareConfig) -> Drawn:
    """The gain of each arm over the baseline in the final score, with its interval."""
    gains = {
        row.arm: row.score.difference for row in level.rows if row.role != "baseline" and row.score.difference.pairs
    }
    if not gains:
        return f"No arm at {level.level} shares a finished seed with {plan.baseline}."
    style = palette(plan)
    _, write = score_writers(plan.metric)
    metric = metric_words(level, plan)
    words = "; ".join(f"{arm} {estimate(gain.interval, signed)}" for arm, gain in gains.items())
    caption = "Mean over the seeds that both have, with its 95% interval, not corrected for the number of arms."
    undefined = ", ".join(arm for arm, gain in gains.items() if not gain.defined)
    if undefined:
        caption += f" No interval: {undefined}."
    rows = [
        (f"{label(arm, 22)} {write(gain.interval.estimate)}", style[arm], gain.interval) for arm, gain in gains.items()
    ]
    return IntervalPanel(
        f"differences-{level.level}",
        f"Gain in final {metric} over {label(plan.baseline, 20)}",
        f"Paired gains in {metric} over {plan.baseline}: {words}.",
        caption,
        rows,
        x=f"{metric} minus that of {label(plan.baseline, 24)}",
        zero=0,
    )


def robustness_panels(levels: Sequence[LevelTable], plan: CompareConfig) -> list[Drawn]:
    """Final score against the share of wrong rewards, one picture a kind of corruption and group of arms; where the
    score is a proxy, the gold reward first."""
    measures = {"score": METRICS[plan.metric]}
    if plan.metric == "reward" and any(level.has_gold for level in levels):
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
    """The pictures of one measure over levels of one kind of corruption, of rising rate."""
    curves: dict[str, list[tuple[float, Interval]]] = {}
    rows = []
    for row in (row for level in levels for row in level.rows if row.seeds):
        if row.arm not in curves:
            curves[row.arm] = rate_curve(levels, row.arm, measure)
            if len(curves[row.arm]) > 1:
                rows.append(row)
    if not rows:
        return []
    style = palette(plan)
    stem = "robustness" if measure == "score" else f"robustness-{measure}"
    panels = []
    for number, part in enumerate([leading_rows(rows), *further_rows(rows)], 1):
        said = []
        lines = []
        for at, row in enumerate(part):
            # Side by side, so that intervals at one rate do not cover each other.
            shift = (at - (len(part) - 1) / 2) * levels[-1].rate * 1.2
            rates = [100 * rate + shift for rate, _ in curves[row.arm]]
            found = [interval for _, interval in curves[row.arm]]
            lines.append(interval_line(label(row.arm, 24), rates, found, style[row.arm], bars=True))
            values = [f"{interval.estimate:.3f} at {share(rate)}" for rate, interval in curves[row.arm]]
            said.append(f"{row.arm} {', '.join(values)}")
        panels.append(
            LinePanel(
                _numbered(f"{stem}-{kind.replace(' ', '-')}", number),
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
        if row is not None and row.measures[measure].has_values:
            curve.append((level.rate, row.measures[measure].interval))
    return curve
