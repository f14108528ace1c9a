"""Proxy reward and gold utility over the evaluations: as they part, the reward is being hacked."""

from __future__ import annotations

import math

from matplotlib.axes import Axes

from geoalign.lab.analysis.statistics import ema
from geoalign.lab.reports.figures.curves import SMOOTHED_FROM, evaluation_curves
from geoalign.lab.reports.figures.style import STEP_AXIS, Panel, Theme
from geoalign.lab.store.logs import Evaluation
from geoalign.lab.store.run import Run
from geoalign.lab.text import inert, label

_LOOKS = (("blue", "o", "-"), ("orange", "s", "--"), ("green", "D", "-."), ("purple", "^", ":"))
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
            panels.append(_panel(evaluation_curves(known), metric, *words))
    return panels


def _panel(curves: dict[str, list[Evaluation]], metric: str, name: str, title: str, axis: str, caption: str) -> Panel:
    words = "; ".join(
        f"{inert(key, 40)} from {getattr(items[0], metric):.3f} to {getattr(items[-1], metric):.3f}"
        for key, items in curves.items()
    )

    def draw(axes: Axes, theme: Theme) -> None:
        for at, (key, items) in enumerate(curves.items()):
            colour, marker, dash = _LOOKS[at % len(_LOOKS)]
            steps = [0 if item.stage == "before_rl" else item.step for item in items]
            values = [getattr(item, metric) for item in items]
            thick = ema(values) if len(items) >= SMOOTHED_FROM else values
            shade = getattr(theme, colour)
            axes.plot(steps, values, color=shade, linewidth=0.8, alpha=0.6, marker=marker, markersize=4)
            axes.plot(steps, thick, color=shade, linestyle=dash, linewidth=2.2, label=label(key))
        axes.set(xlabel=STEP_AXIS, ylabel=axis)
        axes.legend(loc="best")

    return Panel(name=name, title=title, alt=f"{title}, by set: {words}.", caption=caption, draw=draw)
