"""Curves of reward, accuracy and gold utility."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.analysis.statistics import ema, wilson_interval
from geoalign.lab.reports.figures.style import STEP_AXIS, Panel, Theme
from geoalign.lab.store.columns import Floats
from geoalign.lab.store.logs import Evaluation
from geoalign.lab.store.rollouts import RolloutStep
from geoalign.lab.store.run import Run, Series
from geoalign.lab.text import inert, label

# Names under which the curated reward may be logged beside the raw one.
CURATED_KEYS = ("geoalign/curated_reward", "curated_reward")
# With few evaluations a smoothed curve stays near the first one and hides the rest.
SMOOTHED_FROM = 8
_RAW = "Raw reward includes the corrupted ones. "
_STYLES = (
    ("blue", "o", "-"), ("orange", "s", "--"), ("green", "D", "-."), ("ink", "^", ":"), ("soft", "v", "-"),
)  # fmt: skip


def reward_series(run: Run) -> dict[str, Series]:
    """Mean raw, curated and true reward per step, those that are known, in this order.

    Computed from the rollout files, so that all curves are at the step of their generation; taken from the log where
    that has more steps.
    """
    logged = {"raw": run.series("reward"), "curated": run.series(*CURATED_KEYS)}
    computed = {"raw": _mean(run, _raw), "curated": _mean(run, curated_rewards), "true": _mean(run, _true)}
    curves = {name: max(series, logged.get(name, series), key=len) for name, series in computed.items()}
    if _same(curves["raw"], curves["true"]):
        del curves["true"]
    if _same(curves["raw"], curves["curated"]):
        del curves["curated"]
    return {name: series for name, series in curves.items() if len(series)}


def curated_rewards(rollouts: RolloutStep) -> Floats:
    """[B] reward of the content of each row after curation; NaN where there is none or its weight is 0."""
    index = {row: at for at, row in enumerate(rollouts.row.tolist())}
    rewards = [rollouts.reward[index[source]] if source in index else np.nan for source in rollouts.source.tolist()]
    return np.where(rollouts.weight == 0, np.nan, np.array(rewards, dtype=np.float64))


def reward_panel(run: Run) -> Panel | str:
    """Reward over steps, or why it cannot be drawn."""
    series = reward_series(run)
    if not series:
        return "No reward has been logged in the RL stage (yet)."
    ends = ", ".join(
        f"{name} from {ema(item.values)[0]:.3f} to {ema(item.values)[-1]:.3f}" for name, item in series.items()
    )
    colours = {"raw": "blue", "curated": "orange", "true": "green"}
    labels = {"raw": "raw (as scored)", "curated": "curated (as trained on)", "true": "true (before flips)"}
    dashes = {"raw": "-", "curated": "--", "true": "-."}

    def draw(axes: Axes, theme: Theme) -> None:
        for name, item in series.items():
            colour = getattr(theme, colours[name])
            axes.plot(item.steps, item.values, color=colour, linewidth=0.8, alpha=0.45)
            axes.plot(
                item.steps, ema(item.values), color=colour, linewidth=2.2, linestyle=dashes[name], label=labels[name]
            )
            if len(item) == 1:
                axes.plot(item.steps, item.values, "o", color=colour)
        axes.set(xlabel=STEP_AXIS, ylabel="mean reward of the batch")
        axes.legend(loc="best")

    return Panel(
        name="reward",
        title="Reward during RL",
        alt=f"Mean reward over {max(map(len, series.values()))} RL steps, smoothed: {ends}.",
        caption=f"Thin: each step. Thick: smoothed, s = 0.6 s + 0.4 x. {_RAW if 'true' in series else ''}"
        "Curated is the reward of the rollouts that stand there afterwards, so it may be higher by selection alone. "
        "Prompts differ from step to step, and part of the ups and downs is theirs.",
        draw=draw,
    )


def accuracy_panel(run: Run) -> Panel | str:
    """Evaluation accuracy over steps, or why it cannot be drawn."""
    curves = evaluation_curves(tuple(item for item in run.evaluations if item.correct is not None))
    if not curves and run.evaluations:
        return "The reward of this task is no verdict of right or wrong, so there is no accuracy."
    if not curves:
        return "No evaluation has been written (yet)."
    words = "; ".join(
        f"{inert(name, 40)} from {items[0].accuracy:.3f} at step {_step(items[0])} "
        f"to {items[-1].accuracy:.3f} at step {_step(items[-1])}"
        for name, items in curves.items()
    )

    def draw(axes: Axes, theme: Theme) -> None:
        for at, (name, items) in enumerate(curves.items()):
            _draw_accuracy(axes, items, name, _STYLES[at % len(_STYLES)], theme)
        axes.set(xlabel=STEP_AXIS, ylabel="accuracy")
        axes.legend(loc="best")

    return Panel(
        name="accuracy",
        title="Evaluation accuracy",
        alt=f"Evaluation accuracy by set: {words}.",
        caption="Points: each evaluation, with Wilson's 95% interval as a band. Thick: smoothed, s = 0.6 s + 0.4 x, "
        f"which lags behind the points; with fewer than {SMOOTHED_FROM} evaluations, the points themselves.",
        draw=draw,
    )


def evaluation_curves(evaluations: tuple[Evaluation, ...]) -> dict[str, list[Evaluation]]:
    """The evaluations of each set by rising RL step, the one before RL at step 0; at equal steps the last counts."""
    curves: dict[str, dict[int, Evaluation]] = {}
    for evaluation in evaluations:
        curves.setdefault(evaluation.set, {})[_step(evaluation)] = evaluation
    return {name: [items[step] for step in sorted(items)] for name, items in curves.items()}


def _draw_accuracy(axes: Axes, items: list[Evaluation], name: str, look: tuple[str, str, str], theme: Theme) -> None:
    colour, marker, dash = getattr(theme, look[0]), look[1], look[2]
    steps = [_step(item) for item in items]
    accuracy = np.array([item.accuracy for item in items])
    intervals = [wilson_interval(item.correct, item.count) for item in items if item.correct is not None]
    low, high = np.array([(interval.low, interval.high) for interval in intervals]).T
    axes.fill_between(steps, low, high, color=colour, alpha=0.15, linewidth=0)
    axes.plot(steps, accuracy, color=colour, linewidth=0.8, alpha=0.6, marker=marker, markersize=4)
    thick = ema(accuracy) if len(items) >= SMOOTHED_FROM else accuracy
    axes.plot(steps, thick, color=colour, linestyle=dash, linewidth=2.2, label=label(name))
    if len(items) == 1:
        axes.errorbar(steps, accuracy, np.clip([accuracy - low, high - accuracy], 0, None), color=colour, capsize=4)


def _step(evaluation: Evaluation) -> int:
    return 0 if evaluation.stage == "before_rl" else evaluation.step


def _mean(run: Run, column: Callable[[RolloutStep], Floats]) -> Series:
    steps, means = [], []
    for rollouts in run.rollouts:
        values = column(rollouts)
        if np.isfinite(values).any():
            steps.append(rollouts.step)
            means.append(float(np.nanmean(values)))
    return Series(np.array(steps, dtype=np.int64), np.array(means))


def _raw(rollouts: RolloutStep) -> Floats:
    return rollouts.reward


def _true(rollouts: RolloutStep) -> Floats:
    return rollouts.true_reward


def _same(first: Series, second: Series) -> bool:
    return len(first) == len(second) and np.allclose(first.values, second.values, rtol=0, atol=1e-9)


_PROXY_STYLES = (("blue", "o", "-"), ("orange", "s", "--"), ("green", "D", "-."), ("purple", "^", ":"))
_WORDS = {
    "reward": (
        "evaluation-reward",
        "Proxy reward at evaluations",
        "proxy reward",
        "Mean reward of the evaluation's answers, before any corruption: what the policy is trained towards.",
    ),
    "gold_utility": (
        "evaluation-gold",
        "Gold utility at evaluations",
        "gold utility",
        "What the task is really about, known because its texts are generated. Where it falls while the proxy reward "
        "rises, the policy is exploiting the reward.",
    ),
}


def proxy_panels(run: Run) -> list[Panel]:
    """Proxy reward and gold utility over steps, each where the reward is no mere accuracy; none for other runs."""
    lines = tuple(line for line in run.evaluations if line.correct is None)
    panels = []
    for metric, words in _WORDS.items():
        known = tuple(line for line in lines if not math.isnan(getattr(line, metric)))
        if known:
            panels.append(_proxy_panel(evaluation_curves(known), metric, *words))
    return panels


def _proxy_panel(
    curves: dict[str, list[Evaluation]], metric: str, name: str, title: str, axis: str, caption: str
) -> Panel:
    words = "; ".join(
        f"{inert(key, 40)} from {getattr(items[0], metric):.3f} to {getattr(items[-1], metric):.3f}"
        for key, items in curves.items()
    )

    def draw(axes: Axes, theme: Theme) -> None:
        for at, (key, items) in enumerate(curves.items()):
            colour, marker, dash = _PROXY_STYLES[at % len(_PROXY_STYLES)]
            steps = [0 if item.stage == "before_rl" else item.step for item in items]
            values = [getattr(item, metric) for item in items]
            thick = ema(values) if len(items) >= SMOOTHED_FROM else values
            shade = getattr(theme, colour)
            axes.plot(steps, values, color=shade, linewidth=0.8, alpha=0.6, marker=marker, markersize=4)
            axes.plot(steps, thick, color=shade, linestyle=dash, linewidth=2.2, label=label(key))
        axes.set(xlabel=STEP_AXIS, ylabel=axis)
        axes.legend(loc="best")

    return Panel(name=name, title=title, alt=f"{title}, by set: {words}.", caption=caption, draw=draw)
