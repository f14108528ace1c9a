"""From what a run's curation logged: was there a consensus, how close the advantages came to the true rewards',
what it cost. One definition each for summary, report and comparison."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from geoalign.console.numbers import ends, percent
from geoalign.files.columns import Floats
from geoalign.lab.runs.reading import Run
from geoalign.pages.headlines import CHANCE, HEADLINES, Verdict, level_of
from geoalign.statistics import Interval, known, mean_interval

# With fewer steps a last quarter is too few for an interval that says anything.
LATE_FROM = 16
# As a result's series call them; the log has them after "geoalign/".
APPLIED, OBSERVED = "advantage_cosine", "observed_advantage_cosine"
CURATION_SECONDS = ("geoalign/seconds", "geoalign/hidden_seconds")


def consensus(run: Run) -> Verdict:
    """Compares accuracy on new groups with chance, over the run and over its last quarter.

    The interval is Student's t over steps, taken as independent; one step has its own interval over groups.
    """
    series = run.series("geoalign/new_group_accuracy")
    if not len(series):
        return Verdict("unknown", "No accuracy on new groups was measured.", _why_unmeasured(run), 0)
    overall = _interval(run, series.values)
    level = level_of(overall, CHANCE)
    last = series.values[-(len(series) // 4) :]
    late = _interval(run, last) if len(series) >= LATE_FROM else overall
    if level == "yes" and level_of(late, CHANCE) != "yes":
        level = "faded"
    over = "one step" if len(series) == 1 else f"mean over {len(series)} steps"
    text = [
        f"On groups the projector had not been trained on, it told the better response of a pair from the worse one in "
        f"{overall.estimate:.1%} of pairs ({over}; 95% interval {ends(overall, percent)}; chance {CHANCE:.0%})."
    ]
    if len(series) >= LATE_FROM:
        text.append(f"Over the last {len(last)} of these steps it was {late.estimate:.1%} ({ends(late, percent)}).")
    return Verdict(level, HEADLINES[level], " ".join(text), len(series))


def accuracy_on_new_groups(values: Sequence[float], low: Sequence[float], high: Sequence[float]) -> Interval:
    """A run's accuracy on new groups: the mean over its steps with Student's t interval; one step has its own ends."""
    if len(values) != 1:
        return mean_interval(np.asarray(values, dtype=np.float64))
    bounds = (float(low[-1]), float(high[-1])) if len(low) and len(high) else (math.nan, math.nan)
    return Interval(float(values[0]), *bounds)


def _interval(run: Run, values: Floats) -> Interval:
    low, high = (run.series(f"geoalign/new_group_accuracy_{end}").values for end in ("low", "high"))
    return accuracy_on_new_groups(values.tolist(), low.tolist(), high.tolist())


def _why_unmeasured(run: Run) -> str:
    if run.curator_name in ("grpo", "unknown"):
        return f"The curator of this run ({run.curator_name}) looks for no consensus."
    return (
        f"The curator {run.curator_name} logged none: it trains no projector, or the first batch was the only one "
        "(a projector is tested on a new batch before it is trained on it)."
    )


@dataclass(frozen=True)
class Agreement:
    """Mean cosines with the advantages of the true rewards over `generations`, with Student's t intervals: of the
    advantages as applied, and of those of the rewards as they came, which GRPO would have been trained with."""

    applied: Interval
    observed: Interval
    generations: int


def agreement(
    applied: Sequence[float] | NDArray[np.float64], observed: Sequence[float] | NDArray[np.float64]
) -> Agreement:
    """A run's agreement from the cosines of its generations; steps without a generation, NaN, are left out."""
    values = np.asarray(applied, dtype=np.float64)
    as_they_came = mean_interval(np.asarray(observed, dtype=np.float64))
    return Agreement(mean_interval(values), as_they_came, len(known(values)))


def agreement_of(run: Run) -> Agreement:
    applied, observed = (run.series(f"geoalign/{name}").values for name in (APPLIED, OBSERVED))
    return agreement(applied, observed)


def curation_seconds(logged: Mapping[str, Any]) -> float | None:
    """What the curator added to a step: its own seconds and those of its pass for states; None where neither is."""
    seconds = [value for name in CURATION_SECONDS if (value := logged.get(name)) is not None]
    return sum(seconds, 0.0) if seconds else None
