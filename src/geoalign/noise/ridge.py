"""A ridge regression updated batch by batch.

The fit of all earlier batches is w = (A + lambda tr(A)/d I)^-1 b with A = sum gamma^age X'X and b = sum gamma^age X'y,
X the states centred within their groups and y the rewards standardised within them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.errors import InputError
from geoalign.method.arithmetic import add_product, full_product
from geoalign.method.groups import content_folds
from geoalign.method.intervals import Interval, t_quantile

PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
_TINY, _ROUNDS = 1e-30, 10
# A is symmetric: the blocks on and above its diagonal are summed, and mirrored.
_BLOCKS = 8


def conjugate_gradients(
    product: Callable[[Tensor], Tensor],
    diagonal: Float[Tensor, "d _"],
    moments: Float[Tensor, "d c"],
    shift: Float[Tensor, " c"],
    start: Float[Tensor, "d c"],
) -> Float[Tensor, "d c"]:
    """(A + shift I)^-1 b of each column, by conjugate gradients behind the diagonal; from zeros, zeros where b is zero.

    A round costs d^2, a Cholesky factor of A d^3 / 3. Few rounds regularise, as a larger shift would.

    Args:
        product: gives A w, each column by its own A.
        diagonal: of A; one column for all, or one for each.
        start: where they begin, an earlier solution say.
    """
    scale, weights = (diagonal + shift).clamp(min=_TINY), start
    left = moments - product(weights) - shift * weights
    step = left / scale
    size = (left * step).sum(dim=0)
    for _ in range(_ROUNDS):
        image = product(step) + shift * step
        curvature = (step * image).sum(dim=0)
        # None is left where a column is solved, or where rounding has taken A + shift below zero.
        length = torch.where(curvature > 0, size / curvature.clamp(min=_TINY), 0.0)
        weights, left = weights + length * step, left - length * image
        before, size = size, (left.square() / scale).sum(dim=0)
        step = left / scale + size / before.clamp(min=_TINY) * step
    return weights


def fold_predictions(
    states: Float[Tensor, "b d"], targets: Float[Tensor, " b"], used: Tensor, fold: Int[Tensor, " b"], penalty: float
) -> Float[Tensor, " b"]:
    """Predictions of each fold's rows by a ridge on the used rows of the other folds; 0 where there are none."""
    folds, own = fold.to(states.device).unique(return_inverse=True)
    # A column for each fold.
    others = (used.to(states.device)[:, None] & (own[:, None] != torch.arange(len(folds)).to(own))).to(states)
    diagonal = full_product(states.square().T, others)
    moments = full_product(states.T, targets.to(states)[:, None] * others)

    def product(weights: Tensor) -> Tensor:
        return full_product(states.T, others * full_product(states, weights))

    weights = conjugate_gradients(product, diagonal, moments, penalty * diagonal.mean(dim=0), torch.zeros_like(moments))
    return full_product(states, weights).gather(1, own[:, None])[:, 0]


def predict_next(
    sums: dict[str, Any],
    states: Float[Tensor, "b d"],
    targets: Float[Tensor, " b"],
    used: Tensor,
    group: Int[Tensor, " b"],
    *,
    decay: float = 0.9,
    penalties: Sequence[float] = PENALTIES,
) -> tuple[Float[Tensor, " b"], dict[str, Any]]:
    """Predicts a batch from earlier ones, the first one by folds of its groups, and adds it to the sums.

    Every penalty predicts; the one whose predictions of earlier batches agreed most with the rewards is taken.

    Args:
        sums: {} at first; then A, b, [d, P] where the next solutions start, the record (decayed sums of z y, z^2 and
            y^2 by penalty) and the penalty chosen by it.
        states: centred within their groups.
        targets: rewards standardised within their groups; 0 where a row says nothing.
        used: [B] rows that enter A.
        decay: gamma, the factor on all earlier batches.
        penalties: the lambdas to choose from, ascending.

    Raises:
        InputError: the states are not as wide as earlier ones.
    """
    width, count, y = states.shape[1], len(penalties), targets.to(states)
    if sums:
        gram, moments, weights, record = (sums[name].to(states) for name in ("gram", "moments", "weights", "record"))
        if len(moments) != width:
            raise InputError(f"hidden: expected {len(moments)} columns as earlier, got {width}")
        diagonal = gram.diagonal()[:, None]
        shift = states.new_tensor(penalties) * diagonal.mean()
        columns = moments[:, None].expand(width, count)
        weights = conjugate_gradients(partial(full_product, gram), diagonal, columns, shift, weights)
        values = full_product(states, weights)
        found, values = values[:, sums["chosen"]], values * (y != 0)[:, None]
        record = decay * record + torch.stack(
            [full_product(y, values), values.square().sum(dim=0), (y @ y).expand(count)]
        )
        chosen = int((record[0] / (record[1] * record[2]).clamp(min=_TINY).sqrt()).argmax())
    else:
        fold = content_folds(states.square().sum(dim=1).double().cpu(), group)
        found = fold_predictions(states, y, used, fold, 1.0)
        gram, moments = states.new_zeros(width, width), states.new_zeros(width)
        weights, record, chosen = states.new_zeros(width, count), states.new_zeros(3, count), count // 2
    gram, rows, step = decay * gram, states[used.to(states.device)], -(-width // _BLOCKS)
    for start in range(0, width, step):
        end = start + step
        add_product(gram[start:end, start:], rows[:, start:end].T, rows[:, start:])
        gram[end:, start:end] = gram[start:end, end:].T
    moments = decay * moments + full_product(states.T, y)
    return found, {"gram": gram, "moments": moments, "weights": weights, "record": record, "chosen": chosen}


def grouped_correlation(
    predictions: Float[np.ndarray, " n"],
    rewards: Float[np.ndarray, " n"],
    groups: Int[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"],
    *,
    inflation: Float[np.ndarray, " n"] | float = 1.0,
    level: float = 0.95,
) -> Interval:
    """r = sum w z y / sqrt(sum w z^2 sum w y^2), with an interval that takes groups, not rows, as independent.

    With e_g = sum over the group of w z (y - b z), b the slope, var(r) = sum e_g^2 / (sum w z^2 sum w y^2), with
    Student's t on one degree of freedom less than groups. Bounds of a single group are NaN, and all is NaN where
    predictions or rewards do not vary.

    Args:
        predictions: z, of rows that the fit had not seen.
        rewards: y, standardised within groups.
        groups: [N] which rows belong together, by any ids.
        weights: [N] weight of each row, 0 to leave it out.
        inflation: factor on the variance of each row's group, equal within it. Predictions by folds of one batch want
            2: groups of different folds predict each other, so every product counts twice.
    """
    z, y, w = predictions, rewards, weights
    spread, product, all_y = float(w @ z**2), float(w @ (z * y)), float(w @ y**2)
    if not spread * all_y > 0:
        return Interval(float("nan"), float("nan"), float("nan"))
    residual = w * z * (y - product / spread * z) * np.sqrt(inflation)
    totals = np.bincount(np.unique(groups, return_inverse=True)[1], weights=residual)
    scale = (spread * all_y) ** 0.5
    # NaN of no degree of freedom.
    quantile = t_quantile(level, len(np.unique(groups[w > 0])) - 1)
    r, reach = product / scale, quantile * float(np.linalg.norm(totals)) / scale
    return Interval(r, r - reach, r + reach)
