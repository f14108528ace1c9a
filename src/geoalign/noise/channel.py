"""The channel between truth and verdict: its rates, and where their fit starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

# Bound of log-odds.
LIMIT = 30.0


_FLOOR = 1e-30


class Fit(NamedTuple):
    """The parameters: theta, of more than two values the slope s; e and q; rho of two values and h of more."""

    theta: Float[Tensor, "*f"]
    e: Float[Tensor, ""]
    q: Float[Tensor, " v"]
    rho: Float[Tensor, ""]
    h: Float[Tensor, " v"]

    @property
    def ratio(self) -> Float[Tensor, " v"]:
        """R(y), the likelihood ratio of the observed value to any other."""
        return 1 + (1 - self.e) / (self.e * self.q).clamp(min=_FLOOR)

    def with_channel(self, count: Float[Tensor, " v"], right: Float[Tensor, " v"], kept: float, replaced: float) -> Fit:
        """M step of e and q: by the rewards of each value, the right ones among them, and pseudo-counts."""
        fit = self
        for _ in range(3):
            wrong = count - right * (1 - 1 / fit.ratio) + replaced
            fit = fit._replace(e=wrong.sum() / (count + replaced).sum().add(kept), q=wrong / wrong.sum())
        return fit

    def is_near(self, other: Fit) -> bool:
        """Whether no parameter differs by 1e-5."""
        return max(float((one - each).abs().max()) for one, each in zip(self, other, strict=True)) < 1e-5


def starts_of(earlier: dict[str, Tensor], first: Sequence[Fit], rounds: int = 60) -> tuple[Sequence[Fit], int]:
    """Where EM starts, and its rounds: few from an earlier fit of as many values that believes some rewards."""
    near = bool(earlier) and len(earlier["h"]) == len(first[0].h) and float(earlier["e"]) < 0.9
    return ([Fit(**earlier)], 10) if near else (first, rounds)
