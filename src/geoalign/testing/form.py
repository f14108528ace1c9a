"""Promises on the form of a curation, without which nothing else can be looked at."""

from __future__ import annotations

from geoalign.testing.trial import Trial, expect, expect_finite, promise


@promise("it scores and flags every input row, and flags none that it did not score")
def every_row_is_judged(trial: Trial) -> None:
    rows = len(trial.batch())
    curation = trial.expected
    for name in ("scores", "anomalous"):
        shape = tuple(getattr(curation, name).shape)
        expect(shape == (rows,), f"{name} has shape {shape} for a batch of {rows} rows")
    flagged_unscored = curation.anomalous & curation.scores.isnan()
    expect(not flagged_unscored.any(), "a row is anomalous whose score is NaN")


@promise("weights and advantages are finite numbers, and no weight is negative")
def numbers_are_finite(trial: Trial) -> None:
    expect_finite(trial.expected)
    expect((trial.expected.weights >= 0).all(), "a weight is negative")


@promise("metrics are floats")
def metrics_are_floats(trial: Trial) -> None:
    for name, value in trial.expected.metrics.items():
        expect(isinstance(value, float), f"{name} is of type {type(value).__name__}")
