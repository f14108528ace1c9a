"""The channel between a true reward and the observed one, and the parameters of the noise model that fit it.

    P(y | t) = (1 - e) 1{y = t} + e q(y):

a reward is kept, or with probability e replaced by a draw from q. An observed y multiplies the odds of t = y by
R(y) = 1 + (1 - e) / (e q(y)). Of verdicts (two values, 0 and 1) the true positive rate is 1 - e q(0) and the false
positive rate e q(1).
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

# Level of the intervals of error rates and of the errors' correlation.
LEVEL = 0.95
# Least value of a divisor.
SMALLEST = 1e-30
# Rounds of EM.
COLD_ROUNDS = 60
# Above this replaced share an earlier fit believes no reward any more, and EM starts anew.
_LARGEST_WARM_ERROR = 0.9
# Parameters that differ by less are equal.
_TOLERANCE = 1e-5


class NoiseFit(NamedTuple):
    """The parameters of the noise model.

    Attributes:
        theta: of verdicts the weights of the prior's features, of other rewards the slope s of the true reward on the
            prediction.
        error: e, the probability that a reward was replaced.
        replacement: q, [V] how often a replaced reward takes each value.
        correlation: rho, of the errors of two verdicts on one unit; 0 for other rewards.
        values: h, [V] how frequent each true value is, of rewards that are no verdicts; unused for verdicts.
    """

    theta: Float[Tensor, "*f"]
    error: Float[Tensor, ""]
    replacement: Float[Tensor, " v"]
    correlation: Float[Tensor, ""]
    values: Float[Tensor, " v"]

    @property
    def likelihood_ratio(self) -> Float[Tensor, " v"]:
        """[V] R(y), the likelihood of the observed value if it is true, over that if another value is."""
        return 1 + (1 - self.error) / self.error_rates.clamp(min=SMALLEST)

    @property
    def error_rates(self) -> Float[Tensor, " v"]:
        """[V] e q(y): the probability that a reward whose true value is not y is observed as y.

        For verdicts [0] is the false negative rate and [1] the false positive rate.
        """
        return self.error * self.replacement

    def with_channel(
        self, count: Float[Tensor, " v"], right: Float[Tensor, " v"], kept: float, replaced: float
    ) -> NoiseFit:
        """The fit with e and q from expected counts, the M step of the channel.

        Args:
            count: [V] rewards of each value.
            right: [V] the right ones among them.
            kept: pseudo-count of rewards that were kept.
            replaced: pseudo-count of replaced rewards of each value.
        """
        fit = self
        for _ in range(3):
            # A right reward was kept, or replaced by itself: with probability 1 / R(y).
            kept_right = right * (1 - 1 / fit.likelihood_ratio)
            replaced_rewards = count - kept_right + replaced
            all_rewards = (count + replaced).sum().add(kept)
            fit = fit._replace(
                error=replaced_rewards.sum() / all_rewards,
                replacement=replaced_rewards / replaced_rewards.sum(),
            )
        return fit

    def is_near(self, other: NoiseFit) -> bool:
        """Whether no parameter differs from the other fit's by 1e-5 or more."""
        differences = [float((mine - theirs).abs().max()) for mine, theirs in zip(self, other, strict=True)]
        return max(differences) < _TOLERANCE


def earlier_fit(earlier: dict[str, Tensor], cold: NoiseFit) -> NoiseFit | None:
    """The fit of the window before, where EM goes on; None where it has to start anew.

    So it has to where there is no earlier fit, or one of another number of values, or one that believes no reward.

    Args:
        earlier: the fields of that fit, or {}.
        cold: where EM starts anew.
    """
    if not earlier or len(earlier["values"]) != len(cold.values):
        return None
    if float(earlier["error"]) >= _LARGEST_WARM_ERROR:
        return None
    return NoiseFit(**earlier)
