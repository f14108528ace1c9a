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
_STATE = ("gram", "moments", "weights", "record", "chosen")


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
    targets: Float[Tensor, "b t"],
    used: Tensor,
    fold: Int[Tensor, " b"],
    penalties: Sequence[float] = (1.0,),
) -> Float[Tensor, "p b t"]:
    """Predictions of each fold's rows by ridges on the used rows of the other folds; 0 where there are none.

    Solved in rows, not columns: X w = K (K + s I)^-1 y with K = X X' and s = penalty tr(K)/d.

    Args:
        targets: of each ridge; 0 where a row says nothing to it.
        used: [B] rows to fit on.
    """
    targets, used, fold = targets.to(states), used.to(states.device), fold.to(states.device)
    folds, own = fold.unique(return_inverse=True)
    products = states @ states[used].T
    kernel, others = products[used], (fold[used][:, None] != folds).to(states)
    # A column for each fold, penalty and target.
    shape = (len(folds), len(penalties), targets.shape[1])
    within = others[:, :, None, None].expand(-1, *shape).flatten(1)
    wanted = targets[used][:, None, None].expand(-1, *shape).flatten(1) * within
    traces = (kernel.diagonal() @ others / states.shape[1])[:, None] * states.new_tensor(penalties)
    shift = traces[:, :, None].expand(shape).flatten()
    weights = conjugate_gradients(kernel, wanted, shift, torch.zeros_like(wanted), within, rounds=30)
    values = (products @ weights).view(len(states), *shape)
    return values[torch.arange(len(states), device=states.device), own].movedim(1, 0)


class RunningRidge:
    """The sums behind the fits of T targets on the same states, and how well each penalty has predicted new batches.

    All targets share A, which holds every row that one of them is fitted on.

    Args:
        targets: T.
        decay: gamma, the factor on all earlier batches.
        penalties: the lambdas to choose from, ascending.
    """

    def __init__(self, targets: int = 1, *, decay: float = 0.9, penalties: Sequence[float] = PENALTIES) -> None:
        self._decay, self._penalties = decay, tuple(penalties)
        self._gram: Tensor | None = None
        # [d, T]; and [d, P x T], where the next solution starts.
        self._moments = self._weights = torch.zeros(0, targets)
        # Decayed sums of z y, z^2 and y^2 by penalty and target, over the batches that it predicted.
        self._record = torch.zeros(3, len(self._penalties), targets, dtype=torch.float64)
        self._chosen = len(self._penalties) // 2

    @property
    def fitted(self) -> bool:
        """Whether there is anything to predict from."""
        return self._gram is not None

    @property
    def penalty(self) -> float:
        """The lambda of the predictions: the one whose predictions of earlier batches agreed best with the rewards."""
        return self._penalties[self._chosen]

    def predict(
        self, states: Float[Tensor, "b d"], targets: Float[Tensor, "b t"], used: Tensor, fold: Int[Tensor, " b"]
    ) -> Float[Tensor, "b t"]:
        """Predicts a batch from earlier ones, the first one by its own folds, and then takes it in.

        Every penalty predicts; the one that did best before is taken, and the record of all decides about the next.

        Args:
            states: centred within their groups.
            targets: rewards standardised within their groups; 0 where a row says nothing to a fit.
            used: [B] rows that enter A.
            fold: [B] of the row's group.

        Raises:
            InputError: the states are not as wide as earlier ones.
        """
        width, targets = states.shape[1], targets.to(states)
        if self._gram is None:
            best = fold_predictions(states, targets, used, fold)[0]
            self._gram, self._moments = states.new_zeros(width, width), torch.zeros_like(states.T @ targets)
            self._weights = self._moments.repeat(1, len(self._penalties))
        elif len(self._moments) != width:
            raise InputError(f"hidden: expected {len(self._moments)} columns as earlier, got {width}")
        else:
            best = self._judged(states, targets)
        self._moments = self._decay * self._moments.to(states) + states.T @ targets
        self._gram = self._decay * self._gram.to(states)
        rows, step = states[used.to(states.device)], -(-width // _BLOCKS)
        for start in range(0, width, step):
            end = start + step
            self._gram[start:end, start:] += rows[:, start:end].T @ rows[:, start:]
            self._gram[end:, start:end] = self._gram[start:end, end:].T
        return best

    def _judged(self, states: Float[Tensor, "b d"], targets: Float[Tensor, "b t"]) -> Float[Tensor, "b t"]:
        """The predictions of the chosen penalty; those of all of them count for the next choice."""
        assert self._gram is not None
        gram, moments, count = self._gram.to(states), self._moments.to(states), len(self._penalties)
        shift = moments.new_tensor(self._penalties).repeat_interleave(targets.shape[1]) * gram.diagonal().mean()
        self._weights = conjugate_gradients(gram, moments.repeat(1, count), shift, self._weights.to(states))
        predictions = (states @ self._weights).view(len(states), *self._record.shape[1:])
        values = predictions * (targets != 0)[:, None]
        sums = [
            (values * targets[:, None]).sum(dim=0),
            values.square().sum(dim=0),
            targets.square().sum(dim=0).expand(count, -1),
        ]
        self._record = self._decay * self._record + torch.stack(sums).double().cpu()
        agreement = self._record[0] / (self._record[1] * self._record[2]).clamp(min=1e-30).sqrt()
        chosen = self._chosen
        # Of the targets, the one that is predicted best decides.
        self._chosen = int(agreement.amax(dim=1).argmax())
        return predictions[:, chosen]

    def state_dict(self) -> dict[str, Any]:
        """The sums, and the record of the penalties. No later call changes these tensors."""
        return {name: getattr(self, f"_{name}") for name in _STATE}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`."""
        for name in _STATE:
            setattr(self, f"_{name}", state[name])
