"""What a run's files hold so far: the newest values, their history, and sums."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from geoalign.errors import RunFolderError
from geoalign.lab.store.logs import Evaluation, parse_evaluation, parse_metrics

# Points of a history that are kept: many times what a terminal can show.
_KEPT = 4096
# Logged names of a quantity; the first that a line has counts.
QUANTITIES: dict[str, tuple[str, ...]] = {
    "reward": ("reward",),
    "curated": ("geoalign/curated_reward",),
    "true": ("true_reward",),
    "scored": ("geoalign/scored_rollouts",),
    "flagged": ("geoalign/anomalous",),
    "replaced": ("geoalign/replaced",),
    "zero_weighted": ("geoalign/zero_weighted",),
    "dropped": ("geoalign/dropped_rows",),
    "new_groups": ("geoalign/new_group_accuracy",),
    "new_groups_low": ("geoalign/new_group_accuracy_low",),
    "new_groups_high": ("geoalign/new_group_accuracy_high",),
    "chance": ("geoalign/chance_accuracy",),
    "seconds": ("step_time",),
    "curation_seconds": ("geoalign/seconds",),
    "loss": ("loss",),
    "kl": ("ppo_kl", "geoalign/ppo_kl", "kl"),
    "tokens": ("completions/mean_length",),
    "clipped": ("completions/clipped_ratio",),
    "accuracy": ("mean_token_accuracy", "accuracy"),
    "epoch": ("epoch",),
}


@dataclass(frozen=True)
class Step:
    """One line of `metrics.jsonl`: the quantities of `QUANTITIES` that it has, as finite numbers."""

    stage: str
    step: int
    values: Mapping[str, float]


@dataclass
class Stage:
    """The lines of one stage.

    Attributes:
        step: of the newest line.
        histories: quantity -> the last 4096 values that were logged.
        sums: quantity -> sum over all lines.
        newest_of: quantity -> step of its newest value.
    """

    step: int = 0
    histories: dict[str, deque[float]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=_KEPT)))
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    newest_of: dict[str, int] = field(default_factory=dict)

    def add(self, step: Step) -> None:
        """Takes one line in."""
        self.step = step.step
        for name, value in step.values.items():
            self.histories[name].append(value)
            self.sums[name] += value
            self.newest_of[name] = step.step

    def newest(self, name: str) -> float | None:
        """The last value of a quantity; None where none was logged. Not every update generates, so it may be older."""
        return self.histories[name][-1] if self.histories.get(name) else None

    def history(self, name: str) -> list[float]:
        """The kept values of a quantity, oldest first."""
        return list(self.histories.get(name, ()))

    def seconds_per_step(self, last: int = 50) -> float | None:
        """Mean seconds of the last updates as logged, generation and curation included, evaluations not."""
        recent = self.history("seconds")[-last:]
        return sum(recent) / len(recent) if recent else None


@dataclass
class History:
    """All stages and evaluations of a run, filled line by line.

    Attributes:
        malformed: lines that are not what they should be, which are left out.
        unusable: values that are no numbers, or infinite, or beyond 1e100, which are left out.
    """

    stages: dict[str, Stage] = field(default_factory=dict)
    evaluations: list[Evaluation] = field(default_factory=list)
    current: str | None = None
    malformed: int = 0
    unusable: int = 0

    def add_metrics(self, lines: Iterable[Mapping[str, Any]]) -> list[Step]:
        """Takes lines of `metrics.jsonl` in, and returns them."""
        taken = []
        for line in lines:
            try:
                row = parse_metrics(line, "the log")
            except RunFolderError:
                self.malformed += 1
                continue
            self.unusable += len(row.left_out)
            step = Step(row.stage, row.step, _quantities(row.values))
            self.stages.setdefault(row.stage, Stage()).add(step)
            self.current = row.stage
            taken.append(step)
        return taken

    def add_evaluations(self, lines: Iterable[Mapping[str, Any]]) -> list[Evaluation]:
        """Takes lines of `evaluation.jsonl` in, and returns them."""
        taken = []
        for line in lines:
            try:
                taken.append(parse_evaluation(line, "the log"))
            except RunFolderError:
                self.malformed += 1
        self.evaluations += taken
        return taken


def _quantities(values: Mapping[str, float]) -> dict[str, float]:
    finite = {name: value for name, value in values.items() if not math.isnan(value)}
    logged = ((quantity, [finite[name] for name in names if name in finite]) for quantity, names in QUANTITIES.items())
    return {quantity: known[0] for quantity, known in logged if known}
