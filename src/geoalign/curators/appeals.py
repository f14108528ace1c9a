"""Appeals: a second, costlier verifier judges a few rows of a batch; its verdicts are trusted from then on."""

from __future__ import annotations

import math
from collections.abc import Hashable
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from geoalign.curators.choosers import CHOOSERS, Candidates, RemainingError
from geoalign.curators.curator import identity, tie_order
from geoalign.curators.holder import Holder
from geoalign.curators.labelled_rollouts import check_reads_trusted
from geoalign.curators.registry import CuratorSection, default_curator
from geoalign.errors import ConfigError, InputError
from geoalign.settings import Count, Share, setting, settings
from geoalign.types import Curation, Rollouts


@settings
class AppealsConfig:
    """The settings of `Appeals`; in YAML `curator` is a section of its own, with its `type`."""

    type: ClassVar[str] = "appeals"

    curator: CuratorSection = setting(
        default_factory=lambda: default_curator("denoise"), help="Scores the rows, and learns from the verdicts."
    )
    budget: Count = setting(default=16, help="Responses of a batch that the second verifier may be asked about.")
    choose: Literal["error", "informative", "majority", "negatives", "random", "care"] = setting(
        default="error", help="How the responses to ask about are chosen: `geoalign.curators.choosers`."
    )
    enough: Share = setting(
        default=0.0,
        help="With choose: error, no more is asked in a batch once the squared error of the advantages that is left is "
        "expected to be below this share of their squared norm; 0: the budget is used up.",
    )


@dataclass(frozen=True, eq=False)
class Hearing:
    """What came of asking the second verifier about A rows of a batch.

    Attributes:
        rollouts: the batch with the verdicts as trusted rewards.
        asked_rows: [A] the rows that have a verdict.
        overturned: [A] where the verdict is another than the reward.
        trial: the inner curator's curation of the batch before any verdict.
        questions: how many distinct responses were asked about.
        unanswered: how many of them got no verdict.
    """

    rollouts: Rollouts
    asked_rows: Int[Tensor, " a"]
    overturned: Bool[Tensor, " a"]
    trial: Curation
    questions: int
    unanswered: int

    def onto(self, decided: Curation) -> Curation:
        """The decision on the batch; asked rows have the trial's scores, and if they have one and are overturned, are
        anomalous."""
        scores = decided.scores.clone()
        scores[self.asked_rows] = self.trial.scores[self.asked_rows].to(scores)
        anomalous = decided.anomalous.clone()
        anomalous[self.asked_rows] = self.overturned & ~scores[self.asked_rows].isnan()
        return replace(decided, scores=scores, anomalous=anomalous).with_metrics(
            appeals=float(len(self.asked_rows)),
            appeals_asked=float(self.questions),
            appeals_unanswered=float(self.unanswered),
            overturned=float(self.overturned.sum()),
            anomalous=float(anomalous.sum()),
        )


