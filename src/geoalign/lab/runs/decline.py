"""Whether a run's accuracy has fallen below its start: such a training makes the policy worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from geoalign.console.numbers import percent
from geoalign.lab.runs.reading import Evaluation, accuracy_of_evaluation

BEFORE = "before_rl"

REMEDY = (
    "RL makes the policy worse here. Usual causes: grpo.learning_rate is too high (try a third of it), the warm start "
    "is too short (sft.max_steps), or the rewards are wrong (geoalign audit, with the run's folder, shows which)."
)


@dataclass(frozen=True)
class Fall:
    """An evaluation of a set whose accuracy lies below that before RL, by more than the set's size explains."""

    set: str
    start: float
    accuracy: float
    step: int

    def __str__(self) -> str:
        return (
            f"Accuracy on {self.set} fell from {percent(self.start)} before RL to {percent(self.accuracy)} at step "
            f"{self.step:,}."
        )


def falls_of_accuracy(evaluations: Sequence[Evaluation]) -> list[Fall]:
    """Every evaluation whose accuracy lies below the lower end of the 95% interval of its set's accuracy before RL.

    The same problems are answered at every evaluation, so this is a cautious rule: it names no fall that another draw
    of the problems could explain. Sets without an accuracy, or without an interval before RL, have none.
    """
    lowest: dict[str, tuple[float, float]] = {}
    for line in evaluations:
        before = accuracy_of_evaluation(line) if line.stage == BEFORE else None
        if before is not None:
            lowest[line.set] = (before.estimate, before.low)
    found = []
    for line in evaluations:
        if line.stage == BEFORE or line.set not in lowest:
            continue
        start, low = lowest[line.set]
        if line.accuracy < low:
            found.append(Fall(set=line.set, start=start, accuracy=line.accuracy, step=line.step))
    return found


def last_falls(evaluations: Sequence[Evaluation]) -> list[Fall]:
    """The falls of the last evaluation of each set."""
    latest = {line.set: line for line in evaluations}
    return [fall for fall in falls_of_accuracy(evaluations) if fall.step == latest[fall.set].step]
