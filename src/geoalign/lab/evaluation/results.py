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
    found = [ModelScores(model, tuple(sets), average(sets)) for model, sets in models]
    curves = {}
    for series in dict.fromkeys(one.model.series for one in found if one.model.series is not None):
        members = [one for one in found if one.model.series == series]
        if len(members) > 1:
            curves[series] = {name: curve(points) for name, points in _points(members).items()}
    return EvaluationScores(tuple(found), curves)


def _points(members: Sequence[ModelScores]) -> dict[str, dict[int, float]]:
    points: dict[str, dict[int, float]] = {}
    for member in members:
        values = {one.name: one.accuracy or one.reward for one in member.sets}
        if len([one for one in member.sets if one.accuracy is not None]) > 1:
            values[AVERAGE] = member.average
        for name, value in values.items():
            if value is not None and member.model.step is not None:
                points.setdefault(name, {})[member.model.step] = value.estimate
    return points


def result_json(scores: EvaluationScores) -> dict[str, Any]:
    """What `results.json` holds of the scores."""
    return {
        "models": {one.model.name: _model_json(one) for one in scores.models},
        "curves": {
            series: {name: _curve_json(one) for name, one in curves.items()} for series, curves in scores.curves.items()
        },
    }


def _model_json(one: ModelScores) -> dict[str, Any]:
    return {
        "place": one.model.path,
        "revision": one.model.revision,
        "series": one.model.series,
        "step": one.model.step,
        "average": None if one.average is None else _interval_json(one.average),
        "sets": {found.name: _set_json(found) for found in one.sets},
    }


def _set_json(one: SetScores) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "problems": one.problems,
        "left_out": dict(one.left_out),
        "samples": one.samples,
        "responses": one.responses,
        "correct": one.correct,
        "accuracy": None if one.accuracy is None else {**_interval_json(one.accuracy), "interval": one.interval},
        "pass_at_k": {str(k): _interval_json(value) for k, value in one.pass_at_k.items()},
        "reward": None if one.reward is None else _interval_json(one.reward),
        "unscored": one.unscored,
        "truncated": one.truncated,
        "mean_tokens": one.tokens,
        "counts": dict(one.counts),
    }


def _interval_json(value: Interval) -> dict[str, float]:
    return {"estimate": value.estimate, "low": value.low, "high": value.high}


def _curve_json(one: Curve) -> dict[str, Any]:
    return {
        "steps": list(one.steps),
        "values": list(one.values),
        "ema": list(one.smoothed),
        "last_mean": one.last,
        "last_count": one.last_count,
    }


def print_scores(console: Console, scores: EvaluationScores) -> None:
    """Prints every set with a row for each model, then the averages over checkpoints, then what to know about them."""
    table = Table(title="With 95% intervals over problems", title_justify="left")
    for name in ("set", "model"):
        table.add_column(name, overflow="fold")
    for name in ("accuracy in %", "reward"):
        if any(_cells(one)[name] for model in scores.models for one in model.sets):
            table.add_column(name, justify="right", no_wrap=True)
    shown = [str(column.header) for column in table.columns][2:]
    for number, one in enumerate(scores.models[0].sets):
        for model in scores.models:
            cells = _cells(model.sets[number])
            table.add_row(_heading(one), Text(model.model.name), *(cells[name] for name in shown))
        if len(scores.models) > 1:
            table.add_section()
    table.add_section()
    benchmarks = sum(one.kind == "benchmark" for one in scores.models[0].sets)
    for model in scores.models:
        if benchmarks > 1 and model.average is not None:
            rest = [""] * (len(shown) - 1)
            table.add_row(f"average of {benchmarks}", Text(model.model.name), _percent(model.average), *rest)
    console.print(table)
    for series, curves in scores.curves.items():
        console.print(_curve_table(series, curves, scores))
    for model in scores.models:
        for one in model.sets:
            _print_lines(console, model.model.name, one)


def _curve_table(series: str, curves: Mapping[str, Curve], scores: EvaluationScores) -> Table:
    rewards = {one.name for one in scores.models[0].sets if one.kind == "dialogue"}
    longest = max(curves.values(), key=lambda one: len(one.steps))
    table = Table(
        title=Text(f"{series}: {len(longest.steps)} checkpoints, steps {longest.steps[0]} to {longest.steps[-1]}"),
        title_justify="left",
    )
    for name in ("set", f"mean of the last {longest.last_count}", "EMA 0.6 at the end"):
        table.add_column(name, justify="left" if name == "set" else "right")
    for name, one in curves.items():
        values = (one.last, one.smoothed[-1])
        table.add_row(Text(name), *(f"{v:.4g}" if name in rewards else f"{100 * v:.1f}" for v in values))
    return table


def _heading(one: SetScores) -> Text:
    return Text(one.name if one.samples == 1 else f"{one.name} avg@{one.samples}")


def _cells(one: SetScores) -> dict[str, str]:
    found = one.reward
    reward = "" if found is None else f"{found.estimate:.4g} ({found.low:.3g}..{found.high:.3g})"
    return {"accuracy in %": "" if one.accuracy is None else _percent(one.accuracy), "reward": reward}


def _percent(value: Interval) -> str:
    return f"{100 * value.estimate:.1f} ({100 * value.low:.1f}-{100 * value.high:.1f})"


def _print_lines(console: Console, model: str, one: SetScores) -> None:
    lines = []
    if one.left_out:
        why = ", ".join(f"{count} {reason}" for reason, count in one.left_out.items())
        lines.append(
            f"{sum(one.left_out.values())} of {one.problems + sum(one.left_out.values())} prompts left out: {why}"
        )
    happened = {**one.counts, "unscored": one.unscored, "truncated": one.truncated}
    words = {**_WORDS, "unscored": "without a score", "truncated": "cut off at the length limit"}
    parts = [f"{count} {words.get(name, name)}" for name, count in happened.items() if count]
    if parts:
        lines.append(f"of {one.responses} responses {', '.join(parts)}")
    if len(one.pass_at_k) > 1:
        lines.append("pass@k " + ", ".join(f"{k}: {100 * v.estimate:.1f}" for k, v in one.pass_at_k.items()))
    for line in lines:
        console.print(f"{model}, {one.name}: {line}", markup=False, highlight=False, soft_wrap=True)
