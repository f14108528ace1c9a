"""The two values that a verifier's verdicts take, a bonus or a penalty beside them or not: what counts as right."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from geoalign.method.ties import tied_rewards
from geoalign.noise.rows import NEARLY_ALL, two_values

# A verdict that lies further outside than this many distances of the two values shows that they are one value.
_FAR = 3.0


@dataclass(frozen=True)
class VerdictValues:
    """The values of the verdicts "wrong" and "right".

    Attributes:
        low: of "wrong".
        high: of "right".
    """

    low: float
    high: float

    @property
    def middle(self) -> float:
        """A reward above it says "right"."""
        return (self.low + self.high) / 2

    def accepts(self, rewards: Float[Tensor, " n"]) -> Tensor:
        """[N] whether each reward is nearer to the high value; False for NaN."""
        return rewards > self.middle

    def reward_of(self, right: bool, reward: float) -> float:
        """The reward of a row that a second verifier calls right or wrong.

        It is the row's own, with the bonus or penalty that may be in it, where that says so already; else the high or
        the low value.
        """
        if (reward > self.middle) is right:
            return reward
        return self.high if right else self.low

    def near(self, rewards: Float[Tensor, " n"]) -> Bool[Tensor, " n"]:
        """[N] whether each reward lies within a quarter of their distance of one of the two values."""
        quarter = (self.high - self.low) / 4
        return torch.minimum((rewards - self.low).abs(), (rewards - self.high).abs()) <= quarter

    def lowest(self, rewards: Float[Tensor, " n"]) -> float:
        """The lowest reward between the middle and as far below the low value; the low value where none lies there.

        It is what a wrong answer gets: a higher reward in that range has a bonus, and a lower one a penalty.
        """
        half_gap = (self.high - self.low) / 2
        refused = rewards[(rewards >= self.low - half_gap) & (rewards <= self.middle)]
        return float(refused.min()) if len(refused) else self.low

    def widened(self, rewards: Float[Tensor, " n"], verdicts: Float[Tensor, " m"]) -> VerdictValues:
        """The values when verdicts of a second verifier, which judges on the same scale, are known as well.

        Verdicts far outside both values show that these are one value, with a bonus and without. Far is more than
        `_FAR` times their distance, or for most of the verdicts more than once their distance. The new values are the
        median reward and the median of those verdicts. A single verdict far below is an outlier, such as -10 for a
        failure, if the others take both values.
        """
        distance = self.high - self.low
        beyond = self._beyond(verdicts, _FAR * distance)
        is_outlier = len(beyond) == 1 and float(beyond[0]) < self.low and self._both_occur(verdicts)
        if not len(beyond) or is_outlier:
            beyond = self._beyond(verdicts, distance)
            if 2 * len(beyond) <= len(verdicts):
                return self
        low, high = sorted([float(rewards.median()), float(beyond.median())])
        return VerdictValues(low, high) if low < high else self

    def _both_occur(self, verdicts: Float[Tensor, " m"]) -> bool:
        """Whether some verdicts lie at the low value and some at the high one, within a quarter of their distance."""
        near = verdicts[self.near(verdicts)]
        accepted = self.accepts(near)
        return bool(accepted.any()) and not bool(accepted.all())

    def _beyond(self, verdicts: Float[Tensor, " m"], reach: float) -> Float[Tensor, " k"]:
        """The verdicts that lie above the high value by more than `reach`, or below the low one, whichever are more."""
        above = verdicts[verdicts > self.high + reach]
        below = verdicts[verdicts < self.low - reach]
        return max(above, below, key=len)


# What most verifiers pay a wrong and a right response.
USUAL_VALUES = (VerdictValues(0.0, 1.0), VerdictValues(-1.0, 1.0))


class SeenVerdicts:
    """The values of the verdicts in a training, as far as its batches have shown them.

    A batch alone may not show them: where all responses are refused, some of them with a bonus for their format, there
    are two rewards as well. So a batch is pooled with the values that earlier ones have shown, each of them as often as
    the batch has rewards, and `two_values` finds the values of all together. Where it finds none, it looks at the batch
    alone. Of a batch of equal rewards earlier values hold; without any, those that it and the second verifier's
    verdicts take together, if they are two.
    """

    def __init__(self) -> None:
        self._known: VerdictValues | None = None

    def values(self, rewards: Float[Tensor, " n"], verdicts: Float[Tensor, " m"]) -> VerdictValues | None:
        """The values in a batch; None where they are not known, or where its rewards are no verdicts.

        Args:
            rewards: [N] of the rows that are not trusted; NaN counts for none.
            verdicts: [M] of a second verifier, and other rewards that are trusted.
        """
        scored = rewards[~rewards.isnan()].cpu()
        verdicts = verdicts[~verdicts.isnan()].cpu()
        found = self._values(scored)
        if found is None:
            return _values_of_equal_rewards(scored, verdicts)
        return found.widened(scored, verdicts)

    def values_of_truths(self, rewards: Float[Tensor, " n"], verdicts: Float[Tensor, " m"]) -> VerdictValues | None:
        """The values that a second verifier's "wrong" and "right" stand for in a batch; None where nobody can know.

        They are the first of `USUAL_VALUES` near which nearly all rewards lie, and what earlier batches have shown: a
        batch of wrong responses, some of them with a bonus, does not make the bonus the value of "right". Other
        rewards have their `values`, but a lone reward of an unusual value has none.
        """
        scored = rewards[~rewards.isnan()].cpu()
        known = [] if self._known is None else [self._known.low, self._known.high]
        for usual in USUAL_VALUES:
            nearly_all = len(scored) and float(usual.near(scored).double().mean()) >= NEARLY_ALL
            if nearly_all and bool(usual.near(torch.tensor(known)).all()):
                return usual
        return self.values(rewards, verdicts)

    def learn(self, rewards: Float[Tensor, " n"], verdicts: Float[Tensor, " m"]) -> VerdictValues | None:
        """The `values` in a batch, which hold for later batches, too."""
        found = self.values(rewards, verdicts)
        if found is not None:
            self._known = found
        return found

    def _values(self, rewards: Float[Tensor, " n"]) -> VerdictValues | None:
        known = self._known
        if len(_different(rewards)) < 2:
            return known
        found = None
        if known is not None:
            low = torch.full_like(rewards, known.low)
            high = torch.full_like(rewards, known.high)
            found = two_values(torch.cat([rewards, low, high]))
        found = found or two_values(rewards)
        return None if found is None else VerdictValues(*found)

    def state_dict(self) -> dict[str, Any]:
        """What another process needs to go on."""
        return {} if self._known is None else asdict(self._known)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._known = VerdictValues(**state) if state else None


def _values_of_equal_rewards(rewards: Float[Tensor, " n"], verdicts: Float[Tensor, " m"]) -> VerdictValues | None:
    """The values where a verifier accepts all, or refuses all, and a second one does not; else None."""
    both = _different(torch.cat([rewards, verdicts.to(rewards)]))
    if len(_different(rewards)) != 1 or len(both) != 2:
        return None
    return VerdictValues(float(both.min()), float(both.max()))


def _different(rewards: Float[Tensor, " n"]) -> Float[Tensor, " k"]:
    """[K] the rewards that differ by more than rounding, ascending."""
    return tied_rewards(rewards, torch.zeros_like(rewards, dtype=torch.long)).unique()
