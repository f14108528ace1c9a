"""A ridge regression kept running over batches: it predicts rewards from states that it was never fitted on.

The fit of all earlier batches is w = (A + lambda tr(A)/d I)^-1 b with A = sum gamma^age X'X and b = sum gamma^age X'y,
X the states centred within their groups and y the rewards standardised within them. Every batch brings new prompts, so
a batch's prediction X w, made before the batch is added, has memorised nothing of it.
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
# Up to this width A is kept whole: d^2 floats, and a solve of d^3 / 3 operations.
EXACT_WIDTH = 8192
# Beyond it A = F'F is kept by a factor of at most so many rows.
FACTOR_ROWS = 1024
# Of a single batch.
FOLDS = 5


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
    """(A + penalty tr(A)/d I)^-1 b of each column b by Cholesky; zeros where A is zero."""
    shift = penalty * float(gram.diagonal().mean())
    if shift <= 0 or not bool(moments.any()):
        return torch.zeros_like(moments)
    shifted = gram.clone()
    shifted.diagonal().add_(shift)
    return torch.cholesky_solve(moments, torch.linalg.cholesky(shifted))


def factored_ridge_weights(
    factor: Float[Tensor, "r d"], moments: Float[Tensor, "d t"], penalty: float
) -> Float[Tensor, "d t"]:
    """`ridge_weights` of A = F'F without forming A: (b - F'(FF' + s I)^-1 F b) / s with s = penalty tr(A)/d."""
    shift = penalty * float(factor.square().sum()) / len(moments)
    if shift <= 0 or not bool(moments.any()):
        return torch.zeros_like(moments)
    # In float64: where the penalty is small, the difference is one of nearly equal numbers.
    wide, target = factor.double(), moments.double()
    inner = wide @ wide.T
    inner.diagonal().add_(shift)
    coefficients = torch.cholesky_solve(wide @ target, torch.linalg.cholesky(inner))
    return ((target - wide.T @ coefficients) / shift).to(moments)


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a fit says of B rows it has not seen: by the chosen penalty and by its neighbours, which are on trial."""

    penalties: tuple[int, ...]
    values: Float[Tensor, "p b t"]
    chosen: int

    @property
    def best(self) -> Float[Tensor, "b t"]:
        """[B, T] the predictions of each target by the chosen penalty."""
        return self.values[self.penalties.index(self.chosen)]


class RunningRidge:
    """The sums behind the fits of T targets on the same states, and how well each penalty has predicted new batches.

    Each target has its own A, of the rows that it is fitted on.

    Args:
        targets: T.
        decay: gamma, the factor on all earlier batches at each `add`.
        penalties: the lambdas to choose from, ascending.
        exact_width: states wider than this are kept by a factor of at most `factor_rows` rows instead of d^2 numbers:
            equal to the exact form until the batches span more directions than that.
    """

    def __init__(
        self,
        targets: int = 1,
        *,
        decay: float = 0.9,
        penalties: Sequence[float] = PENALTIES,
        exact_width: int = EXACT_WIDTH,
        factor_rows: int = FACTOR_ROWS,
    ) -> None:
        self._targets, self._decay, self._penalties = targets, decay, tuple(penalties)
        self._exact_width, self._factor_rows = exact_width, factor_rows
        # Of each target A itself, or its factor F where the states are wide.
        self._sums: list[Tensor] = []
        self._moments: Tensor | None = None
        # Decayed sums of z y, z^2 and y^2 by penalty and target, over the batches that it predicted.
        self._record = torch.zeros(3, len(self._penalties), targets, dtype=torch.float64)
        self._chosen = len(self._penalties) // 2

    @property
    def fitted(self) -> bool:
        """Whether there is anything to predict from."""
        return bool(self._sums)

    @property
    def penalty(self) -> float:
        """The lambda of the predictions: the one whose predictions of earlier batches agreed best with the rewards."""
        return self._penalties[self._chosen]

    def predict(self, states: Float[Tensor, "b d"]) -> Predictions:
        """X w by the chosen penalty and its neighbours (three solves, not one for each lambda); zeros before any batch.

        Raises:
            InputError: the states are not as wide as earlier ones.
        """
        near = tuple(i for i in range(self._chosen - 1, self._chosen + 2) if 0 <= i < len(self._penalties))
        if self._moments is None:
            return Predictions(near, states.new_zeros(len(near), len(states), self._targets), self._chosen)
        if len(self._moments) != states.shape[1]:
            raise InputError(f"hidden: expected {len(self._moments)} columns as earlier, got {states.shape[1]}")
        solve = ridge_weights if self._exact(states) else factored_ridge_weights
        columns = [
            torch.stack([solve(sums.to(states), moments, self._penalties[i]) for i in near])
            for sums, moments in zip(self._sums, self._moments.to(states).split(1, dim=1), strict=True)
        ]
        weights = torch.cat(columns, dim=2)
        return Predictions(near, states @ weights, self._chosen)

    def add(
        self,
        states: Float[Tensor, "b d"],
        targets: Float[Tensor, " b"],
        weights: Float[Tensor, "b t"],
        predictions: Predictions | None = None,
    ) -> None:
        """Judges the penalties by what they predicted of this batch, then takes the batch in.

        Args:
            states: centred within their groups.
            targets: rewards standardised within their groups.
            weights: how far each row counts for each target's fit, 0 to leave it out.
            predictions: what `predict` gave for these states; None: nothing is judged.
        """
        targets, weights = targets.to(states), weights.to(states)
        if predictions is not None and self.fitted:
            self._judge(predictions, targets, weights)
        moments = states.T @ (weights * targets[:, None])
        self._moments = moments if self._moments is None else self._decay * self._moments.to(states) + moments
        earlier: Sequence[Tensor | None] = self._sums or [None] * self._targets
        self._sums = [self._added(sums, states, each) for sums, each in zip(earlier, weights.unbind(1), strict=True)]

    def _added(self, earlier: Tensor | None, states: Float[Tensor, "b d"], weights: Float[Tensor, " b"]) -> Tensor:
        """One target's A, or its factor, with a batch more."""
        used = weights > 0
        rows = states[used] * weights[used].sqrt()[:, None]
        if self._exact(states):
            return rows.T @ rows + (0 if earlier is None else self._decay * earlier.to(states))
        past = [] if earlier is None else [earlier.to(states) * self._decay**0.5]
        return _compressed(torch.cat([*past, rows]), self._factor_rows)

    def state_dict(self) -> dict[str, Any]:
        """The sums, and the record of the penalties."""
        return {"sums": self._sums, "moments": self._moments, "record": self._record, "chosen": self._chosen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`.

        Raises:
            ConfigError: it was saved with other numbers of penalties or targets.
        """
        if state["record"].shape != self._record.shape:
            expected, came = tuple(self._record.shape[1:]), tuple(state["record"].shape[1:])
            raise ConfigError(f"ridge state: expected {expected} penalties and targets, got {came}")
        self._sums, self._moments = state["sums"], state["moments"]
        self._record, self._chosen = state["record"], int(state["chosen"])

    def _exact(self, states: Tensor) -> bool:
        return states.shape[1] <= self._exact_width

    def _judge(self, predictions: Predictions, targets: Tensor, weights: Tensor) -> None:
        near, values = list(predictions.penalties), predictions.values
        rewarded = weights * targets[:, None]
        products = torch.stack(
            [
                torch.einsum("pbt,bt->pt", values, rewarded),
                torch.einsum("pbt,bt->pt", values.square(), weights),
                (weights.T @ targets.square()).expand(len(near), -1),
            ]
        )
        self._record *= self._decay
        self._record[:, near] += products.double().cpu()
        agreement = self._record[0] / (self._record[1] * self._record[2]).clamp(min=1e-30).sqrt()
        # Of the targets, the one that is predicted best decides.
        self._chosen = near[int(agreement[near].amax(dim=1).argmax())]


def fold_predictions(
    states: Float[Tensor, "b d"],
    targets: Float[Tensor, " b"],
    weights: Float[Tensor, "b t"],
    group: Int[Tensor, " b"],
    *,
    folds: int = FOLDS,
    penalty: float = 1.0,
) -> Float[Tensor, "b t"]:
    """Predictions of one batch without a past: those of each fold by a fit on the groups of the other folds.

    Groups are dealt to the folds in turn, so no group is predicted from itself; with one group all are 0.
    """
    targets, weights = targets.to(states), weights.to(states)
    predictions = torch.zeros_like(weights)
    fold = (group % folds).to(states.device)
    for index in fold.unique().tolist():
        own, others = fold == index, fold != index
        ridge = RunningRidge(weights.shape[1], penalties=(penalty,))
        ridge.add(states[others], targets[others], weights[others])
        predictions[own] = ridge.predict(states[own]).best
    return predictions


def _compressed(rows: Float[Tensor, "n d"], most: int) -> Float[Tensor, "r d"]:
    """At most `most` rows with the same product F'F, up to its smallest directions."""
    if len(rows) <= most:
        return rows
    _, vectors = torch.linalg.eigh((rows @ rows.T).double())
    kept = vectors[:, -most:].T.to(rows)
    return kept @ rows
