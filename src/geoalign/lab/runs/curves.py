"""How a run went, step by step: reward, accuracy, gold reward; what the curator did; how far the policy went."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from geoalign.files.columns import Floats, Series
from geoalign.files.rollout_step import RolloutStep
from geoalign.lab.runs.reading import Evaluation, Run, accuracy_of_evaluation
from geoalign.pages.style import SMOOTHED_FROM, Line, LinePanel, Look, Panel, smoothed
from geoalign.statistics import ema, mean
from geoalign.text import label, visible

_REWARDS = {
    "raw": ("as the verifier gave it", Look("orange", dash="--")),
    "curated": ("after curation", Look("blue")),
    "true": ("true reward", Look("green", dash="-.")),
}
_SETS = (
    Look("blue"), Look("orange", "s", "--"), Look("green", "D", "-."), Look("ink", "^", ":"), Look("soft", "v"),
)  # fmt: skip


# --- reward -----------------------------------------------------------------------------------------------------------


def reward_series(run: Run) -> dict[str, Series]:
    """Mean raw, curated and true reward per step where known, from the rollout files, or the log if it has more."""
    logged = {"raw": run.series("reward"), "curated": run.series("geoalign/curated_reward")}
    computed = {
        "raw": _means({step.step: step.reward for step in run.rollouts}),
        "curated": _means({step.step: curated_rewards(step) for step in run.rollouts}),
        "true": _means({step.step: step.true_reward for step in run.rollouts}),
    }
    curves = {name: max(series, logged.get(name, series), key=len) for name, series in computed.items()}
    raw = curves["raw"]
    same = [name for name in ("true", "curated") if _same(raw, curves[name])]
    return {name: series for name, series in curves.items() if len(series) and name not in same}


def curated_rewards(rollouts: RolloutStep) -> Floats:
    """[B] reward of the content of each row after curation; NaN where there is none or its weight is 0."""
    index = {row: at for at, row in enumerate(rollouts.row.tolist())}
    rewards = [rollouts.reward[index[source]] if source in index else np.nan for source in rollouts.source.tolist()]
    return np.where(rollouts.weight == 0, np.nan, np.array(rewards, dtype=np.float64))


_CURATED = "After curation: of the rollouts that stand there then, so it may be higher by selection alone."


def reward_panel(run: Run) -> Panel | str:
    series = reward_series(run)
    if not series:
        return "No reward has been logged in the RL stage (yet)."
    ends = ", ".join(
        f"{name} from {ema(item.values)[0]:.3f} to {ema(item.values)[-1]:.3f}" for name, item in series.items()
    )
    return LinePanel(
        "reward",
        "Reward during training",
        f"Mean reward over {max(map(len, series.values()))} RL steps, smoothed: {ends}.",
        f"Thin: each step. Thick: smoothed.{' ' + _CURATED if 'curated' in series else ''} Prompts differ from step to "
        "step, and part of the ups and downs is theirs.",
        [smoothed(*_REWARDS[name], item) for name, item in series.items()],
        y="mean reward of the batch",
    )


def _means(columns: Mapping[int, Floats]) -> Series:
    means = {step: mean(values) for step, values in columns.items() if np.isfinite(values).any()}
    return Series(np.array(list(means), dtype=np.int64), np.array(list(means.values())))


def _same(first: Series, second: Series) -> bool:
    return len(first) == len(second) and np.allclose(first.values, second.values, rtol=0, atol=1e-9)


# --- evaluations ------------------------------------------------------------------------------------------------------

# Metric -> file, title, axis, caption.
_EVALUATED = {
    "accuracy": (
        "accuracy", "Accuracy on problems kept aside", "accuracy",
        "Points: each evaluation, with its 95% interval over problems as a band. Thick: smoothed, which lags behind "
        f"the points; with fewer than {SMOOTHED_FROM} evaluations, the points themselves.",
    ),
    "gold_utility": (
        "evaluation-gold", "Gold reward on problems kept aside", "gold reward",
        "The true reward, where it is known. Where it falls while the proxy reward rises, the policy exploits the "
        "proxy.",
    ),
    "reward": (
        "evaluation-reward", "Proxy reward on problems kept aside", "proxy reward",
        "Mean reward of the evaluation's answers, without wrong ones: what the policy is trained towards.",
    ),
}  # fmt: skip


def evaluation_panels(run: Run) -> list[Panel | str]:
    """Accuracy over steps; of a task whose reward is no accuracy gold reward and proxy reward."""
    panels: list[Panel | str] = []
    for metric in _EVALUATED:
        binary = metric == "accuracy"
        found = [
            item
            for item in run.evaluations
            if (item.correct is not None) == binary and (binary or not math.isnan(getattr(item, metric)))
        ]
        if found:
            panels.append(_evaluated(metric, found))
    return panels if run.evaluations else ["No evaluation has been written (yet)."]


def _evaluated(metric: str, evaluations: Sequence[Evaluation]) -> Panel:
    name, title, axis, caption = _EVALUATED[metric]
    words, lines = [], []
    for at, (key, items) in enumerate(evaluation_curves(evaluations).items()):
        steps, values = [_step(item) for item in items], np.array([getattr(item, metric) for item in items])
        words.append(
            f"{visible(key, 40)} from {values[0]:.3f} at step {steps[0]} to {values[-1]:.3f} at step {steps[-1]}"
        )
        found = [accuracy_of_evaluation(item) for item in items]
        known = [interval for interval in found if interval is not None]
        thick = ema(values) if len(items) >= SMOOTHED_FROM else values
        ends = [interval.low for interval in known], [interval.high for interval in known]
        lines.append(Line(label(key), steps, values, *ends, thick, _SETS[at % len(_SETS)], marked=True))
    return LinePanel(name, title, f"{title}, by set: {'; '.join(words)}.", caption, lines, y=axis)


def evaluation_curves(evaluations: Sequence[Evaluation]) -> dict[str, list[Evaluation]]:
    """The evaluations of each set by rising RL step, the one before RL at step 0; at equal steps the last counts."""
    curves: dict[str, dict[int, Evaluation]] = {}
    for evaluation in evaluations:
        curves.setdefault(evaluation.set, {})[_step(evaluation)] = evaluation
    return {name: [items[step] for step in sorted(items)] for name, items in curves.items()}


def _step(evaluation: Evaluation) -> int:
    return 0 if evaluation.stage == "before_rl" else evaluation.step


# --- the curator ------------------------------------------------------------------------------------------------------


# As a result's series call them; the log has them after "geoalign/".
ACCURACIES = (
    ("train_accuracy", "training pairs", Look("soft", "v", ":")),
    ("heldout_pair_accuracy", "held-out pairs", Look("orange", "D", "--")),
    ("new_group_accuracy", "new groups", Look("blue", "s", "-")),
)
# How shares of pairs that a projector orders correctly are drawn.
AGAINST_CHANCE: dict[str, Any] = {
    "y": "pairs ordered correctly", "ylim": (0, 1.03), "chance": 0.5, "legend": "lower left",
}  # fmt: skip
PROJECTOR = (
    "Held-out pairs share their rollouts with the training pairs, so their accuracy says when to stop, not whether the "
    "projector generalises. Accuracy on new groups does."
)


def projector_panel(run: Run) -> Panel | str:
    found = [(run.series(f"geoalign/{key}"), name, look) for key, name, look in ACCURACIES]
    lines = [smoothed(name, look, series) for series, name, look in found if len(series)]
    if not lines:
        return f"The curator of this run ({run.curator_name}) logged no projector accuracy: it trains no projector."
    low, high = run.series("geoalign/new_group_accuracy_low"), run.series("geoalign/new_group_accuracy_high")
    if len(low) and np.array_equal(low.steps, found[-1][0].steps) and np.array_equal(low.steps, high.steps):
        lines[-1] = replace(lines[-1], low=low.values, high=high.values)
    words = "; ".join(f"{name} {series.values.mean():.2f}" for series, name, _ in found if len(series))
    caption = f"{PROJECTOR} Its band is the 95% interval that takes groups as independent."
    alt = f"Projector accuracy, mean over steps: {words}; chance 0.5."
    return LinePanel("projector-accuracy", "Projector accuracy", alt, caption, lines, **AGAINST_CHANCE)


# --- the policy -------------------------------------------------------------------------------------------------------

# As a result's series call them -> file, title, axis, caption, name in the log.
POLICY = {
    "ppo_kl": (
        "kl", "PPO KL", "PPO KL",
        "Old minus new log-probability, mean over tokens, whatever beta is; zero at the first update on each batch.",
        "ppo_kl",
    ),
    "clip_fraction": (
        "clip-fraction", "Clip fraction", "share of tokens",
        "Tokens outside the clipping range; none at the first update on each batch.",
        "clip_ratio/region_mean",
    ),
}  # fmt: skip


def policy_panels(run: Run) -> list[Panel | str]:
    panels: list[Panel | str] = []
    for name, title, axis, caption, key in POLICY.values():
        series = run.series(key)
        if not len(series):
            panels.append(f"{title} was not logged (`{key}`).")
            continue
        zero = "" if series.values.any() else " It is zero at every step."
        values = f"mean {series.values.mean():.4g}, largest {series.values.max():.4g}."
        alt = f"{title} over {len(series)} steps: {values}{zero}"
        lines = [smoothed("smoothed", Look("blue"), series)]
        panels.append(LinePanel(name, title, alt, caption + zero, lines, y=axis, scientific=True))
    return panels
