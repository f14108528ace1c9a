"""A ridge regression kept running over batches.

The fit of all earlier batches is w = (A + lambda tr(A)/d I)^-1 b with A = sum gamma^age X'X and b = sum gamma^age X'y,
X the states centred within their groups and y the rewards standardised within them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.errors import InputError

PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
_TINY = 1e-30
# A is symmetric: the blocks on and above its diagonal are summed, and mirrored.
_BLOCKS = 8


def conjugate_gradients(
    gram: Float[Tensor, "d d"],
    moments: Float[Tensor, "d c"],
    shift: Float[Tensor, " c"],
    start: Float[Tensor, "d c"],
    within: Float[Tensor, "d c"] | float = 1.0,
    rounds: int = 10,
) -> Float[Tensor, "d c"]:
    """(A + shift I)^-1 b of each column, by conjugate gradients behind the diagonal; zeros where shift or b is zero.

    A round costs d^2, a factor of A d^3/3. Few rounds leave alone what A hardly holds, as a larger shift would.

    Args:
        start: where they begin, an earlier solution say.
        within: 1 where a column has a variable, 0 where it has none.
    """
    able = within * ((shift > 0) & moments.any(dim=0))
    scale = (gram.diagonal()[:, None] + shift).clamp(min=_TINY)
    weights = start * able
    left = (moments - gram @ weights - shift * weights) * able
    step = left / scale
    size = (left * step).sum(dim=0)
    for _ in range(rounds):
        image = (gram @ step + shift * step) * able
        curvature = (step * image).sum(dim=0)
        # None is left where a column is solved, or where rounding has taken A + shift below zero.
        length = torch.where(curvature > 0, size / curvature.clamp(min=_TINY), 0.0)
        weights, left = weights + length * step, left - length * image
        before, size = size, (left.square() / scale).sum(dim=0)
        step = left / scale + size / before.clamp(min=_TINY) * step
    return weights


def fold_predictions(
    states: Float[Tensor, "b d"],
    targets: Float[Tensor, " b"],
    used: Tensor,
    fold: Int[Tensor, " b"],
    penalties: Sequence[float] = (1.0,),
) -> Float[Tensor, "b p"]:
    """Predictions of each fold's rows by ridges on the used rows of the other folds; 0 where there are none.

    Solved in rows, not columns: X w = K (K + s I)^-1 y with K = X X' and s = penalty tr(K)/d.

    Args:
        used: [B] rows to fit on.
    """
    targets, used, fold = targets.to(states), used.to(states.device), fold.to(states.device)
    folds, own = fold.unique(return_inverse=True)
    products = states @ states[used].T
    kernel, others = products[used], (fold[used][:, None] != folds).to(states)
    # A column for each fold and penalty.
    within = others.repeat_interleave(len(penalties), dim=1)
    shift = (kernel.diagonal() @ others / states.shape[1])[:, None] * states.new_tensor(penalties)
    wanted = targets[used][:, None] * within
    weights = conjugate_gradients(kernel, wanted, shift.flatten(), torch.zeros_like(wanted), within, rounds=30)
    values = (products @ weights).view(len(states), len(folds), len(penalties))
    return values[torch.arange(len(states), device=states.device), own]


class RunningRidge:
    """The sums behind the fit, and how well each penalty has predicted new batches.

    Args:
        decay: gamma, the factor on all earlier batches.
        penalties: the lambdas to choose from, ascending.
    """

    def __init__(self, *, decay: float = 0.9, penalties: Sequence[float] = PENALTIES) -> None:
        self._decay, self._penalties = decay, tuple(penalties)
        # A, b, [d, P] where the next solutions start, decayed sums of z y, z^2 and y^2 by penalty, and the penalty that
        # they are best for: its predictions of earlier batches agreed most with the rewards.
        self._sums: dict[str, Any] = {}

    @property
    def fitted(self) -> bool:
        """Whether there is anything to predict from."""
        return bool(self._sums)

    def predict(
        self, states: Float[Tensor, "b d"], targets: Float[Tensor, " b"], used: Tensor, fold: Int[Tensor, " b"]
    ) -> Float[Tensor, " b"]:
        """Predicts a batch from earlier ones, the first one by its own folds, and then takes it in.

        Every penalty predicts; the one that did best before is taken, and the record of all decides about the next.

        Args:
            states: centred within their groups.
            targets: rewards standardised within their groups; 0 where a row says nothing.
            used: [B] rows that enter A.
            fold: [B] of the row's group.

        Raises:
            InputError: the states are not as wide as earlier ones.
        """
        width, count, y = states.shape[1], len(self._penalties), targets.to(states)
        if not self._sums:
            found = fold_predictions(states, y, used, fold)[:, 0]
            gram, moments = states.new_zeros(width, width), states.new_zeros(width)
            weights, record, chosen = states.new_zeros(width, count), states.new_zeros(3, count), count // 2
        else:
            tensors = ("gram", "moments", "weights", "record")
            gram, moments, weights, record = (self._sums[name].to(states) for name in tensors)
            chosen = self._sums["chosen"]
            if len(moments) != width:
                raise InputError(f"hidden: expected {len(moments)} columns as earlier, got {width}")
            shift = states.new_tensor(self._penalties) * gram.diagonal().mean()
            weights = conjugate_gradients(gram, moments[:, None].repeat(1, count), shift, weights)
            values = states @ weights
            found, values = values[:, chosen], values * (y != 0)[:, None]
            sums = torch.stack([y @ values, values.square().sum(dim=0), y.square().sum().expand(count)])
            record = self._decay * record + sums
            chosen = int((record[0] / (record[1] * record[2]).clamp(min=_TINY).sqrt()).argmax())
        gram, rows, step = self._decay * gram, states[used.to(states.device)], -(-width // _BLOCKS)
        for start in range(0, width, step):
            end = start + step
            gram[start:end, start:] += rows[:, start:end].T @ rows[:, start:]
            gram[end:, start:end] = gram[start:end, end:].T
        moments = self._decay * moments + states.T @ y
        self._sums = {"gram": gram, "moments": moments, "weights": weights, "record": record, "chosen": chosen}
        return found

    def state_dict(self) -> dict[str, Any]:
        """The sums, and the record of the penalties. No later call changes these tensors."""
        return dict(self._sums)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`."""
        self._sums = dict(state)
