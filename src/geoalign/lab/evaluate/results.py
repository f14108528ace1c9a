"""The results of an evaluation: as JSON, as a table, and as lines below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from geoalign.console.numbers import ends, percent, short
from geoalign.console.terminal import Console, print_rows, say_paragraph
from geoalign.lab.evaluate.evaluated_models import EvaluatedModel
from geoalign.lab.evaluate.scores import CheckpointCurve, SetScores, average, curve
from geoalign.statistics import Interval

AVERAGE = "average"

# In words, for those counts that may need some.
_WORDS = {
    "no_answer": "without an answer in a box",
    "refused": "with an answer too long or too deeply nested to be read",
    "timeouts": "timed out in the verification",
    "errors": "failed in the verification",
    "not_text": "with bytes that are no text, written as U+FFFD",
    "unscored": "without a score",
    "truncated": "cut off at the length limit",
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
    curves: Mapping[str, Mapping[str, CheckpointCurve]]


def scores_of(models: Sequence[tuple[EvaluatedModel, Sequence[SetScores]]]) -> EvaluationScores:
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
        if sum(scores.accuracy is not None for scores in member.sets) > 1:
            values[AVERAGE] = member.average
        for name, value in values.items():
            if value is not None and member.model.step is not None:
                points.setdefault(name, {})[member.model.step] = value.estimate
    return points


def result_json(scores: EvaluationScores) -> dict[str, Any]:
    models = {}
    for scored in scores.models:
        model = {name: getattr(scored.model, name) for name in ("path", "revision", "series", "step")}
        sets = {each.name: asdict(each) for each in scored.sets}
        models[scored.model.name] = {**model, "average": scored.average and asdict(scored.average), "sets": sets}
    curves = {series: {name: asdict(one) for name, one in each.items()} for series, each in scores.curves.items()}
    return {"models": models, "curves": curves}


def print_scores(console: Console, scores: EvaluationScores) -> None:
    """Prints every set with a row for each model, then the averages over checkpoints, then what to know about them."""
    first = scores.models[0].sets
    rows = []
    for number, scored_set in enumerate(first):
        heading = scored_set.name if scored_set.samples == 1 else f"{scored_set.name} avg@{scored_set.samples}"
        for model in scores.models:
            rows.append([heading, model.model.name, *_cells(model.sets[number])])
    benchmarks = sum(scored_set.kind == "benchmark" for scored_set in first)
    for model in scores.models:
        if benchmarks > 1 and model.average is not None:
            rows.append([f"average of {benchmarks}", model.model.name, *_accuracy(model.average), ""])
    heads = ["set", "model", "accuracy", "reward", "95% interval"]
    # An interval is of the accuracy or of the reward, whichever a set has.
    rows = [[*row[:3], row[4], row[3]] for row in rows]
    print_rows(console, "Scores, with 95% intervals over problems", heads, rows, names=2)
    rewards = {scored_set.name for scored_set in first if scored_set.kind == "dialogue"}
    for series, curves in scores.curves.items():
        for name, one in curves.items():
            write = short if name in rewards else percent
            say_paragraph(
                console,
                f"{series}, {name}: {len(one.steps)} checkpoints from step {one.steps[0]} to {one.steps[-1]}. Mean of "
                f"the last {one.last_count}: {write(one.last)}. Moving average at the end: {write(one.smoothed[-1])}.",
            )
    for model in scores.models:
        for scored_set in model.sets:
            for line in _lines(scored_set):
                say_paragraph(console, f"{model.model.name}, {scored_set.name}: {line}")


def _cells(scored: SetScores) -> list[str]:
    """Accuracy, its or the reward's interval, and the reward; what a set does not have is empty."""
    if scored.accuracy is not None:
        return [*_accuracy(scored.accuracy), ""]
    if scored.reward is None:
        return ["", "", ""]
    return ["", ends(scored.reward), short(scored.reward.estimate)]


def _accuracy(value: Interval) -> list[str]:
    return [percent(value.estimate), ends(value, percent)]


def _lines(scored: SetScores) -> list[str]:
    lines = []
    if scored.left_out:
        why = ", ".join(f"{count} {reason}" for reason, count in scored.left_out.items())
        left_out = sum(scored.left_out.values())
        lines.append(f"{left_out} of {scored.problems + left_out} prompts left out: {why}")
    happened = {**scored.counts, "unscored": scored.unscored, "truncated": scored.truncated}
    parts = [f"{count} {_WORDS.get(name, name)}" for name, count in happened.items() if count]
    if parts:
        lines.append(f"of {scored.responses} responses {', '.join(parts)}")
    if len(scored.pass_at_k) > 1:
        lines.append("pass@k " + ", ".join(f"{k}: {percent(v.estimate)}" for k, v in scored.pass_at_k.items()))
    return lines
