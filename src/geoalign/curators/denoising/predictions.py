"""The predictions of all states as one, if they say anything."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.curators.denoising.rows import NoisyRows
from geoalign.method.correlation import grouped_correlation
from geoalign.method.intervals import Interval


def combined_prediction(rows: NoisyRows, level: float) -> tuple[Float[Tensor, " n"] | None, dict[str, float]]:
    """The predictions of all states as one, of mean square 1; None where they say nothing.

    A state takes part where the interval of its correlation with the rewards lies above 0; those that do are weighted
    by least squares on the rewards, so that one without a signal of its own adds nothing. Of fits on all rows and on
    rows between the extremes, each tested on its own kind, the one with the higher lower bound is taken; `level` is
    that of both tests together.
    """
    y, kinds = rows.standardised, rows.fitted_on
    views = [_view(rows, y, rows.weights * kinds[:, kind], kind, (1 + level) / 2) for kind in range(2)]
    z, whole, used = max(views, key=lambda view: -torch.inf if math.isnan(view[1].low) else view[1].low)
    metrics = {"states_used": float(used), "fitted_between": float(views[1][1] is whole)}
    return z, {
        **metrics,
        "correlation": whole.estimate,
        "correlation_low": whole.low,
        "correlation_high": whole.high,
    }


def _view(
    rows: NoisyRows, y: Tensor, weights: Tensor, kind: int, level: float
) -> tuple[Float[Tensor, " n"] | None, Interval, int]:
    """The combined prediction by fits on one kind of rows, its correlation with the rewards, and the states in it."""

    def test(z: Tensor) -> Interval:
        return grouped_correlation(z, y, rows.group, weights, inflation=rows.inflation, level=level)

    predictions = rows.predictions[:, :, kind]
    tests = [test(z) for z in predictions.unbind(1)]
    used = [index for index, each in enumerate(tests) if each.low > 0]
    if not used:
        return None, max(tests, key=lambda each: each.low, default=Interval(*[float("nan")] * 3)), 0
    z = predictions[:, used]
    gram = z.T @ (z * weights[:, None])
    gram.diagonal().add_(1e-6 * float(gram.diagonal().mean()))
    z = z @ torch.linalg.solve(gram, z.T @ (weights * y)).clamp(min=0)
    return z / ((weights @ z.square()) / weights.sum()).sqrt(), test(z), len(used)
