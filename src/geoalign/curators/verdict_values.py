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
    def gap(self) -> float:
        """How far apart the two values are."""
        return self.high - self.low

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
        """[N] whether each reward lies within a quarter of the gap of one of the two values."""
        quarter = self.gap / 4
        return torch.minimum((rewards - self.low).abs(), (rewards - self.high).abs()) <= quarter

    def lowest(self, rewards: Float[Tensor, " n"]) -> float:
        """The lowest reward from low - gap / 2 to low + gap / 2, with gap = high - low; low where there is none.

        It is what a wrong answer gets: a higher reward in that range has a bonus, and a lower one a penalty.
        """
        half_gap = self.gap / 2
        refused = rewards[(rewards >= self.low - half_gap) & (rewards <= self.middle)]
        return float(refused.min()) if len(refused) else self.low

    def widened(self, rewards: Float[Tensor, " n"], verdicts: Float[Tensor, " m"]) -> VerdictValues:
        """The values when verdicts of a second verifier, which judges on the same scale, are known as well.

        Verdicts far outside both values show that these are one value, with a bonus and without. Far is a verdict more
        than `_FAR` gaps outside, with gap = high - low. Without one, verdicts more than one gap outside count, if more
        than half of all lie there. The new values are the median reward and the median of those verdicts. A single
        verdict far below is an outlier, such as -10 for a failure, if the others take both values.
        """
        beyond = self._beyond(verdicts, _FAR * self.gap)
        is_outlier = len(beyond) == 1 and float(beyond[0]) < self.low and self._both_occur(verdicts)
        if not len(beyond) or is_outlier:
            beyond = self._beyond(verdicts, self.gap)
            if 2 * len(beyond) <= len(verdicts):
                return self
        low, high = sorted([float(rewards.median()), float(beyond.median())])
        return VerdictValues(low, high) if low < high else self

    def _both_occur(self, verdicts: Float[Tensor, " m"]) -> bool:
        """Whether some verdicts lie at the low value and some at the high one, within a quarter of the gap."""
        near = verdicts[self.near(verdicts)]
        accepted = self.accepts(near)
        return bool(accepted.any()) and not bool(accepted.all())

    def _beyond(self, verdicts: Float[Tensor, " m"], reach: float) -> Float[Tensor, " k"]:
        """The verdicts that lie above the high value by more than `reach`, or below the low one, whichever are more."""
        above = verdicts[verdicts > self.high + reach]
        below = verdicts[verdicts < self.low - reach]
        return max(above, below, key=len)


# What most verifiers pay a wrong and a right response.
_USUAL_VALUES = (VerdictValues(0.0, 1.0), VerdictValues(-1.0, 1.0))
# Verdicts and a bonus or two take no more different values; scores do.
_MOST_VALUES = 8


class SeenVerdicts:
    """The values of the verdicts in a training, as far as its batches have shown them.

    A batch alone may not show them: where all responses are refused, some of them with a bonus for their format, there
    are two rewards as well. So a batch is pooled with the values that earlier ones have shown, each of them as often as
    the batch has rewards, and `two_values` finds the values of all together. Where it finds none, it looks at the batch
    alone. Of a batch of equal rewards earlier values hold; without any, those that it and the second verifier's
    verdicts take together, if they are two.

    Attributes:
        says_truths: the second verifier says true and false, so that what its verdicts are worth is told by the rewards
            alone. Then a batch of wrong responses does not make their bonus the value of "right".
    """

    def __init__(self) -> None:
        self._known: VerdictValues | None = None
        self.says_truths = False

    def values(self, rewards: Float[Tensor, " n"], verdicts: Float[Tensor, " m"]) -> VerdictValues | None:
        """The values in a batch; None where they are not known, or where its rewards are no verdicts.

        Args:
            rewards: [N] of the rows that are not trusted; NaN counts for none.
            verdicts: [M] of a second verifier, and other rewards that are trusted.
        """
        scored = rewards[~rewards.isnan()].cpu()
        if self.says_truths:
            return self._values_beside_truths(scored)
        verdicts = verdicts[~verdicts.isnan()].cpu()
        found = self._values(scored)
        if found is None:
            return _values_of_equal_rewards(scored, verdicts)
        return found.widened(scored, verdicts)

    def _values_beside_truths(self, rewards: Float[Tensor, " n"]) -> VerdictValues | None:
        """The values in a batch whose second verifier says true and false, so that its verdicts show none.

        They are two rewards that are 1 or more apart, if there are no others; else the usual ones, if the rewards lie
        near them; else those that `two_values` finds.
        """
        different = _different(rewards)
        if len(different) == 2 and float(different[1] - different[0]) >= 1:
            return VerdictValues(float(different[0]), float(different[1]))
        return self._usual_values(rewards) or self._values(rewards)

    def _usual_values(self, rewards: Float[Tensor, " n"]) -> VerdictValues | None:
        """0 and 1, or -1 and 1, where nearly all rewards and the values that earlier batches showed lie near them.

        The rewards may all lie near one of the two, but not near 1 of -1 and 1: such rewards could be anything.
        """
        known = [] if self._known is None else [self._known.low, self._known.high]
        shown = torch.cat([rewards, torch.tensor(known).to(rewards)])
        if not 0 < len(_different(rewards)) <= _MOST_VALUES:
            return None
        for usual in _USUAL_VALUES:
            is_near = usual.near(shown)
            nearly_all_near = float(is_near[: len(rewards)].double().mean()) >= NEARLY_ALL
            known_are_near = bool(is_near[len(rewards) :].all())
            one_is_refused = not bool(usual.accepts(shown[is_near]).all())
            if nearly_all_near and known_are_near and (one_is_refused or usual.low == 0):
                return usual
        return None

    def learn(self, rewards: Float[Tensor, " n"], verdicts: Float[Tensor, " m"]) -> VerdictValues | None:
        """The `values` in a batch, which hold for later batches, too; of usual ones only what the batch shows."""
        found = self.values(rewards, verdicts)
        shown = self._values(rewards[~rewards.isnan()].cpu()) if self.says_truths else found
        if shown is not None:
            self._known = shown
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
        known = {} if self._known is None else asdict(self._known)
        return {**known, "says_truths": True} if self.says_truths else known

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        known = {name: state[name] for name in ("low", "high") if name in state}
        self._known = VerdictValues(**known) if known else None
        self.says_truths = state.get("says_truths", False)


def _values_of_equal_rewards(rewards: Float[Tensor, " n"], verdicts: Float[Tensor, " m"]) -> VerdictValues | None:
    """The values where a verifier accepts all, or refuses all, and a second one does not; else None."""
    both = _different(torch.cat([rewards, verdicts.to(rewards)]))
    if len(_different(rewards)) != 1 or len(both) != 2:
        return None
    return VerdictValues(float(both.min()), float(both.max()))


def _different(rewards: Float[Tensor, " n"]) -> Float[Tensor, " k"]:
    """[K] the rewards that differ by more than rounding, ascending."""
    return tied_rewards(rewards, torch.zeros_like(rewards, dtype=torch.long)).unique()
