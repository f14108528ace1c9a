"""The results of an evaluation: as JSON, as a table, and as lines below it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from geoalign.console.numbers import ends, percent, short
from geoalign.console.terminal import Console, print_rows, say_paragraph
from geoalign.lab.evaluate.scores import CheckpointCurve, EvaluationScores, SetScores

# Why an answer was not read, in words.
_REASONS = {
    "no_answer": "without an answer in a box",
    "refused": "with an answer too long or too deeply nested to be read",
    "timeouts": "timed out in the verification",
    "errors": "failed in the verification",
}


def result_json(scores: EvaluationScores) -> dict[str, Any]:
    """The scores as `results.json` holds them."""
    models = {}
    for scored in scores.models:
        model = scored.model
        models[model.name] = {
            "path": model.path,
            "revision": model.revision,
            "series": model.series,
            "step": model.step,
            "average": None if scored.average is None else asdict(scored.average),
            "sets": {of_set.name: asdict(of_set) for of_set in scored.sets},
        }
    return {"models": models, "curves": {series: asdict(curves) for series, curves in scores.curves.items()}}


def print_scores(console: Console, scores: EvaluationScores) -> None:
    """Prints every set with a row for each model, then the averages over checkpoints, then what to know about them."""
    rows = []
    for of_models in zip(*(scored.sets for scored in scores.models), strict=True):
        for scored, of_set in zip(scores.models, of_models, strict=True):
            heading = of_set.name if of_set.samples == 1 else f"{of_set.name} avg@{of_set.samples}"
            accuracy = reward = interval = ""
            if of_set.accuracy is not None:
                accuracy = percent(of_set.accuracy.estimate)
                interval = ends(of_set.accuracy, percent)
            elif of_set.reward is not None:
                reward = short(of_set.reward.estimate)
                interval = ends(of_set.reward)
            rows.append([heading, scored.model.name, accuracy, reward, interval])
    benchmarks = sum(of_set.kind == "benchmark" for of_set in scores.models[0].sets)
    for scored in scores.models:
        if benchmarks > 1 and scored.average is not None:
            average = percent(scored.average.estimate)
            rows.append([f"average of {benchmarks}", scored.model.name, average, "", ends(scored.average, percent)])
    heads = ["set", "model", "accuracy", "reward", "95% interval"]
    print_rows(console, "Scores, with 95% intervals over problems", heads, rows, names=2)
    kinds = {of_set.name: of_set.kind for of_set in scores.models[0].sets}
    for series, curves in scores.curves.items():
        for name, curve in curves.sets.items():
            _print_curve(console, f"{series}, {name}", curve, share=kinds[name] == "benchmark")
        if curves.average is not None:
            _print_curve(console, f"{series}, average", curves.average, share=True)
    for scored in scores.models:
        for of_set in scored.sets:
            for line in _lines(of_set):
                say_paragraph(console, f"{scored.model.name}, {of_set.name}: {line}")


def _print_curve(console: Console, name: str, curve: CheckpointCurve, *, share: bool) -> None:
    """Prints the end of a curve of accuracies (`share`) or rewards."""
    write = percent if share else short
    steps = f"{len(curve.steps)} checkpoints from step {curve.steps[0]} to {curve.steps[-1]}"
    last = f"Mean of the last {curve.last_count}: {write(curve.last)}"
    smoothed = f"Moving average at the end: {write(curve.smoothed[-1])}"
    say_paragraph(console, f"{name}: {steps}. {last}. {smoothed}.")


def _lines(scored: SetScores) -> list[str]:
    """What to know about the scores of a set: what was left out, not scored or cut off, and pass@k."""
    lines = []
    if scored.left_out:
        why = ", ".join(f"{count} {reason}" for reason, count in scored.left_out.items())
        left_out = sum(scored.left_out.values())
        lines.append(f"{left_out} of {scored.problems + left_out} prompts left out: {why}")
    if scored.kind == "benchmark":
        parts = [f"{count} {_REASONS[reason]}" for reason, count in scored.counts.items()]
    else:
        parts = [f"{count} without a score ({reason})" for reason, count in scored.counts.items()]
    if scored.truncated:
        parts.append(f"{scored.truncated} cut off at the length limit")
    if parts:
        lines.append(f"of {scored.responses} responses {', '.join(parts)}")
    if len(scored.pass_at_k) > 1:
        shares = ", ".join(f"{k}: {percent(interval.estimate)}" for k, interval in scored.pass_at_k.items())
        lines.append(f"pass@k {shares}")
    return lines
