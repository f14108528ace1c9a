"""The share of wrong rewards, with its interval."""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.method.intervals import Interval, jackknife

# Of groups, left out in turn; and the rounds that refitting without one takes.
_BLOCKS, REFIT_ROUNDS = 5, 10


def share_metrics(share: Interval) -> dict[str, float]:
    """The share and its bounds by the names under which they are logged, cut to [0, 1]."""
    return {
        "wrong_share": share.estimate,
        "wrong_share_low": min(max(share.low, 0.0), share.estimate),
        "wrong_share_high": max(min(share.high, 1.0), share.estimate),
    }


def leave_one_block_out(
    estimate: float, group: Int[Tensor, " n"], estimate_without: Callable[[Bool[Tensor, " n"]], float]
) -> Interval:
    """The estimate with the jackknife's interval over blocks of groups; bounds of 0 and 1 with one group.

    `estimate_without` takes the rows that are left out.
    """
    block = group.unique(return_inverse=True)[1] % _BLOCKS
    blocks = range(int(block.max()) + 1)
    if len(blocks) < 2:
        return Interval(estimate, 0.0, 1.0)
    return jackknife(estimate, [estimate_without(block == index) for index in blocks])


def weighted_mean(values: Float[Tensor, " n"], weights: Float[Tensor, " n"]) -> float:
    """0 where the weights are."""
    return float(weights @ values / weights.sum().clamp(min=1e-30))
