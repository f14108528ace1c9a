"""How a run went, step by step: reward, accuracy, gold reward; what the curator did; how far the policy went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from pandas import DataFrame

from geoalign.files.columns import Series
from geoalign.lab.runs.numbers import GENERATION, series_of
from geoalign.lab.runs.reading import Run
from geoalign.pages.style import SMOOTHED_FROM, Line, LinePanel, Look, Panel, smoothed
from geoalign.statistics import ema
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


def reward_series(numbers: DataFrame) -> dict[str, Series]:
    """Mean raw, curated and true reward per step where known, from the generations, or the log if it has more.

    The true and the curated reward are left out where they are the same as the raw one.
    """
    raw = _longer(series_of(numbers, "reward", GENERATION), series_of(numbers, "reward"))
    curated = _longer(series_of(numbers, "curated_reward", GENERATION), series_of(numbers, "curated_reward"))
    curves = {"raw": raw}
    for name, series in (("curated", curated), ("true", series_of(numbers, "true_reward", GENERATION))):
        if not _same(raw, series):
            curves[name] = series
    return {name: series for name, series in curves.items() if len(series)}


def _longer(first: Series, second: Series) -> Series:
    return second if len(second) > len(first) else first


def _same(first: Series, second: Series) -> bool:
    return len(first) == len(second) and np.allclose(first.values, second.values, rtol=0, atol=1e-9)


_CURATED = "After curation: of the rollouts that stand there then, so it may be higher by selection alone."


def reward_panel(numbers: DataFrame) -> Panel | str:
    """The mean rewards over RL steps."""
    series = reward_series(numbers)
    if not series:
        return "No reward has been logged in the RL stage (yet)."
    ends = []
    for name, item in series.items():
        smooth = ema(item.values)
        ends.append(f"{name} from {smooth[0]:.3f} to {smooth[-1]:.3f}")
    selection = f" {_CURATED}" if "curated" in series else ""
    return LinePanel(
        "reward",
        "Reward during training",
        f"Mean reward over {max(map(len, series.values()))} RL steps, smoothed: {', '.join(ends)}.",
        f"Thin: each step. Thick: smoothed.{selection} Prompts differ from step to step, and part of the ups and downs "
        "is theirs.",
        [smoothed(*_REWARDS[name], item) for name, item in series.items()],
        y="mean reward of the batch",
    )


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


def evaluation_panels(numbers: DataFrame) -> list[Panel | str]:
    """Accuracy over steps; of sets whose reward is no accuracy gold reward and proxy reward."""
    evaluations = numbers[numbers.set != ""]
    if evaluations.empty:
        return ["No evaluation has been written (yet)."]
    with_accuracy = evaluations[evaluations.metric == "accuracy"].set.unique()
    panels: list[Panel | str] = []
    for metric in _EVALUATED:
        of_metric = evaluations
        if metric != "accuracy":
            of_metric = evaluations[~evaluations.set.isin(with_accuracy)]
        curves = evaluation_curves(of_metric, metric)
        if curves:
            panels.append(_evaluated(metric, curves))
    return panels


def evaluation_curves(numbers: DataFrame, metric: str) -> dict[str, DataFrame]:
    """A metric of each set by rising RL step, columns `value`, `low` and `high`; at equal steps the last counts."""
    curves = {}
    for name in numbers[numbers.metric == metric].set.unique():
        of_set = numbers[numbers.set == name].drop_duplicates(["step", "metric"], keep="last")
        wide = of_set.pivot(index="step", columns="metric", values="value")
        wide = wide.reindex(columns=[metric, f"{metric}_low", f"{metric}_high"]).sort_index()
        wide.columns = ["value", "low", "high"]
        curves[name] = wide.dropna(subset=["value"])
    return curves


def _evaluated(metric: str, curves: Mapping[str, DataFrame]) -> Panel:
    """The picture of a metric of the evaluations, a line for each set."""
    name, title, axis, caption = _EVALUATED[metric]
    words = []
    lines = []
    for at, (key, curve) in enumerate(curves.items()):
        steps = curve.index.to_numpy()
        values = curve.value.to_numpy()
        words.append(
            f"{visible(key, 40)} from {values[0]:.3f} at step {steps[0]} to {values[-1]:.3f} at step {steps[-1]}"
        )
        line = Line(
            label(key),
            steps,
            values,
            low=curve.low.to_numpy(),
            high=curve.high.to_numpy(),
            smooth=ema(values) if len(values) >= SMOOTHED_FROM else values,
            look=_SETS[at % len(_SETS)],
            marked=True,
        )
        lines.append(line)
    return LinePanel(name, title, f"{title}, by set: {'; '.join(words)}.", caption, lines, y=axis)


# --- the curator ------------------------------------------------------------------------------------------------------


# Metric, name in the legend, look.
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


def projector_panel(run: Run, numbers: DataFrame) -> Panel | str:
    """The shares of pairs that the projector orders rightly, over steps."""
    lines = []
    words = []
    for name, title, look in ACCURACIES:
        series = series_of(numbers, name)
        if not len(series):
            continue
        line = smoothed(title, look, series)
        low = series_of(numbers, f"{name}_low")
        high = series_of(numbers, f"{name}_high")
        if len(low) == len(high) == len(series):
            line = replace(line, low=low.values, high=high.values)
        lines.append(line)
        words.append(f"{title} {series.values.mean():.2f}")
    if not lines:
        return f"The curator of this run ({run.curator_name}) logged no projector accuracy: it trains no projector."
    caption = f"{PROJECTOR} Its band is the 95% interval that takes groups as independent."
    alt = f"Projector accuracy, mean over steps: {'; '.join(words)}; chance 0.5."
    return LinePanel("projector-accuracy", "Projector accuracy", alt, caption, lines, **AGAINST_CHANCE)


# --- the policy -------------------------------------------------------------------------------------------------------

# Metric -> file, title, axis, caption.
POLICY = {
    "ppo_kl": (
        "kl", "PPO KL", "PPO KL",
        "Old minus new log-probability, mean over tokens, whatever beta is; zero at the first update on each batch.",
    ),
    "clip_fraction": (
        "clip-fraction", "Clip fraction", "share of tokens",
        "Tokens outside the clipping range; none at the first update on each batch.",
    ),
}  # fmt: skip


def policy_panels(numbers: DataFrame) -> list[Panel | str]:
    """How far the policy went from the one that sampled: a picture of each of `POLICY`, or why there is none."""
    panels: list[Panel | str] = []
    for metric, (name, title, axis, caption) in POLICY.items():
        series = series_of(numbers, metric)
        if not len(series):
            panels.append(f"{title} was not logged.")
            continue
        zero = "" if series.values.any() else " It is zero at every step."
        values = f"mean {series.values.mean():.4g}, largest {series.values.max():.4g}."
        alt = f"{title} over {len(series)} steps: {values}{zero}"
        lines = [smoothed("smoothed", Look("blue"), series)]
        panels.append(LinePanel(name, title, alt, caption + zero, lines, y=axis, scientific=True))
    return panels
