"""How a run went, step by step: reward, accuracy, gold utility; what the curator did; how far the policy moved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes

from geoalign.lab.analysis.run_detection import GDI, MEAN_GDI, MOST_PAIRS, Detection
from geoalign.lab.analysis.statistics import ema, wilson_interval
from geoalign.lab.reports.figures.style import SMOOTHED, Line, Look, Panel, Theme, line_panel
from geoalign.lab.store.columns import Floats
from geoalign.lab.store.logs import Evaluation
from geoalign.lab.store.rollouts import RolloutStep
from geoalign.lab.store.run import Run, Series
from geoalign.lab.text import inert, label

# Names under which the curated reward may be logged beside the raw one.
CURATED_KEYS = ("geoalign/curated_reward", "curated_reward")
# With few evaluations a smoothed curve stays near the first one and hides the rest.
SMOOTHED_FROM = 8
_REWARDS = {
    "raw": ("raw (as scored)", Look("blue")),
    "curated": ("curated (as trained on)", Look("orange", dash="--")),
    "true": ("true (before flips)", Look("green", dash="-.")),
}
_SETS = (
    Look("blue"), Look("orange", "s", "--"), Look("green", "D", "-."), Look("ink", "^", ":"), Look("soft", "v"),
)  # fmt: skip


def smoothed(name: str, look: Look, series: Series) -> Line:
    """A logged quantity: thin at each step, thick smoothed."""
    return Line(name, series.steps, series.values, smooth=ema(series.values), look=look)


# --- reward -----------------------------------------------------------------------------------------------------------


def reward_series(run: Run) -> dict[str, Series]:
    """Mean raw, curated and true reward per step, those that are known, in this order.

    Computed from the rollout files, so that all curves are at the step of their generation; taken from the log where
    that has more steps.
    """
    logged = {"raw": run.series("reward"), "curated": run.series(*CURATED_KEYS)}
    computed = {
        "raw": _means({step.step: step.reward for step in run.rollouts}),
        "curated": _means({step.step: curated_rewards(step) for step in run.rollouts}),
        "true": _means({step.step: step.true_reward for step in run.rollouts}),
    }
    curves = {name: max(series, logged.get(name, series), key=len) for name, series in computed.items()}
    for name in ("true", "curated"):
        if _same(curves["raw"], curves[name]):
            del curves[name]
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
    lines = [smoothed(*_REWARDS[name], item) for name, item in series.items()]
    ends = ", ".join(
        f"{name} from {ema(item.values)[0]:.3f} to {ema(item.values)[-1]:.3f}" for name, item in series.items()
    )
    return line_panel(
        "reward",
        "Reward during RL",
        f"Mean reward over {max(map(len, series.values()))} RL steps, smoothed: {ends}.",
        f"Thin: each step. Thick: {SMOOTHED}. {'Raw reward includes the corrupted ones. ' if 'true' in series else ''}"
        "Curated is the reward of the rollouts that stand there afterwards, so it may be higher by selection alone. "
        "Prompts differ from step to step, and part of the ups and downs is theirs.",
        lines,
        y="mean reward of the batch",
    )


def _means(columns: Mapping[int, Floats]) -> Series:
    means = {step: float(np.nanmean(values)) for step, values in columns.items() if np.isfinite(values).any()}
    return Series(np.array(list(means), dtype=np.int64), np.array(list(means.values())))


def _same(first: Series, second: Series) -> bool:
    return len(first) == len(second) and np.allclose(first.values, second.values, rtol=0, atol=1e-9)


# --- evaluations ------------------------------------------------------------------------------------------------------


def accuracy_panel(run: Run) -> Panel | str:
    """Evaluation accuracy over steps, or why it cannot be drawn."""
    curves = evaluation_curves([item for item in run.evaluations if item.correct is not None])
    if not curves and run.evaluations:
        return "The reward of this task is no verdict of right or wrong, so there is no accuracy."
    if not curves:
        return "No evaluation has been written (yet)."
    words = "; ".join(
        f"{inert(name, 40)} from {items[0].accuracy:.3f} at step {_step(items[0])} "
        f"to {items[-1].accuracy:.3f} at step {_step(items[-1])}"
        for name, items in curves.items()
    )
    lines = []
    for line, items in zip(_set_lines(curves, "accuracy"), curves.values(), strict=True):
        found = [wilson_interval(item.correct or 0, item.count) for item in items]
        lines.append(replace(line, low=[item.low for item in found], high=[item.high for item in found]))
    return line_panel(
        "accuracy",
        "Evaluation accuracy",
        f"Evaluation accuracy by set: {words}.",
        f"Points: each evaluation, with Wilson's 95% interval as a band. Thick: {SMOOTHED}, "
        f"which lags behind the points; with fewer than {SMOOTHED_FROM} evaluations, the points themselves.",
        lines,
        y="accuracy",
    )


def evaluation_curves(evaluations: Sequence[Evaluation]) -> dict[str, list[Evaluation]]:
    """The evaluations of each set by rising RL step, the one before RL at step 0; at equal steps the last counts."""
    curves: dict[str, dict[int, Evaluation]] = {}
    for evaluation in evaluations:
        curves.setdefault(evaluation.set, {})[_step(evaluation)] = evaluation
    return {name: [items[step] for step in sorted(items)] for name, items in curves.items()}


def _step(evaluation: Evaluation) -> int:
    return 0 if evaluation.stage == "before_rl" else evaluation.step


def _set_lines(curves: Mapping[str, Sequence[Evaluation]], metric: str) -> list[Line]:
    lines = []
    for at, (name, items) in enumerate(curves.items()):
        values = np.array([getattr(item, metric) for item in items])
        thick = ema(values) if len(items) >= SMOOTHED_FROM else values
        look = _SETS[at % len(_SETS)]
        lines.append(Line(label(name), [_step(item) for item in items], values, smooth=thick, look=look, marked=True))
    return lines


_PROXY = {
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
    panels = []
    for metric, (name, title, axis, caption) in _PROXY.items():
        known = [item for item in run.evaluations if item.correct is None and not math.isnan(getattr(item, metric))]
        curves = evaluation_curves(known)
        words = "; ".join(
            f"{inert(key, 40)} from {getattr(items[0], metric):.3f} to {getattr(items[-1], metric):.3f}"
            for key, items in curves.items()
        )
        if known:
            lines = _set_lines(curves, metric)
            panels.append(line_panel(name, title, f"{title}, by set: {words}.", caption, lines, y=axis))
    return panels


# --- the curator ------------------------------------------------------------------------------------------------------


def action_shares(run: Run) -> tuple[Floats, Floats, Floats]:
    """Steps with scores, and for each the share of its scored rollouts that was flagged and that was replaced."""
    steps = [step for step in run.rollouts if step.scored.any()]
    counts = [(step.step, step.scored.sum(), step.anomalous.sum(), step.replaced.sum()) for step in steps]
    at, scored, flagged, replaced = np.array(counts, dtype=np.float64).reshape(-1, 4).T
    return at, flagged / scored, replaced / scored


def actions_panel(run: Run) -> Panel:
    """Flagged and replaced shares over steps."""
    steps, flagged, replaced = action_shares(run)
    few = len(steps) < 3
    lines = [
        Line("flagged", steps, 100 * flagged, look=Look("orange"), marked=few),
        Line("replaced", steps, 100 * replaced, look=Look("blue", dash="--"), marked=few),
    ]
    return line_panel(
        "actions",
        "Flagged and replaced",
        f"Share of the scored rollouts, mean over {len(steps)} steps: flagged {flagged.mean():.1%}, "
        f"replaced {replaced.mean():.1%}.",
        "Where the lines part, flagged rollouts had no stable donor, or the curator only observed or acts "
        "otherwise than by replacing.",
        lines,
        y="% of scored rollouts",
        ylim=(0, max(1.0, 110 * float(flagged.max()), 110 * float(replaced.max()))),
    )


def areas_panel(detection: Detection) -> Panel:
    """AUROC over steps for GDI, mean GDI and the pair count, against one half."""
    looks = {GDI: Look("blue"), MEAN_GDI: Look("green", dash="-."), MOST_PAIRS: Look("orange", dash="--")}
    lines, means = [], []
    for name, look in looks.items():
        areas = {step.step: step.auroc[name] for step in detection.steps if math.isfinite(step.auroc[name])}
        values = np.array(list(areas.values()))
        lines.append(smoothed(name, look, Series(np.array(list(areas), dtype=np.int64), values)))
        if len(values):
            means.append(f"{name} {values.mean():.2f}")
    return line_panel(
        "auroc",
        "Finding flipped rewards, step by step",
        f"AUROC for flipped rewards, mean over steps: {', '.join(means)}; chance 0.5.",
        "Thin: each step; thick: smoothed. Dotted: chance. Where the pair count does as well as GDI, the "
        "geometry adds nothing to being in the minority of one's group. Few flips in a step make its AUROC jump.",
        lines,
        y="AUROC for flipped rewards",
        ylim=(0, 1.02),
        chance=0.5,
        legend="lower left",
    )


# As a result's series call them; the log has them after "geoalign/".
ACCURACIES = (
    ("train_accuracy", "training pairs", Look("soft", "v", ":")),
    ("heldout_pair_accuracy", "held-out pairs", Look("orange", "D", "--")),
    ("new_group_accuracy", "new groups", Look("blue", "s", "-")),
)


def projector_panel(run: Run) -> Panel | str:
    """The projector's accuracies over steps against chance, or why they cannot be drawn."""
    known = [(run.series(f"geoalign/{key}"), name, look) for key, name, look in ACCURACIES]
    lines = [smoothed(name, look, series) for series, name, look in known if len(series)]
    if not lines:
        return f"The curator of this run ({run.curator_name}) logged no projector accuracy: it trains no projector."
    low, high = run.series("geoalign/new_group_accuracy_low"), run.series("geoalign/new_group_accuracy_high")
    if len(low) and np.array_equal(low.steps, known[-1][0].steps) and np.array_equal(low.steps, high.steps):
        lines[-1] = replace(lines[-1], low=low.values, high=high.values)
    chance_series = run.series("geoalign/chance_accuracy")
    chance = float(chance_series.values[-1]) if len(chance_series) else 0.5
    words = "; ".join(f"{name} {series.values.mean():.2f}" for series, name, _ in known if len(series))
    return line_panel(
        "projector-accuracy",
        "Projector accuracy",
        f"Projector accuracy, mean over steps: {words}; chance {chance:g}.",
        "Held-out pairs share their rollouts with the training pairs, so their accuracy says when to stop, not "
        "whether the projector generalises. Accuracy on new groups does; its band is the 95% interval that takes "
        "groups as independent.",
        lines,
        y="pairs ordered rightly",
        ylim=(0, 1.03),
        chance=chance,
        legend="lower left",
    )


