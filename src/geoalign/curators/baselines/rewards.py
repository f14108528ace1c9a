"""Baselines that change the rewards: by reference responses, or by a group's final answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Baseline, identity, rows_by_group
from geoalign.errors import InputError
from geoalign.method.intervals import mean_of
from geoalign.settings import Count, Positive, setting, settings
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

    requires = ("reference_rewards",)

    def _curate(self, rollouts: Rollouts, generator: torch.Generator | None) -> Curation:
        assert rollouts.reference_rewards is not None
        rewards = rollouts.rewards
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
        metrics = {
            "shaped_reward": float(shaped.nanmean()),
            "references": float((~references.isnan()).sum(1).float().mean()),
        }
        return replace(identity(rollouts, metrics), rewards=shaped)


def answers_by_group(rollouts: Rollouts, groups: Tensor) -> Iterator[tuple[Tensor, list[str | None]]]:
    """The rows of each group, and their answers."""
    assert rollouts.answers is not None
    for rows in rows_by_group(groups):
        yield rows, [rollouts.answers[row] for row in rows.tolist()]


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
    type: ClassVar[str] = "answer_mean"


class AnswerMean(Baseline[AnswerMeanConfig]):
    """Gives every row the mean reward of its final answer in its group: a control without states and without a model.

    r' = mean of r over the rows of the group with the same answer; rows without an answer keep theirs. Where wrong
    rewards are drawn row by row, also among equal answers, this average all but reveals them; a verifier that errs on
    an answer every time is not averaged away. `scores` are |r - r'|, and nothing is flagged. Where all answers of a
    group differ, nothing changes.
    """

    requires = ("answers",)

    def _curate(self, rollouts: Rollouts, generator: torch.Generator | None) -> Curation:
        observed, rewards = rollouts.rewards, rollouts.rewards.clone()
        for rows, answers in answers_by_group(rollouts, rollouts.groups):
            rewards[rows] = answer_means(observed[rows], answers)
        change = (rewards - observed).abs()
        metrics = {"changed_rewards": float((change > 0).sum())}
        return replace(identity(rollouts, metrics), rewards=rewards, scores=change.float())


def most_frequent(answers: Sequence[str | None]) -> frozenset[str]:
    """The most frequent of the answers: several where they tie, none where there is no answer at all."""
    counts = Counter(answer for answer in answers if answer is not None)
    most = max(counts.values(), default=0)
    return frozenset(answer for answer, count in counts.items() if count == most)


@settings
class MajorityVoteConfig:
    type: ClassVar[str] = "majority_vote"


class MajorityVote(Baseline[MajorityVoteConfig]):
    """Rewards agreement with the group's most frequent answer (TTRL, arXiv 2504.16084); no reward is looked at.

    r' = 1 for rows that give that answer and 0 for the others, rows without an answer among them, which have no vote.
    Of several most frequent answers all are rewarded (the released code takes the one that came first, which depends on
    the order of the rows). So a group whose answers all differ, and one without any answer, have no advantage. It is
    the control of every method that uses answers: what such a method gains over it is due to the rewards.

    Needs `answers`. A row whose reward is NaN votes, but stays without a reward.
    """

    requires = ("answers",)

    def _curate(self, rollouts: Rollouts, generator: torch.Generator | None) -> Curation:
        rewards = torch.zeros_like(rollouts.rewards)
        shares, tied = [], 0
        for rows, answers in answers_by_group(rollouts, rollouts.groups):
            winners = most_frequent(answers)
            agree = torch.tensor([answer in winners for answer in answers])
            rewards[rows] = agree.to(rewards)
            shares.append(float(agree.sum()) / len(rows) / max(len(winners), 1))
            tied += len(winners) > 1
        metrics = {"majority_share": mean_of(shares), "tied_groups": float(tied)}
        return replace(identity(rollouts, metrics), rewards=rewards.masked_fill(rollouts.rewards.isnan(), torch.nan))


def trend(shares: Sequence[float]) -> float:
    """The least-squares slope of p_0 ... p_n-1 over 0 ... n - 1: sum (t - t') p_t / sum (t - t')^2; 0 for one p."""
    middle = (len(shares) - 1) / 2
    spread = sum((visit - middle) ** 2 for visit in range(len(shares)))
    return sum((visit - middle) * share for visit, share in enumerate(shares)) / spread if spread else 0.0


def settled(majorities: Sequence[str | None]) -> bool:
    """Whether the last majority answer is, alone, the most frequent one of all visits; None: a visit had none."""
    latest = majorities[-1]
    counts = Counter(majorities)
    return latest is not None and all(counts[latest] > count for answer, count in counts.items() if answer != latest)


@settings
class LabelRefinementConfig:
    type: ClassVar[str] = "label_refinement"

    slope: Annotated[float, Field(ge=-1, le=1)] = setting(
        default=0.05, help="The majority's share must rise by at least this much from visit to visit."
    )
    start: Count = setting(default=5, help="Visits of a prompt before its majority answer may become its label.")


class LabelRefinement(Baseline[LabelRefinementConfig]):
    """Rewards agreement with a prompt's majority answer once that answer rises and is stable (OLR, arXiv 2604.03993).

    At each visit of a prompt its most frequent answer and the share of the rollouts that gave it are added to the
    prompt's history. After `start` visits the answer takes the place of the label, r' = 1 for rows that give it and 0
    for the others, where the shares have risen by `slope` a visit or more (a line through all of them, `trend`) and the
    answer is the most frequent majority of all visits, this one included (`settled`). Otherwise the rewards stay.
    A visit whose most frequent answers tie has no majority and the share 0. Defaults are those of the authors' script
    for an epoch a visit, ten in all (ShenzhiYang2000/OLR da052ed: epochs 5 to 9, `slope_tres` 0.05). Answers are equal
    if they are equal as texts; theirs are if math-verify says so.

    It needs a prompt to come again: in a training of one epoch it is plain GRPO. Rows of one prompt are one visit,
    whatever their groups. `scores` are the majority's share, negative for rows whose reward agrees with the new label;
    those whose reward changes are anomalous. A row whose reward is NaN votes, but stays without a reward.
    """

    binary = True
    requires = ("answers", "prompt_keys")
    kept = ("majorities", "shares")

    def __init__(self, config: LabelRefinementConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        # Of every prompt by its key, one entry a visit.
        self._majorities: dict[str, list[str | None]] = {}
        self._shares: dict[str, list[float]] = {}

    def _curate(self, rollouts: Rollouts, generator: torch.Generator | None) -> Curation:
        assert rollouts.prompt_keys is not None
        rewards, scores = rollouts.rewards.clone(), torch.full((len(rollouts),), torch.nan)
        shares, slopes, refined = [], [], 0
        for rows, answers in answers_by_group(rollouts, rollouts.prompt_keys):
            majority, share, slope = self._visit(str(int(rollouts.prompt_keys[rows[0]])), answers)
            shares.append(share)
            slopes.append(slope)
            if majority is not None:
                refined += 1
                agree = torch.tensor([answer == majority for answer in answers]).to(rewards)
                known = ~rewards[rows].isnan()
                rows, agree = rows[known], agree[known]
                scores[rows] = torch.where(rewards[rows] == agree, -share, share).to(scores)
                rewards[rows] = agree
        metrics = {
            "prompts": float(len(shares)),
            "refined_prompts": float(refined),
            "majority_share": mean_of(shares),
            "majority_slope": mean_of(slopes),
            "changed_rewards": float((scores > 0).sum()),
        }
        return replace(identity(rollouts, metrics), rewards=rewards, scores=scores, anomalous=scores > 0)

    def _visit(self, prompt: str, answers: Sequence[str | None]) -> tuple[str | None, float, float]:
        """Adds a visit; the new label (None: the rewards stay), the majority's share and the slope of the shares."""
        most = most_frequent(answers)
        majority = next(iter(most)) if len(most) == 1 else None
        share = answers.count(majority) / len(answers) if majority is not None else 0.0
        majorities, shares = self._majorities.setdefault(prompt, []), self._shares.setdefault(prompt, [])
        majorities.append(majority)
        shares.append(share)
        slope = trend(shares)
        refines = len(shares) > self.config.start and slope >= self.config.slope and settled(majorities)
        return majority if refines else None, share, slope
