"""What came out of an evaluation: as JSON, as a table, and as lines below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from geoalign.lab.analysis.statistics import Interval
from geoalign.lab.evaluation.scores import Curve, SetScores, average, curve
from geoalign.lab.generation.models import EvaluatedModel
from geoalign.lab.terminal import Console

AVERAGE = "average"

# In words, for those counts that may need some.
_WORDS = {
    "no_answer": "without an answer in a box",
    "refused": "with an answer too long or too deeply nested to be read",
    "timeouts": "timed out in the verification",
    "errors": "failed in the verification",
    "not_text": "with bytes that are no text, written as U+FFFD",
}


@dataclass(frozen=True)
class ModelScores:
    """What one model came to, set by set, and on average over the benchmarks (None: it has none)."""

    model: EvaluatedModel
    sets: tuple[SetScores, ...]
    average: Interval | None


@dataclass(frozen=True)
class EvaluationScores:
    """What an evaluation came to; `curves`: by run, then by set or "average", where a run has several checkpoints."""

    models: tuple[ModelScores, ...]
    curves: Mapping[str, Mapping[str, Curve]]


def scores_of(models: Sequence[tuple[EvaluatedModel, Sequence[SetScores]]]) -> EvaluationScores:
    """All scores together with the averages and the curves over checkpoints."""
    scored = [ModelScores(model, tuple(sets), average(sets)) for model, sets in models]
    curves = {}
    for series in dict.fromkeys(member.model.series for member in scored if member.model.series is not None):
        members = [member for member in scored if member.model.series == series]
        if len(members) > 1:
            curves[series] = {name: curve(points) for name, points in _points(members).items()}
    return EvaluationScores(tuple(scored), curves)


def _points(members: Sequence[ModelScores]) -> dict[str, dict[int, float]]:
    points: dict[str, dict[int, float]] = {}
    for member in members:
        values = {scores.name: scores.accuracy or scores.reward for scores in member.sets}
        if len([scores for scores in member.sets if scores.accuracy is not None]) > 1:
            values[AVERAGE] = member.average
        for name, value in values.items():
            if value is not None and member.model.step is not None:
                points.setdefault(name, {})[member.model.step] = value.estimate
    return points


def result_json(scores: EvaluationScores) -> dict[str, Any]:
    """What `results.json` holds of the scores."""
    return {
        "models": {scored.model.name: _model_json(scored) for scored in scores.models},
        "curves": {
            series: {name: _curve_json(scored) for name, scored in curves.items()}
            for series, curves in scores.curves.items()
        },
    }


def _model_json(scored: ModelScores) -> dict[str, Any]:
    return {
        "place": scored.model.path,
        "revision": scored.model.revision,
        "series": scored.model.series,
        "step": scored.model.step,
        "average": None if scored.average is None else _interval_json(scored.average),
        "sets": {scored_set.name: _set_json(scored_set) for scored_set in scored.sets},
    }


def _set_json(scores: SetScores) -> dict[str, Any]:
    return {
        "kind": scores.kind,
        "problems": scores.problems,
        "left_out": dict(scores.left_out),
        "samples": scores.samples,
        "responses": scores.responses,
        "correct": scores.correct,
        "accuracy": None
        if scores.accuracy is None
        else {**_interval_json(scores.accuracy), "interval": scores.interval},
        "pass_at_k": {str(k): _interval_json(value) for k, value in scores.pass_at_k.items()},
        "reward": None if scores.reward is None else _interval_json(scores.reward),
        "unscored": scores.unscored,
        "truncated": scores.truncated,
        "mean_tokens": scores.tokens,
        "counts": dict(scores.counts),
    }


def _interval_json(value: Interval) -> dict[str, float]:
    return {"estimate": value.estimate, "low": value.low, "high": value.high}


def _curve_json(curve: Curve) -> dict[str, Any]:
    return {
        "steps": list(curve.steps),
        "values": list(curve.values),
        "ema": list(curve.smoothed),
        "last_mean": curve.last,
        "last_count": curve.last_count,
    }


def print_scores(console: Console, scores: EvaluationScores) -> None:
    """Prints every set with a row for each model, then the averages over checkpoints, then what to know about them."""
    table = Table(title="With 95% intervals over problems", title_justify="left")
    for name in ("set", "model"):
        table.add_column(name, overflow="fold")
    for name in ("accuracy in %", "reward"):
        if any(_cells(scored_set)[name] for model in scores.models for scored_set in model.sets):
            table.add_column(name, justify="right", no_wrap=True)
    shown = [str(column.header) for column in table.columns][2:]
    for number, scored_set in enumerate(scores.models[0].sets):
        for model in scores.models:
            cells = _cells(model.sets[number])
            table.add_row(_heading(scored_set), Text(model.model.name), *(cells[name] for name in shown))
        if len(scores.models) > 1:
            table.add_section()
    table.add_section()
    benchmarks = sum(scored_set.kind == "benchmark" for scored_set in scores.models[0].sets)
    for model in scores.models:
        if benchmarks > 1 and model.average is not None:
            rest = [""] * (len(shown) - 1)
            table.add_row(f"average of {benchmarks}", Text(model.model.name), _percent(model.average), *rest)
    console.print(table)
    for series, curves in scores.curves.items():
        console.print(_curve_table(series, curves, scores))
    for model in scores.models:
        for scored_set in model.sets:
            _print_lines(console, model.model.name, scored_set)


def _curve_table(series: str, curves: Mapping[str, Curve], scores: EvaluationScores) -> Table:
    rewards = {scored_set.name for scored_set in scores.models[0].sets if scored_set.kind == "dialogue"}
    longest = max(curves.values(), key=lambda scored_set: len(scored_set.steps))
    table = Table(
        title=Text(f"{series}: {len(longest.steps)} checkpoints, steps {longest.steps[0]} to {longest.steps[-1]}"),
        title_justify="left",
    )
    for name in ("set", f"mean of the last {longest.last_count}", "EMA 0.6 at the end"):
        table.add_column(name, justify="left" if name == "set" else "right")
    for name, scored_set in curves.items():
        values = (scored_set.last, scored_set.smoothed[-1])
        table.add_row(Text(name), *(f"{v:.4g}" if name in rewards else f"{100 * v:.1f}" for v in values))
    return table


def _heading(scored_set: SetScores) -> Text:
    return Text(scored_set.name if scored_set.samples == 1 else f"{scored_set.name} avg@{scored_set.samples}")


def _cells(scored_set: SetScores) -> dict[str, str]:
    mean = scored_set.reward
    reward = "" if mean is None else f"{mean.estimate:.4g} ({mean.low:.3g}..{mean.high:.3g})"
    return {"accuracy in %": "" if scored_set.accuracy is None else _percent(scored_set.accuracy), "reward": reward}


def _percent(value: Interval) -> str:
    return f"{100 * value.estimate:.1f} ({100 * value.low:.1f}-{100 * value.high:.1f})"


def _print_lines(console: Console, model: str, scored_set: SetScores) -> None:
    lines = []
    if scored_set.left_out:
        why = ", ".join(f"{count} {reason}" for reason, count in scored_set.left_out.items())
        left_out = sum(scored_set.left_out.values())
        lines.append(f"{left_out} of {scored_set.problems + left_out} prompts left out: {why}")
    happened = {**scored_set.counts, "unscored": scored_set.unscored, "truncated": scored_set.truncated}
    words = {**_WORDS, "unscored": "without a score", "truncated": "cut off at the length limit"}
    parts = [f"{count} {words.get(name, name)}" for name, count in happened.items() if count]
    if parts:
        lines.append(f"of {scored_set.responses} responses {', '.join(parts)}")
    if len(scored_set.pass_at_k) > 1:
        lines.append("pass@k " + ", ".join(f"{k}: {100 * v.estimate:.1f}" for k, v in scored_set.pass_at_k.items()))
    for line in lines:
        console.print(f"{model}, {scored_set.name}: {line}", markup=False, highlight=False, soft_wrap=True)
