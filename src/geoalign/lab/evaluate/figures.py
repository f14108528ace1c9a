"""The figures of an evaluation, from its scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from geoalign.lab.evaluation.results import EvaluationScores, ModelScores
from geoalign.lab.evaluation.scores import SetScores
from geoalign.lab.reports.benchmarks import Line, checkpoint_panel, pass_at_k_panel, write_figures


def draw_figures(scores: EvaluationScores, folder: Path) -> list[Path]:
    """Writes pass@k of every benchmark with several responses to a problem, and every curve over checkpoints."""
    panels = []
    models = _last_ones(scores.models)
    for number, scored in enumerate(scores.models[0].sets):
        if len(scored.pass_at_k) > 1:
            panels.append(pass_at_k_panel(scored.name, [_pass_line(model, model.sets[number]) for model in models]))
    rewards = {scored.name for scored in scores.models[0].sets if scored.kind == "dialogue"}
    for series, curves in scores.curves.items():
        for name, curve in curves.items():
            axis = "mean reward" if name in rewards else "accuracy"
            line = Line(name, curve.steps, curve.values, smooth=curve.smoothed)
            panels.append(checkpoint_panel(series, name, axis, line))
    return write_figures(panels, folder)


def _last_ones(models: Sequence[ModelScores]) -> list[ModelScores]:
    """Of the checkpoints of one run the last; they would hide each other."""
    last = {scored.model.series: scored for scored in models if scored.model.series is not None}
    return [scored for scored in models if scored.model.series is None or last[scored.model.series] is scored]


def _pass_line(model: ModelScores, scores: SetScores) -> Line:
    values = list(scores.pass_at_k.values())
    return Line(
        name=model.model.name,
        x=list(scores.pass_at_k),
        y=[value.estimate for value in values],
        low=[value.low for value in values],
        high=[value.high for value in values],
    )
