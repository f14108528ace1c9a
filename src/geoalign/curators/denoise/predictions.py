"""The predictions of all states as one, if they say anything; and what trusted rewards say that the others do not."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.curators.denoise.correlation import grouped_correlation
from geoalign.curators.denoise.ridge import fitted_predictions, fold_predictions
from geoalign.curators.denoise.rows import NoisyRows
from geoalign.method.intervals import Interval

UNKNOWN = Interval(math.nan, math.nan, math.nan)
_PENALTIES = (0.1, 1.0, 10.0)


def combined_prediction(rows: NoisyRows, level: float) -> tuple[Float[Tensor, " n"] | None, dict[str, float]]:
    """The predictions of all states as one, of mean square 1; None where they say nothing.

    A state takes part where the interval of its correlation with the rewards lies above 0; those that do are weighted
    by least squares on the rewards, so that one without a signal of its own adds nothing. Of fits on all rows and on
    rows between the extremes, each tested on its own kind, the one with the higher lower bound is taken; `level` is
    that of both tests together. Rows of prompts that a fit has seen are neither tested nor predicted.
    """
    y, kinds = rows.standardised, rows.fitted_on & rows.unseen[:, None]
    views = [_view(rows, y, rows.weights * kinds[:, kind], kind, (1 + level) / 2) for kind in range(2)]
    z, whole, used = max(views, key=lambda view: -torch.inf if math.isnan(view[1].low) else view[1].low)
    bounds = {"correlation": whole.estimate, "correlation_low": whole.low, "correlation_high": whole.high}
    metrics = {"states_used": float(used), "fitted_between": float(views[1][1] is whole), **bounds}
    return z if z is None else z * rows.unseen, metrics


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
        return None, max(tests, key=lambda each: each.low, default=UNKNOWN), 0
    z = predictions[:, used]
    gram = z.T @ (z * weights[:, None])
    gram.diagonal().add_(1e-6 * float(gram.diagonal().mean()))
    z = z @ torch.linalg.solve(gram, z.T @ (weights * y)).clamp(min=0)
    return z / ((weights @ z.square()) / weights.sum()).sqrt(), test(z), len(used)


def learnt_correction(
    states: Float[Tensor, "n d"], residuals: Float[Tensor, " n"], rows: NoisyRows, *, level: float
) -> tuple[Float[Tensor, " n"] | None, Interval]:
    """Errors that agree with the states, as a ridge on the trusted rows shows them, shrunk to the slope that is sure.

    With z the folds' predictions of the residuals d, r their correlation and l the lower end of its interval, the
    ridge's prediction is multiplied by (l / r) sum z d / sum z^2. The trusted rows are the same in every batch, and so
    is the fit's error: over a training a policy follows it as it follows a reward's.

    Args:
        states: centred within groups.
        residuals: [N] true minus expected reward; heeded where trusted.
        level: of the interval that must exclude chance, over all penalties.

    Returns:
        The correction of every row, None while the interval of the folds' correlation with the residuals reaches 0;
        and that interval, NaN where fewer than two groups hold trusted rows.
    """
    own, targets = rows.trusted, residuals[rows.trusted]
    # Groups of different folds predict each other: every product counts twice.
    weights, twice = torch.ones_like(targets), torch.full_like(targets, 2.0)
    group = rows.group[own].unique(return_inverse=True)[1]
    known = states[own.to(states.device)]
    folds = fold_predictions(known, targets[:, None], torch.ones_like(group) > 0, group % 5, _PENALTIES)
    best, shrunk, chosen = UNKNOWN, 0.0, 0.0
    for penalty, unseen in zip(_PENALTIES, folds[:, :, 0].double().cpu(), strict=True):
        level_of_each = 1 - (1 - level) / len(_PENALTIES)
        interval = grouped_correlation(unseen, targets, group, weights, inflation=twice, level=level_of_each)
        if not interval.low <= best.low:
            slope = unseen @ targets / unseen.square().sum().clamp(min=1e-30)
            best, shrunk, chosen = interval, float(slope), penalty
    if not best.low > 0:
        return None, best
    every = torch.where(own, residuals, 0.0)[:, None]
    return shrunk * (best.low / best.estimate) * fitted_predictions(states, every, own, chosen)[
        :, 0
    ].double().cpu(), best
