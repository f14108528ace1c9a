"""What trusted rewards say that all the others do not: errors that follow the states, learnt on the trusted rows.

Errors that agree with the states (a reward model that likes long answers) cannot be told from the truth by the rewards
themselves. On rows whose true reward t is known, t - E[reward | states], what the fit on all other rewards expects of
them, shows such an error; where the states of the trusted rows predict it, it is predicted for every row.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.method.correlation import grouped_correlation
from geoalign.method.intervals import Interval
from geoalign.method.ridge import RunningRidge, fold_predictions

PENALTIES = (0.1, 1.0, 10.0)


def learnt_correction(
    states: Float[Tensor, "n d"],
    residuals: Float[Tensor, " n"],
    trusted: Bool[Tensor, " n"],
    group: Int[Tensor, " n"],
    *,
    level: float,
) -> tuple[Float[Tensor, " n"] | None, Interval]:
    """A ridge on the trusted rows, shrunk by how well folds over their groups surely predict each other.

    With z the folds' predictions of the residuals d, r their correlation and l the lower end of its interval, the
    ridge's prediction is multiplied by (l / r) sum z d / sum z^2: by the least slope that is not excluded. The trusted
    rows are the same in every batch, and so is the fit's error: over a training a policy follows it as it follows a
    reward's.

    Args:
        states: centred within groups.
        residuals: [N] true minus expected reward; heeded where trusted.
        trusted: [N] rows to learn from.
        group: [N] dense group index.
        level: of the interval that must exclude chance, over all penalties.

    Returns:
        The correction of every row, None while the interval of the folds' correlation with the residuals reaches 0;
        and that interval, NaN where fewer than two groups hold trusted rows.
    """
    known = states[trusted.to(states.device)]
    targets = residuals[trusted]
    _, own = group[trusted].unique(return_inverse=True)
    weights = torch.ones(len(known), 1, dtype=torch.float64)
    # Groups of different folds predict each other: every product counts twice.
    twice = torch.full((len(known),), 2.0)
    best, shrunk, chosen = Interval(*[float("nan")] * 3), torch.zeros(()), 0.0
    for penalty in PENALTIES:
        unseen = fold_predictions(known, targets, weights, own, penalty=penalty)[:, 0].double().cpu()
        interval = grouped_correlation(
            unseen, targets, own, weights[:, 0], inflation=twice, level=1 - (1 - level) / len(PENALTIES)
        )
        if not interval.low <= best.low:
            best, shrunk, chosen = interval, unseen @ targets / unseen.square().sum().clamp(min=1e-30), penalty
    if not best.low > 0:
        return None, best
    ridge = RunningRidge(penalties=(chosen,))
    ridge.add(known, targets, weights)
    return shrunk * (best.low / best.estimate) * ridge.predict(states).best[:, 0].double().cpu(), best
