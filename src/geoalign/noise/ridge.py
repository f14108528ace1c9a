"""A ridge regression updated batch by batch.

The fit of all earlier batches is w = (A + lambda tr(A)/d I)^-1 b with A = sum gamma^age X'X and b = sum gamma^age X'y,
X the states centred within their groups and y the rewards standardised within them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.errors import InputError
from geoalign.intervals import Interval, t_quantile
from geoalign.method.arithmetic import add_product, full_product
from geoalign.method.groups import content_folds

PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
_SMALLEST = 1e-30
_ROUNDS = 10
# Number of blocks of rows in which the matrix A is summed.
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
    scale = (diagonal + shift).clamp(min=_SMALLEST)
    weights = start
    left = moments - product(weights) - shift * weights
    step = left / scale
    size = (left * step).sum(dim=0)
    for _ in range(_ROUNDS):
        image = product(step) + shift * step
        curvature = (step * image).sum(dim=0)
        # None is left where a column is solved, or where rounding has taken A + shift below zero.
        length = torch.where(curvature > 0, size / curvature.clamp(min=_SMALLEST), 0.0)
        weights = weights + length * step
        left = left - length * image
        size_before = size
        size = (left.square() / scale).sum(dim=0)
        step = left / scale + size / size_before.clamp(min=_SMALLEST) * step
    return weights


def fold_predictions(
    states: Float[Tensor, "b d"], targets: Float[Tensor, " b"], used: Tensor, fold: Int[Tensor, " b"], penalty: float
) -> Float[Tensor, " b"]:
    """[B] predictions of each fold's rows by a ridge on the used rows of the other folds; 0 where there are none.

    The ridges are solved together, one column for each fold.
    """
    folds, own_fold = fold.to(states.device).unique(return_inverse=True)
    every_fold = torch.arange(len(folds)).to(own_fold)
    in_other_fold = own_fold[:, None] != every_fold
    # [B, F] 1 for the rows that the ridge of a fold learns from.
    learnt_from = (used.to(states.device)[:, None] & in_other_fold).to(states)
    diagonal = full_product(states.square().T, learnt_from)
    moments = full_product(states.T, targets.to(states)[:, None] * learnt_from)
    shift = penalty * diagonal.mean(dim=0)

    def product(weights: Tensor) -> Tensor:
        """A w of each column, A = X'X over the rows that its ridge learns from."""
        return full_product(states.T, learnt_from * full_product(states, weights))

    weights = conjugate_gradients(product, diagonal, moments, shift, torch.zeros_like(moments))
    by_fold = full_product(states, weights)
    return by_fold.gather(1, own_fold[:, None])[:, 0]


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
    width = states.shape[1]
    y = targets.to(states)
    if sums:
        gram = sums["gram"].to(states)
        moments = sums["moments"].to(states)
        if len(moments) != width:
            raise InputError(f"hidden: expected {len(moments)} columns as earlier, got {width}")
        # One solution for each penalty, from the last one's.
        diagonal = gram.diagonal()[:, None]
        weights = conjugate_gradients(
            partial(full_product, gram),
            diagonal,
            moments[:, None].expand(width, len(penalties)),
            shift=states.new_tensor(penalties) * diagonal.mean(),
            start=sums["weights"].to(states),
        )
        by_penalty = full_product(states, weights)
        predictions = by_penalty[:, sums["chosen"]]
        # How well each penalty's predictions agreed with the rewards decides which one predicts the next batch.
        z = by_penalty * (y != 0)[:, None]
        zy = full_product(y, z)
        zz = z.square().sum(dim=0)
        yy = (y @ y).expand(len(penalties))
        record = decay * sums["record"].to(states) + torch.stack([zy, zz, yy])
        sum_zy, sum_zz, sum_yy = record
        correlations = sum_zy / (sum_zz * sum_yy).clamp(min=_SMALLEST).sqrt()
        chosen = int(correlations.argmax())
    else:
        fold = content_folds(states.square().sum(dim=1).double().cpu(), group)
        predictions = fold_predictions(states, y, used, fold, 1.0)
        gram = states.new_zeros(width, width)
        moments = states.new_zeros(width)
        weights = states.new_zeros(width, len(penalties))
        record = states.new_zeros(3, len(penalties))
        chosen = len(penalties) // 2
    return predictions, {
        "gram": _with_batch(decay * gram, states[used.to(states.device)]),
        "moments": decay * moments + full_product(states.T, y),
        "weights": weights,
        "record": record,
        "chosen": chosen,
    }


def _with_batch(gram: Float[Tensor, "d d"], rows: Float[Tensor, "n d"]) -> Float[Tensor, "d d"]:
    """A + X'X, in place; the blocks on and above the diagonal are summed, and mirrored."""
    width = len(gram)
    block = math.ceil(width / _BLOCKS)
    for start in range(0, width, block):
        end = start + block
        on_and_above_diagonal = gram[start:end, start:]
        add_product(on_and_above_diagonal, rows[:, start:end].T, rows[:, start:])
        right_of_block = gram[start:end, end:]
        gram[end:, start:end] = right_of_block.T
    return gram


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
    predictions or rewards do not vary. Where every group agrees exactly with the slope the interval has no width.

    Args:
        predictions: z, of rows that the fit had not seen.
        rewards: y, standardised within groups.
        groups: [N] which rows belong together, by any ids.
        weights: [N] weight of each row, 0 to leave it out.
        inflation: factor on the variance of each row's group, equal within it. Predictions by folds of one batch want
            2: groups of different folds predict each other, so every product counts twice.
    """
    z = predictions
    y = rewards
    w = weights
    zz = float(w @ z**2)
    zy = float(w @ (z * y))
    yy = float(w @ y**2)
    if not zz * yy > 0:
        return Interval(math.nan, math.nan, math.nan)
    slope = zy / zz
    residual = w * z * (y - slope * z) * np.sqrt(inflation)
    group_index = np.unique(groups, return_inverse=True)[1]
    e = np.bincount(group_index, weights=residual)
    scale = (zz * yy) ** 0.5
    degrees_of_freedom = len(np.unique(groups[w > 0])) - 1
    # NaN where there is no degree of freedom.
    reach = t_quantile(level, degrees_of_freedom) * float(np.linalg.norm(e)) / scale
    r = zy / scale
    return Interval(r, r - reach, r + reach)
