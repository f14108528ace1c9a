"""A ridge regression kept running over batches: it predicts rewards from states that it was never fitted on.

The fit of all earlier batches is w = (A + lambda tr(A)/d I)^-1 b with A = sum gamma^age X'X and b = sum gamma^age X'y,
X the states centred within their groups and y the rewards standardised within them. A batch's prediction X w is made
before the batch is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.errors import ConfigError, InputError

PENALTIES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
# A is symmetric: only the blocks on and above its diagonal are summed.
_BLOCKS = 8


def group_centred(states: Float[Tensor, "b d"], group: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
    """Every state minus the mean of its group, in float32; `group` holds dense indices."""
    states = states.float()
    count = torch.bincount(group).clamp(min=1).to(states.dtype)
    total = states.new_zeros(len(count), states.shape[1]).index_add_(0, group, states)
    return states - (total / count[:, None])[group]


def side_by_side(blocks: Sequence[Float[Tensor, "b _"]]) -> Float[Tensor, "b d"]:
    """The states of several layers or positions as one, each divided by its rows' root mean square length."""
    return torch.cat([block / block.square().sum(dim=1).mean().sqrt().clamp(min=1e-30) for block in blocks], dim=1)


def ridge_weights(gram: Float[Tensor, "d d"], moments: Float[Tensor, "d t"], penalty: float) -> Float[Tensor, "d t"]:
    """(A + penalty tr(A)/d I)^-1 b of each column b, of A's upper triangle; zeros where A or b is zero.

    Where rounding leaves A + shift without a Cholesky factor, the shift is raised tenfold until it has one.
    """
    shift = penalty * float(gram.diagonal().mean())
    if shift <= 0 or not bool(moments.any()):
        return torch.zeros_like(moments)
    shifted = gram.clone()
    while True:
        shifted.diagonal().copy_(gram.diagonal() + shift)
        factor, failed = torch.linalg.cholesky_ex(shifted, upper=True)
        if not bool(failed):
            return torch.cholesky_solve(moments, factor, upper=True)
        shift *= 10


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
    products = states @ states.T
    values = states.new_zeros(len(penalties), *targets.shape)
    for index in fold.unique().tolist():
        own, others = (fold == index).nonzero()[:, 0], ((fold != index) & used).nonzero()[:, 0]
        known = products[others][:, others]
        for row, penalty in enumerate(penalties):
            weights = ridge_weights(known, targets[others], penalty * len(others) / states.shape[1])
            values[row, own] = products[own][:, others] @ weights
    return values


