"""Majority vote: the group's most frequent answer is taken for right, whatever the rewards say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch

from geoalign.curators.base import Curator, identity
from geoalign.curators.batches import mean_of, rows_by_group
from geoalign.settings import settings
from geoalign.types import Curation, Rollouts


def most_frequent(answers: Sequence[str | None]) -> frozenset[str]:
    """The most frequent of the answers: several where they tie, none where there is no answer at all."""
    counts = Counter(answer for answer in answers if answer is not None)
    most = max(counts.values(), default=0)
    return frozenset(answer for answer, count in counts.items() if count == most)


@settings
class MajorityVoteConfig:
    """The settings of `MajorityVote`, of which there are none."""

    type: ClassVar[str] = "majority_vote"


class MajorityVote(Curator[MajorityVoteConfig]):
    """Rewards agreement with the group's most frequent answer (TTRL, arXiv 2504.16084); no reward is looked at.

    r' = 1 for rows that give that answer and 0 for the others, rows without an answer among them, which have no vote.
    Of several most frequent answers all are rewarded (the released code takes the one that came first, which depends on
    the order of the rows). So a group whose answers all differ, and one without any answer, have no advantage. It is
    the control of every method that uses answers: what such a method gains over it is due to the rewards.

    Needs `answers`. A row whose reward is NaN votes, but stays without a reward.
    """

    config_class = MajorityVoteConfig
    requires = ("answers",)

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Counts the votes; draws nothing from `generator`."""
        rollouts.require("answers", by="MajorityVote")
        assert rollouts.answers is not None
        rewards = torch.zeros_like(rollouts.rewards)
        shares, tied = [], 0
        for rows in rows_by_group(rollouts.groups) if len(rollouts) else ():
            answers = [rollouts.answers[row] for row in rows.tolist()]
            winners = most_frequent(answers)
            agree = torch.tensor([answer in winners for answer in answers])
            rewards[rows.to(rewards.device)] = agree.to(rewards)
            shares.append(float(agree.sum()) / len(rows) / max(len(winners), 1))
            tied += len(winners) > 1
        unchanged = identity(rollouts)
        metrics = {
            "majority_share": mean_of(shares),
            "tied_groups": float(tied),
            "unscored_rewards": float(rollouts.rewards.isnan().sum()),
        }
        rewards[rollouts.rewards.isnan()] = torch.nan
        return replace(unchanged, rewards=rewards, metrics=metrics)
