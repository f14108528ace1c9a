"""Answer mean: every row gets the mean reward of its answer in the group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.curators.base import Curator, identity
from geoalign.curators.batches import rows_by_group
from geoalign.settings import settings
from geoalign.types import Curation, Rollouts


def answer_means(rewards: Float[Tensor, " n"], answers: Sequence[str | None]) -> Float[Tensor, " n"]:
    """The mean reward of the rows of a group that give a row's answer; a row without an answer keeps its own.

    Rows with a NaN reward are in no mean, and stay NaN.
    """
    means = rewards.clone()
    for answer in {answer for answer in answers if answer is not None}:
        same = torch.tensor([each == answer for each in answers]) & ~rewards.isnan()
        # Sorted, so that the order of the rows does not show in the last bit.
        means[same] = rewards[same].sort().values.mean()
    return means


@settings
class AnswerMeanConfig:
    """The settings of `AnswerMean`, of which there are none."""

    type: ClassVar[str] = "answer_mean"


class AnswerMean(Curator[AnswerMeanConfig]):
    """Gives every row the mean reward of its final answer in its group: a control without states and without a model.

    r' = mean of r over the rows of the group with the same answer; rows without an answer keep theirs. Where wrong
    rewards are drawn row by row, also among equal answers, this average all but reveals them; a verifier that errs on
    an answer every time is not averaged away. `scores` are |r - r'|, and nothing is flagged. Where all answers of a
    group differ, nothing changes.

    Needs `answers`. NaN rewards stay NaN.
    """

    config_class = AnswerMeanConfig
    requires = ("answers",)

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Averages; draws nothing from `generator`."""
        rollouts.require("answers", by="AnswerMean")
        assert rollouts.answers is not None
        observed = rollouts.rewards.cpu()
        rewards = observed.clone()
        for rows in rows_by_group(rollouts.groups) if len(rollouts) else ():
            rewards[rows] = answer_means(observed[rows], [rollouts.answers[row] for row in rows.tolist()])
        change = (rewards - observed).abs()
        metrics = {
            "changed_rewards": float((change > 0).sum()),
            "unscored_rewards": float(observed.isnan().sum()),
        }
        device = rollouts.rewards.device
        return replace(identity(rollouts, metrics), rewards=rewards.to(device), scores=change.to(device, torch.float32))