def fitted_predictions(
    states: Float[Tensor, "b d"], targets: Float[Tensor, "b t"], used: Tensor, penalty: float
) -> Float[Tensor, "b t"]:
    """Predictions of all rows by one ridge on the used rows."""
    used = used.to(states.device)
    known = states[used]
    weights = ridge_weights(known @ known.T, targets.to(states)[used], penalty * len(known) / states.shape[1])
    return states @ (known.T @ weights)


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a fit says of B rows it has not seen: by the chosen penalty first, and by a neighbour, which is on trial."""

    penalties: tuple[int, ...]
    values: Float[Tensor, "p b t"]

    @property
    def best(self) -> Float[Tensor, "b t"]:
        """[B, T] the predictions of each target by the chosen penalty."""
        return self.values[0]


class RunningRidge:
    """The sums behind the fits of T targets on the same states, and how well each penalty has predicted new batches.

    All targets share A, which holds every row that one of them is fitted on.

    Args:
        targets: T.
        decay: gamma, the factor on all earlier batches at each `add`.
        penalties: the lambdas to choose from, ascending.
    """

    def __init__(self, targets: int = 1, *, decay: float = 0.9, penalties: Sequence[float] = PENALTIES) -> None:
        self._decay, self._penalties = decay, tuple(penalties)
        self._gram: Tensor | None = None
        self._moments: Tensor | None = None
        # Decayed sums of z y, z^2 and y^2 by penalty and target, over the batches that it predicted.
        self._record = torch.zeros(3, len(self._penalties), targets, dtype=torch.float64)
        self._chosen, self._upward = len(self._penalties) // 2, True

    @property
    def fitted(self) -> bool:
        """Whether there is anything to predict from."""
        return self._gram is not None

    @property
    def penalty(self) -> float:
        """The lambda of the predictions: the one whose predictions of earlier batches agreed best with the rewards."""
        return self._penalties[self._chosen]

    def predict(self, states: Float[Tensor, "b d"]) -> Predictions:
        """X w by the chosen penalty and, in turn, the next higher or lower one; zeros before any batch.

        Raises:
            InputError: the states are not as wide as earlier ones.
        """
        other = self._chosen + (1 if self._upward else -1)
        near = tuple(i for i in (self._chosen, other) if 0 <= i < len(self._penalties))
        if self._gram is None or self._moments is None:
            return Predictions(near, states.new_zeros(len(near), len(states), self._record.shape[2]))
        if len(self._moments) != states.shape[1]:
            raise InputError(f"hidden: expected {len(self._moments)} columns as earlier, got {states.shape[1]}")
        gram, moments = self._gram.to(states), self._moments.to(states)
        weights = torch.stack([ridge_weights(gram, moments, self._penalties[i]) for i in near])
        return Predictions(near, states @ weights)

    def add(
        self,
        states: Float[Tensor, "b d"],
        targets: Float[Tensor, "b t"],
        used: Tensor,
        predictions: Predictions | None = None,
    ) -> None:
        """Judges the penalties by what they predicted of this batch, then takes the batch in.

        Args:
            states: centred within their groups.
            targets: rewards standardised within their groups; 0 where a row says nothing to a fit.
            used: [B] rows that enter A.
            predictions: what `predict` gave for these states; None: nothing is judged.
        """
        targets, rows = targets.to(states), states[used.to(states.device)]
        if predictions is not None and self.fitted:
            self._judge(predictions, targets)
        moments = states.T @ targets
        self._moments = moments if self._moments is None else self._decay * self._moments.to(states) + moments
        width = states.shape[1]
        gram = states.new_zeros(width, width) if self._gram is None else self._decay * self._gram.to(states)
        step = -(-width // _BLOCKS)
        for start in range(0, width, step):
            gram[start : start + step, start:] += rows[:, start : start + step].T @ rows[:, start:]
        self._gram = gram

    def state_dict(self) -> dict[str, Any]:
        """The sums, and the record of the penalties. No later call changes these tensors."""
        return {
            "gram": self._gram,
            "moments": self._moments,
            "record": self._record,
            "chosen": self._chosen,
            "upward": self._upward,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`.

        Raises:
            ConfigError: it was saved with other numbers of penalties or targets, or by an earlier version.
        """
        if "gram" not in state or state["record"].shape != self._record.shape:
            expected, came = tuple(self._record.shape[1:]), tuple(state["record"].shape[1:])
            raise ConfigError(f"ridge state: expected {expected} penalties and targets over one Gram, got {came}")
        self._gram, self._moments, self._record = state["gram"], state["moments"], state["record"]
        self._chosen, self._upward = int(state["chosen"]), bool(state["upward"])

    def _judge(self, predictions: Predictions, targets: Tensor) -> None:
        near, values = list(predictions.penalties), predictions.values * (targets != 0)
        squares = targets.square().sum(dim=0).expand(len(near), -1)
        sums = [torch.einsum("pbt,bt->pt", values, targets), values.square().sum(dim=1), squares]
        record = self._record * self._decay
        record[:, near] += torch.stack(sums).double().cpu()
        self._record, self._upward = record, not self._upward
        agreement = record[0] / (record[1] * record[2]).clamp(min=1e-30).sqrt()
        # Of the targets, the one that is predicted best decides.
        self._chosen = near[int(agreement[near].amax(dim=1).argmax())]