# --- the policy -------------------------------------------------------------------------------------------------------

PPO_KL_KEYS = ("ppo_kl", "geoalign/ppo_kl")
CLIP_KEYS = ("clip_ratio/region_mean", "clip_ratio")


def kl_panel(run: Run) -> Panel | str:
    """KL over steps, or why it cannot be drawn."""
    moved = run.series(*PPO_KL_KEYS)
    if len(moved):
        caption = (
            "Mean over tokens of old minus new log-probability (PPO KL), whatever beta is. With one update per "
            "generation it is zero by construction: the policy that is updated is the one that generated. With "
            "several, the first on each batch is zero, hence a saw-tooth."
        )
        return _small(moved, "kl", "PPO KL", "PPO KL", caption)
    reference = run.series("kl")
    if len(reference):
        caption = "KL to the reference model, as the trainer logs it where beta is above 0."
        return _small(reference, "kl", "KL to the reference model", "KL", caption)
    return "No KL was logged: neither PPO KL (`ppo_kl`) nor, with beta = 0, a KL to the reference model (`kl`)."


def clip_panel(run: Run) -> Panel | str:
    """Share of clipped tokens over steps, or why it cannot be drawn."""
    clipped = run.series(*CLIP_KEYS)
    if not len(clipped):
        return "No clip fraction was logged (`clip_ratio/region_mean`)."
    caption = (
        "Share of tokens whose probability ratio left the clipping range. Zero by construction in the first update on "
        "each batch, so always with one update per generation."
    )
    return _small(clipped, "clip-fraction", "Clip fraction", "share of tokens clipped", caption)


def _small(series: Series, name: str, title: str, axis: str, caption: str) -> Panel:
    """A quantity so small that its axis needs powers of ten."""
    zero = " It is zero at every step." if not series.values.any() else ""
    values = f"mean {series.values.mean():.4g}, largest {series.values.max():.4g}."
    alt = f"{title} over {len(series)} steps: {values}{zero}"
    panel = line_panel(name, title, alt, caption + zero, [smoothed("smoothed", Look("blue"), series)], y=axis)

    def draw(axes: Axes, theme: Theme) -> None:
        panel.draw(axes, theme)
        axes.ticklabel_format(axis="y", style="sci", scilimits=(-3, 3))
        axes.yaxis.get_offset_text().set_color(theme.soft)

    return replace(panel, draw=draw)
