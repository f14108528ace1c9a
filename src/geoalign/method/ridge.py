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

PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)
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


def ridge_weights(
    gram: Float[Tensor, "d d"], moment: Float[Tensor, " d"], penalty: float
) -> Float[Tensor, " d"]:
    """(A + penalty tr(A)/d I)^-1 b by Cholesky; zeros where A is zero."""
    shift = penalty * float(gram.diagonal().mean())
    if shift <= 0:
        return torch.zeros_like(moment)
    shifted = gram.clone()
    shifted.diagonal().add_(shift)
    return torch.cholesky_solve(moment[:, None], torch.linalg.cholesky(shifted))[:, 0]


def factored_ridge_weights(
    factor: Float[Tensor, "r d"], moment: Float[Tensor, " d"], penalty: float
) -> Float[Tensor, " d"]:
    """`ridge_weights` of A = F'F without forming A: (b - F'(FF' + s I)^-1 F b) / s with s = penalty tr(A)/d."""
    shift = penalty * float(factor.square().sum()) / len(moment)
    if shift <= 0:
        return torch.zeros_like(moment)
    inner = (factor @ factor.T).double()
    inner.diagonal().add_(shift)
    coefficients = torch.cholesky_solve((factor @ moment).double()[:, None], torch.linalg.cholesky(inner))[:, 0]
    return (moment - factor.T @ coefficients.to(factor)) / shift


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a fit says of B rows it has not seen: by the chosen penalty and by its neighbours, which are on trial."""

    penalties: tuple[int, ...]
    values: Float[Tensor, "p b"]
    chosen: int

    @property
    def best(self) -> Float[Tensor, " b"]:
        """[B] the prediction by the chosen penalty."""
        return self.values[self.penalties.index(self.chosen)]


class RunningRidge:
    """The sums behind the fit, and how well each penalty has predicted batches before they were added.

    Args:
        decay: gamma, the factor on all earlier batches at each `add`.
        penalties: the lambdas to choose from, ascending.
        exact_width: states wider than this are kept by a factor of at most `factor_rows` rows instead of d^2 numbers:
            equal to the exact form until the batches span more directions than that.
    """

    def __init__(
        self,
        decay: float = 0.9,
        penalties: Sequence[float] = PENALTIES,
        *,
        exact_width: int = EXACT_WIDTH,
        factor_rows: int = FACTOR_ROWS,
    ) -> None:
        self._decay, self._penalties = decay, tuple(penalties)
        self._exact_width, self._factor_rows = exact_width, factor_rows
        # A itself, or its factor F where the states are wide.
        self._sums: Tensor | None = None
        self._moment: Tensor | None = None
        # By penalty: decayed sums of z y, z^2 and y^2 over the batches that it predicted.
        self._record = torch.zeros(3, len(self._penalties), dtype=torch.float64)
        self._chosen = len(self._penalties) // 2

    @property
    def fitted(self) -> bool:
        """Whether there is anything to predict from."""
        return self._sums is not None

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
        if self._sums is None or self._moment is None:
            return Predictions(near, states.new_zeros(len(near), len(states)), self._chosen)
        if self._sums.shape[1] != states.shape[1]:
            raise InputError(f"hidden: expected {self._sums.shape[1]} columns as earlier, got {states.shape[1]}")
        sums, moment = self._sums.to(states), self._moment.to(states)
        solve = ridge_weights if self._exact(states) else factored_ridge_weights
        weights = torch.stack([solve(sums, moment, self._penalties[i]) for i in near])
        return Predictions(near, weights @ states.T, self._chosen)

    def add(
        self,
        states: Float[Tensor, "b d"],
        targets: Float[Tensor, " b"],
        weights: Float[Tensor, " b"],
        predictions: Predictions | None = None,
    ) -> None:
        """Judges the penalties by what they predicted of this batch, then takes the batch in.

        Args:
            states: centred within their groups.
            targets: rewards standardised within their groups.
            weights: how far each row is to be trusted, 0 to leave it out.
            predictions: what `predict` gave for these states; None: nothing is judged.
        """
        targets, weights = targets.to(states), weights.to(states)
        if predictions is not None and self.fitted:
            self._judge(predictions, targets, weights)
        moment = states.T @ (weights * targets)
        rooted = states * weights.sqrt()[:, None]
        if self._sums is None or self._moment is None:
            self._sums = rooted.T @ rooted if self._exact(states) else _compressed(rooted, self._factor_rows)
            self._moment = moment
            return
        self._moment = self._decay * self._moment.to(states) + moment
        if self._exact(states):
            self._sums = torch.addmm(self._sums.to(states), rooted.T, rooted, beta=self._decay)
        else:
            rows = torch.cat([self._sums.to(states) * self._decay**0.5, rooted])
            self._sums = _compressed(rows, self._factor_rows)

    def state_dict(self) -> dict[str, Any]:
        """The sums, and the record of the penalties."""
        return {"sums": self._sums, "moment": self._moment, "record": self._record, "chosen": self._chosen}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`.

        Raises:
            ConfigError: it was saved with another number of penalties.
        """
        if state["record"].shape != self._record.shape:
            raise ConfigError(
                f"ridge state: expected {len(self._penalties)} penalties, got {state['record'].shape[1]}"
            )
        self._sums, self._moment = state["sums"], state["moment"]
        self._record, self._chosen = state["record"], int(state["chosen"])

    def _exact(self, states: Tensor) -> bool:
        return states.shape[1] <= self._exact_width

    def _judge(self, predictions: Predictions, targets: Tensor, weights: Tensor) -> None:
        near, values = list(predictions.penalties), predictions.values
        products = torch.stack(
            [values @ (weights * targets), values.square() @ weights, (weights @ targets.square()).expand(len(near))]
        )
        self._record *= self._decay
        self._record[:, near] += products.double().cpu()
        agreement = self._record[0] / (self._record[1] * self._record[2]).clamp(min=1e-30).sqrt()
        self._chosen = near[int(agreement[near].argmax())]


def fold_predictions(
    states: Float[Tensor, "b d"],
    targets: Float[Tensor, " b"],
    weights: Float[Tensor, " b"],
    group: Int[Tensor, " b"],
    *,
    folds: int = FOLDS,
    penalty: float = 1.0,
) -> Float[Tensor, " b"]:
    """Predictions of one batch without a past: those of each fold by a fit on the groups of the other folds.

    Groups are dealt to the folds in turn, so no group is predicted from itself; with one group all are 0.
    """
    fold = group % min(folds, int(group.max()) + 1 if len(group) else 1)
    targets, weights, fold = targets.to(states), weights.to(states), fold.to(states.device)
    predictions = torch.zeros_like(targets)
    for index in range(int(fold.max()) + 1 if len(fold) else 0):
        own, other = fold == index, fold != index
        ridge = RunningRidge(penalties=(penalty,))
        ridge.add(states[other], targets[other], weights[other])
        predictions[own] = ridge.predict(states[own]).best
    return predictions


def _compressed(rows: Float[Tensor, "n d"], most: int) -> Float[Tensor, "r d"]:
    """At most `most` rows with the same product F'F, up to its smallest directions."""
    if len(rows) <= most:
        return rows
    values, vectors = torch.linalg.eigh((rows @ rows.T).double())
    kept = vectors[:, -most:].T.to(rows)
    return kept @ rows