class Appeals(Holder[AppealsConfig]):
    """Asks a second verifier about a few rows, and curates the batch again with its verdicts as trusted.

    The inner curator scores the batch in a trial. Up to `budget` distinct responses that are not trusted yet go to
    `Rollouts.second_rewards`, in the order of the chooser that `choose` names (`geoalign.curators.choosers`). A verdict
    holds for identical responses of the group: their rewards become the second verifier's, and they `trusted`; the
    inner curator then decides on this batch, and learns from it. A verdict of None or NaN changes nothing, and is
    counted. If the chooser goes by scores and no row has one, none is asked about.

    An inner curator that reads no trusted rows, as `grpo`, is allowed with a chooser that needs no scores. Then a
    verdict counts as the chooser says (`Chooser.settled`): for all rows of the group with an equal answer.

    `scores` of rows that were asked about are the trial's; anomalous are those whose verdict differs from the reward.

    Needs `second_rewards` and what the inner curator and the chooser need; heeds `response_keys`.

    Args:
        config: its settings, or the curator alone, one that reads `trusted`; as a keyword, `curator`: as `Holder` says.

    Raises:
        ConfigError: the chooser goes by scores, and the inner curator makes no use of trusted rows, or scores none; or
            `enough` is set for a chooser that does not stop.
        InputError: the second verifier returns another number of verdicts than it was asked for.
    """

    headline = ("appeals", "overturned")
    kept = ("chooser",)

    def __init__(self, config: Any = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self._chooser = CHOOSERS[self.config.choose]()
        if self.config.enough:
            if self.config.choose != "error":
                raise ConfigError(f"appeals.enough: expected choose: error, which it is for, got {self.config.choose}")
            self._chooser = RemainingError(enough=self.config.enough)
        # Where the inner curator makes nothing of verdicts, the chooser does.
        self._inner_reads_trusted = "trusted" in self._inner.reads
        if self._chooser.needs_scores or self._inner_reads_trusted or "components" in self._inner.reads:
            check_reads_trusted(self._inner, setting="appeals")
        if self._chooser.needs_scores and not self._inner.scores_rows:
            name = type(self._inner).__name__
            raise ConfigError(f"appeals: expected a curator that scores rows, by which to ask, as denoise; got {name}")
        self.requires = tuple(dict.fromkeys((*self._inner.requires, *self._chooser.requires, "second_rewards")))
        by_chooser = () if self._inner_reads_trusted else ("answers", "trusted")
        self.also_reads("response_keys", *by_chooser, *self._chooser.optional)
        if self.acts_on is not None:
            # The rewards of rows that the second verifier overturns.
            acts_on = ("rewards",) if self._inner_reads_trusted else self._chooser.acts_on
            self.acts_on = tuple(dict.fromkeys((*self.acts_on, *acts_on)))

    def curate(self, rollouts: Rollouts, *, generator: Generator | None = None, details: bool = False) -> Curation:
        """Tries, asks, and decides; choosers that draw do so before the decision."""
        if not len(rollouts):
            rollouts.require("second_rewards", by="Appeals")
            return identity(rollouts)
        generator = self.drawing_from(generator)
        hearing = self.hear(rollouts, generator=generator)
        heard = self._candidates(hearing.rollouts, hearing.trial.scores, closed=set())
        if self._inner_reads_trusted:
            self._chooser.learn(heard, generator)
            return hearing.onto(self._inner.curate(hearing.rollouts, generator=generator, details=details))
        rewards, weights = self._chooser.settled(heard)
        self._chooser.learn(heard, generator)
        settled = replace(hearing.rollouts, rewards=rewards.to(rollouts.rewards))
        decided = self._inner.curate(settled, generator=generator, details=details)
        return hearing.onto(replace(decided, weights=decided.weights * weights.to(decided.weights)[decided.source]))

    def hear(self, rollouts: Rollouts, *, generator: Generator | None = None) -> Hearing:
        """Tries and asks; the inner curator learns nothing of it."""
        rollouts.require(*self._chooser.requires, "second_rewards", by="Appeals")
        trial = identity(rollouts)
        if self._inner_reads_trusted:
            trial = deepcopy(self._inner).curate(rollouts, generator=Generator().manual_seed(0))
        heard, asked, questions, unanswered = self._ask(rollouts, trial.scores, self.drawing_from(generator))
        rows = torch.tensor(asked, dtype=torch.long, device=rollouts.rewards.device)
        return Hearing(
            rollouts=heard,
            asked_rows=rows,
            overturned=heard.rewards[rows] != rollouts.rewards[rows],
            trial=trial,
            questions=questions,
            unanswered=unanswered,
        )

    def _ask(
        self, rollouts: Rollouts, scores: Float[Tensor, " b"], generator: Generator
    ) -> tuple[Rollouts, list[int], int, int]:
        """Asks once, or in rounds as long as the chooser names rows and the budget lasts.

        Returns:
            The batch with the verdicts, the rows that have one, how many questions were asked, and how many of them had
            no answer.
        """
        assert rollouts.second_rewards is not None
        asked: list[int] = []
        without_verdict: set[int] = set()
        asked_questions = 0
        unanswered = 0
        while asked_questions < self.config.budget:
            candidates = self._candidates(rollouts, scores, closed=without_verdict)
            in_order = self._chooser.next_rows(candidates, generator)
            questions = self._questions(rollouts, in_order, among=candidates.rows)[
                : self.config.budget - asked_questions
            ]
            if not questions:
                break
            answers = rollouts.second_rewards([rows[0] for rows in questions])
            if len(answers) != len(questions):
                raise InputError(f"second_rewards: expected {len(questions)} verdicts, got {len(answers)}")
            asked_questions += len(questions)
            judged: list[int] = []
            verdicts: list[float] = []
            for rows, answer in zip(questions, answers, strict=True):
                if answer is None or math.isnan(answer):
                    unanswered += 1
                    without_verdict.update(rows)
                    continue
                judged += rows
                verdicts += [float(answer)] * len(rows)
            rollouts = _with_verdicts(rollouts, judged, verdicts)
            asked += judged
            if not self._chooser.in_rounds:
                break
        return rollouts, asked, asked_questions, unanswered

    def _candidates(self, rollouts: Rollouts, scores: Float[Tensor, " b"], *, closed: set[int]) -> Candidates:
        """What the chooser sees; rows that are `closed` have been asked about in vain."""
        groups = rollouts.groups.tolist()
        answers: list[tuple[int, Hashable]] = list(_responses(rollouts))
        answered = [False] * len(groups)
        if rollouts.answers is not None and "answers" in self.reads:
            for row, answer in enumerate(rollouts.answers):
                if answer is not None:
                    answers[row] = (groups[row], answer)
                    answered[row] = True
        trusted = torch.zeros(len(groups)).bool() if rollouts.trusted is None else rollouts.trusted.cpu()
        rewards = rollouts.rewards.cpu()
        scores = scores.cpu()
        may_ask = ~(rewards.isnan() | trusted)
        if self._chooser.needs_scores:
            may_ask &= ~scores.isnan()
        in_order = tie_order(rollouts)
        rows = [row for row in in_order[may_ask[in_order]].tolist() if row not in closed]
        return Candidates(
            rollouts=rollouts,
            rows=rows,
            answers=answers,
            answered=answered,
            rewards=rewards,
            trusted=trusted,
            scores=scores,
            log_odds=self._inner.log_odds,
        )

    def _questions(self, rollouts: Rollouts, in_order: list[int], *, among: list[int]) -> list[list[int]]:
        """The questions that these rows, in their order, come to.

        Each is a list of the rows `among` those that may be asked about that hold one response of a group; it is asked
        about the first of them.
        """
        response_of = _responses(rollouts)
        questions: dict[tuple[int, int], list[int]] = {}
        for row in in_order:
            questions.setdefault(response_of[row], [row])
        for row in among:
            asked = questions.get(response_of[row])
            if asked is not None and row != asked[0]:
                asked.append(row)
        return list(questions.values())


def _responses(rollouts: Rollouts) -> list[tuple[int, int]]:
    """The response that each row holds, with its group; without `response_keys` each row's is its own."""
    groups = rollouts.groups.tolist()
    keys = range(len(groups)) if rollouts.response_keys is None else rollouts.response_keys.tolist()
    return list(zip(groups, keys, strict=True))


def _with_verdicts(rollouts: Rollouts, rows: list[int], verdicts: list[float]) -> Rollouts:
    """The batch with these verdicts as rewards of their rows, which are trusted."""
    index = torch.tensor(rows, dtype=torch.long, device=rollouts.rewards.device)
    new_rewards = torch.tensor(verdicts, dtype=torch.float64).to(rollouts.rewards)
    trusted = torch.zeros_like(rollouts.rewards, dtype=torch.bool)
    if rollouts.trusted is not None:
        trusted = rollouts.trusted.clone()
    trusted[index] = True
    return replace(rollouts, rewards=rollouts.rewards.index_copy(0, index, new_rewards), trusted=trusted)
