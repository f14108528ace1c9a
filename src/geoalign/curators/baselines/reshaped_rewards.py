"""Baselines that change the rewards: by reference responses, or by a group's final answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from geoalign.curators.baselines.baseline import Baseline, rows_by_group
from geoalign.curators.curator import identity
from geoalign.errors import InputError
from geoalign.intervals import mean_of
from geoalign.method.ties import power_of_two, tied_rewards
from geoalign.settings import Positive, setting, settings
from geoalign.types import Curation, Rollouts


@settings
class PARConfig:
    type: ClassVar[str] = "par"

    slope: Positive = setting(default=1.0, help="Slope k of the sigmoid.")


class PAR(Baseline[PARConfig]):
    """Preference as reward (arXiv 2502.18770): r' = mean over references m of sigmoid(slope (r - ref_m)).

    Needs `reference_rewards` [B, M]: the rewards of M responses of the reference (warm-started) model to the row's
    prompt; NaN ones are left out of the mean. It acts before the advantage.

    For x = slope (r - ref_m) near zero the sigmoid is 1/2 + x/4, up to x^2 / 12 of its slope: 1e-4 at differences of
    0.035, those of ArmoRM's scores in the paper. There PAR with slope 1 changes rewards affinely, which is plain GRPO.

    Raises:
        InputError: there are no reference rewards, none for a row that has a reward, or an infinite one.
    """

    headline = ("shaped_reward",)

    requires = ("reference_rewards",)
    acts_on = ("rewards",)
    scores_rows = False

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        assert rollouts.reference_rewards is not None
        rewards = tied_rewards(rollouts.rewards, rollouts.groups)
        references = rollouts.reference_rewards.to(rewards)
        missing = references.isnan().all(dim=1) & ~rewards.isnan()
        wrong = (references.isinf().any(dim=1) | missing).nonzero()
        if len(wrong):
            row = int(wrong[0])
            raise InputError(
                f"PAR: expected finite reference_rewards or NaN, at least one number per row, got none of "
                f"{references.shape[1]}, or an infinite one, in row {row} (group {int(rollouts.groups[row])})"
            )
        # The mean of sigmoids, not the sigmoid of the mean.
        shaped = torch.sigmoid(self.config.slope * (rewards[:, None] - references)).nanmean(dim=1)
        known = (~references.isnan()).sum(1).float().mean()
        metrics = {"shaped_reward": float(shaped.nanmean()), "references": float(known)}
        return replace(identity(rollouts, metrics), rewards=shaped)


def answers_by_group(rollouts: Rollouts) -> Iterator[tuple[Tensor, list[str | None]]]:
    """The rows of each group, and their answers."""
    assert rollouts.answers is not None
    for rows in rows_by_group(rollouts.groups):
        yield rows, [rollouts.answers[row] for row in rows.tolist()]


def answer_means(rewards: Float[Tensor, " n"], answers: Sequence[str | None]) -> Float[Tensor, " n"]:
    """The mean reward of the rows of a group that give a row's answer; a row without an answer keeps its own.

    Rows with a NaN reward are in no mean, and stay NaN.
    """
    means = rewards.clone()
    for answer in {answer for answer in answers if answer is not None}:
        same = torch.tensor([each == answer for each in answers]) & ~rewards.isnan()
        if not bool(same.any()):
            continue
        if bool((rewards[same] == rewards[same][0]).all()):
            # A mean of equal numbers may differ from them by rounding.
            continue
        # Sorted, so that the order of the rows does not show in the last bit; in a unit in which no sum overflows.
        ascending = rewards[same].sort().values
        unit = power_of_two(ascending.abs().max())
        means[same] = (ascending / unit).mean() * unit
    return means


@settings
class AnswerMeanConfig:
    type: ClassVar[str] = "answer_mean"

    unanswered: Literal["kept", "lowest"] = setting(
        default="kept", help="Rows without an answer keep their reward, or get the batch's lowest if others answered."
    )


class AnswerMean(Baseline[AnswerMeanConfig]):
    """Gives every row the mean reward of its final answer in its group: a control without states and without a model.

    r' = mean of r over the rows of the group with the same answer; rows without an answer keep theirs or, beside rows
    that have one, get the lowest reward of the batch. Where wrong rewards are drawn row by row, also among equal
    answers, this average all but reveals them; a verifier that errs on an answer every time is not averaged away.
    `scores` are |r - r'|, and nothing is flagged. Where all answers of a group differ, nothing is averaged.
    """

    requires = ("answers",)
    acts_on = ("rewards",)

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        observed = tied_rewards(rollouts.rewards, rollouts.groups)
        rewards = observed.clone()
        for rows, answers in answers_by_group(rollouts):
            rewards[rows] = answer_means(observed[rows], answers)
            silent = torch.tensor([answer is None for answer in answers]) & ~observed[rows].isnan()
            if self.config.unanswered == "lowest" and not all(answer is None for answer in answers):
                rewards[rows[silent]] = observed.nan_to_num(torch.inf).min()
        change = (rewards - observed).abs()
        # A reward that stays has the bits that it came with: `observed` has made equal what differs by rounding.
        rewards = torch.where(rewards == observed, rollouts.rewards, rewards)
        scores = change.float().clamp(max=torch.finfo(torch.float32).max)
        metrics = {"changed_rewards": float((change > 0).sum())}
        return replace(identity(rollouts, metrics), rewards=rewards, scores=scores)


def most_frequent(answers: Sequence[str | None]) -> frozenset[str]:
    """The most frequent of the answers: several where they tie, none where there is no answer at all."""
    counts = Counter(answer for answer in answers if answer is not None)
    most = max(counts.values(), default=0)
    return frozenset(answer for answer, count in counts.items() if count == most)


@settings
class MajorityVoteConfig:
    type: ClassVar[str] = "majority_vote"


class MajorityVote(Baseline[MajorityVoteConfig]):
    """Rewards agreement with the group's most frequent answer (TTRL, arXiv 2504.16084); the rewards are ignored.

    r' = 1 for rows that give that answer and 0 for the others, rows without an answer among them, which have no vote.
    Of several most frequent answers all are rewarded (the released code takes the one that came first, which depends on
    the order of the rows). So a group whose answers all differ, and one without any answer, have no advantage. It is
    the control of every method that uses answers: what such a method gains over it is due to the rewards.

    Needs `answers`. A row whose reward is NaN votes, but stays without a reward.
    """

    headline = ("majority_share", "tied_groups")

    requires = ("answers",)
    acts_on = ("rewards",)
    scores_rows = False

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        rewards = torch.zeros_like(rollouts.rewards)
        shares = []
        tied_groups = 0
        for rows, answers in answers_by_group(rollouts):
            winners = most_frequent(answers)
            agree = torch.tensor([answer in winners for answer in answers])
            rewards[rows] = agree.to(rewards)
            shares.append(float(agree.sum()) / len(rows) / max(len(winners), 1))
            tied_groups += len(winners) > 1
        metrics = {"majority_share": mean_of(shares), "tied_groups": float(tied_groups)}
        return replace(identity(rollouts, metrics), rewards=rewards.masked_fill(rollouts.rewards.isnan(), torch.nan))
