"""Appeals: a second, costlier verifier judges a few rows of a batch; its verdicts are trusted from then on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from geoalign.curators.alarms import on_trial
from geoalign.curators.candidates import Candidates, GroupAnswer, groups_sharing_answers
from geoalign.curators.choosers import CHOOSERS, ChooserName, RemainingError
from geoalign.curators.curator import identity, tie_order
from geoalign.curators.holder import Holder
from geoalign.curators.labelled_rollouts import check_reads_trusted
from geoalign.curators.random_checks import RandomChecks, draw_rows
from geoalign.curators.registry import CuratorSection, default_curator
from geoalign.curators.second_verifier import (
    Question,
    SecondVerifierGuard,
    ask,
    observed_rewards,
    questions_about,
    responses_of,
    rows_to_ask_about,
    trusted_mask,
)
from geoalign.curators.verdict_values import SeenVerdicts
from geoalign.errors import ConfigError
from geoalign.method.ties import tied_rewards
from geoalign.settings import AnyShare, Count, Share, setting, settings
from geoalign.types import Curation, Rollouts


@settings
class AppealsConfig:
    """The settings of `Appeals`; in YAML `curator` is a section of its own, with its `type`."""

    type: ClassVar[str] = "appeals"

    curator: CuratorSection = setting(
        default_factory=lambda: default_curator("denoise"), help="Scores the rows, and learns from the verdicts."
    )
    budget: Count = setting(default=16, help="Responses of a batch that the second verifier may be asked about.")
    choose: ChooserName = setting(
        default="error", help="How the responses to ask about are chosen: `geoalign.curators.choosers`."
    )
    enough: Share = setting(
        default=0.0,
        help="With choose: error, no more is asked in a batch once the squared error of the advantages that is left is "
        "expected to be below this share of their squared norm; 0: the budget is used up, as it is where rewards are "
        "no verdicts, or have been equal in all batches so far.",
    )
    random_share: AnyShare = setting(
        default=0.25,
        help="Share of the budget for rows drawn at random, which give rates; at least 1 of a budget above 1.",
    )
    check_window: Count = setting(default=100, help="Random checks after which both error rates get an interval.")


@dataclass(frozen=True, eq=False)
class Hearing:
    """What came of asking the second verifier about A rows of a batch.

    Attributes:
        rollouts: the batch with the verdicts as trusted rewards.
        judged_rows: [A] the rows that have a verdict.
        overturned: [A] where the verdict is another than the reward, by more than rounding.
        drawn_rows: those of them that were drawn at random.
        trial: the inner curator's curation of the batch before any verdict.
        questions: how many distinct responses were asked about.
        unjudged: how many of them got no verdict.
        observed: [B] the rewards before any verdict; NaN where a row was trusted already.
    """

    rollouts: Rollouts
    judged_rows: Int[Tensor, " a"]
    overturned: Bool[Tensor, " a"]
    drawn_rows: list[int]
    trial: Curation
    questions: int
    unjudged: int
    observed: Float[Tensor, " b"]

    def onto(self, decided: Curation) -> Curation:
        """The decision on the batch; asked rows have the trial's scores, and if they have one and are overturned, are
        anomalous."""
        scores = decided.scores.clone()
        scores[self.judged_rows] = self.trial.scores[self.judged_rows].to(scores)
        anomalous = decided.anomalous.clone()
        anomalous[self.judged_rows] = self.overturned & ~scores[self.judged_rows].isnan()
        overturned = float(self.overturned.sum())
        return replace(decided, scores=scores, anomalous=anomalous).with_metrics(
            appeals=float(len(self.judged_rows)),
            appeals_asked=float(self.questions),
            appeals_unanswered=float(self.unjudged),
            overturned=overturned,
            overturned_share=overturned / len(self.judged_rows) if len(self.judged_rows) else math.nan,
            anomalous=float(anomalous.sum()),
        )


class Appeals(Holder[AppealsConfig]):
    """Asks a second verifier about a few rows, and curates the batch again with its verdicts as trusted.

    The inner curator scores the batch in a trial. Up to `budget` distinct responses that are not trusted yet go to
    `Rollouts.second_rewards`, in the order of the chooser that `choose` names (`geoalign.curators.choosers`). A verdict
    holds for identical responses of the group: their rewards become the second verifier's, and they `trusted`; the
    inner curator then decides on this batch, and learns from it. A verdict of None or NaN changes nothing, and is
    counted. If the chooser goes by scores and no row has one, none is chosen.

    Before any is chosen, `random_share` of the budget is drawn at random among the rows that have a reward and are not
    trusted: `random_share` times `budget` rows, rounded, a half up, and at least one. They are asked about first, and
    of the verdicts on them the verifier's error rates are made, window by window, with an alarm where one rises
    (`RandomChecks`). Chosen rows never enter a rate. With a `random_share` of 0 none is drawn, nor with a budget of 1
    and a share below a half: then the one question is chosen.

    An inner curator that reads no trusted rows, as `grpo`, is allowed with a chooser that needs no scores. Then a
    verdict counts as the chooser says (`Chooser.settled`): for all rows of the group with an equal answer.

    In a training a second verifier that fails leaves its questions unanswered (`SecondVerifierGuard`).

    `scores` of rows that were asked about are the trial's; anomalous are those with a score whose verdict differs
    from the reward. With an inner curator that scores no row none is.

    Needs `second_rewards` and what the inner curator and the chooser need; heeds `response_keys`.

    Args:
        config: its settings, or the curator alone, one that reads `trusted`; as a keyword, `curator`: as `Holder` says.

    Raises:
        ConfigError: the chooser goes by scores, and the inner curator makes no use of trusted rows, or scores none; or
            `enough` is set for a chooser that does not stop.
    """

    headline = ("appeals", "overturned")
    kept = ("chooser", "random_checks", "seen_verdicts")

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
        self._draws = drawn_of(self.config.budget, self.config.random_share)
        self._seen_verdicts = SeenVerdicts()
        self._random_checks = RandomChecks(self.config.check_window)
        self._guard = SecondVerifierGuard()

    def curate(self, rollouts: Rollouts, *, generator: Generator | None = None, details: bool = False) -> Curation:
        """Tries, asks, and decides; the random rows, the chooser and the decision draw from `generator`, in this order.
        The trial draws from another."""
        rollouts.require("second_rewards", by="Appeals")
        assert rollouts.second_rewards is not None
        if not len(rollouts):
            return identity(rollouts)
        generator = self.drawing_from(generator)
        guarded = replace(rollouts, second_rewards=self._guard.of(rollouts.second_rewards))
        hearing = self.hear(guarded, generator=generator)
        curation = hearing.onto(self._decision(hearing, generator, details=details))
        self._seen_verdicts.learn(hearing.observed, trusted_rewards(hearing.rollouts))
        if not self._draws:
            return curation
        checked = self._checked(rollouts, hearing)
        alarms = curation.metrics.get("alarms", 0.0) + checked["alarms"]
        return curation.with_metrics(**{**checked, "alarms": alarms})

    def hear(self, rollouts: Rollouts, *, generator: Generator | None = None) -> Hearing:
        """Tries and asks; the inner curator learns nothing of it, and no rate counts it.

        Args:
            generator: of the rows drawn at random, and of choosers that draw.

        Raises:
            InputError: the second verifier returns anything but a number or None for each row that it is asked about.
        """
        rollouts.require(*self._chooser.requires, "second_rewards", by="Appeals")
        generator = self.drawing_from(generator)
        self._chooser.begin()
        trial = self._trial(rollouts)
        inquiry = Inquiry(rollouts)
        drawn = draw_rows(rollouts, self._draws, generator) if self._draws else []
        inquiry.ask(questions_about(drawn, rollouts, among=rows_to_ask_about(rollouts)), self._seen_verdicts)
        self._ask_about_chosen_rows(inquiry, trial.scores, generator)
        self._guard.warn_of_unread(inquiry.unread)
        judged_rows = torch.tensor(inquiry.judged_rows, dtype=torch.long, device=rollouts.rewards.device)
        judged = set(inquiry.judged_rows)
        return Hearing(
            rollouts=inquiry.rollouts,
            judged_rows=judged_rows,
            overturned=differing(rollouts.rewards[judged_rows], inquiry.rollouts.rewards[judged_rows]),
            drawn_rows=[row for row in drawn if row in judged],
            trial=trial,
            questions=inquiry.questions,
            unjudged=inquiry.unjudged,
            observed=inquiry.observed,
        )

    def _trial(self, rollouts: Rollouts) -> Curation:
        """The inner curator's curation of the batch before any verdict; it learns and warns of nothing."""
        if not self._inner_reads_trusted:
            return identity(rollouts)
        with on_trial():
            return deepcopy(self._inner).curate(rollouts, generator=Generator().manual_seed(0))

    def _ask_about_chosen_rows(self, inquiry: Inquiry, scores: Float[Tensor, " b"], generator: Generator) -> None:
        """Asks as the chooser says, in one round or in several, until the budget is used up or it names no row."""
        while inquiry.questions < self.config.budget:
            candidates = self._candidates(
                inquiry.rollouts, scores, rows_in_vain=inquiry.rows_in_vain, observed=inquiry.observed
            )
            in_order = self._chooser.next_rows(candidates, generator)
            questions = questions_about(in_order, inquiry.rollouts, among=candidates.rows)
            affordable = questions[: self.config.budget - inquiry.questions]
            if not affordable:
                break
            inquiry.ask(affordable, self._seen_verdicts)
            if not self._chooser.in_rounds:
                break

    def _checked(self, rollouts: Rollouts, hearing: Hearing) -> dict[str, float]:
        """Counts the verdicts on drawn rows, and says what the random checks of the training tell so far."""
        verdicts = hearing.rollouts.rewards[hearing.drawn_rows].tolist()
        self._random_checks.seen_verdicts.says_truths = self._seen_verdicts.says_truths
        self._random_checks.add(rollouts, hearing.drawn_rows, verdicts)
        return self._random_checks.metrics(len(hearing.drawn_rows))

    def _decision(self, hearing: Hearing, generator: Generator, *, details: bool) -> Curation:
        """The inner curator's curation of the batch with its verdicts; the chooser learns from them."""
        heard = self._candidates(hearing.rollouts, hearing.trial.scores, rows_in_vain=set(), observed=hearing.observed)
        if self._inner_reads_trusted:
            self._chooser.learn(heard, generator)
            return self._inner.curate(hearing.rollouts, generator=generator, details=details)
        # Before the chooser learns: what it makes of verdicts is what it held of the batch when it asked.
        rewards, weights = self._chooser.settled(heard, generator)
        self._chooser.learn(heard, generator)
        settled = replace(hearing.rollouts, rewards=rewards.to(hearing.rollouts.rewards))
        decided = self._inner.curate(settled, generator=generator, details=details)
        return replace(decided, weights=decided.weights * weights.to(decided.weights)[decided.source])

    def _candidates(
        self,
        rollouts: Rollouts,
        scores: Float[Tensor, " b"],
        *,
        rows_in_vain: set[int],
        observed: Float[Tensor, " b"],
    ) -> Candidates:
        """What the chooser sees.

        Args:
            rows_in_vain: no more is asked about these rows, which were asked about in vain.
            observed: [B] the rewards before any verdict, by which the values of verdicts are told in every round alike.
        """
        groups = rollouts.groups.tolist()
        answers: list[GroupAnswer] = list(responses_of(rollouts))
        answered = [False] * len(groups)
        if rollouts.answers is not None and "answers" in self.reads:
            for row, answer in enumerate(rollouts.answers):
                if answer is not None:
                    answers[row] = (groups[row], answer)
                    answered[row] = True
        scores = scores.cpu()
        has_no_score = scores.isnan().tolist()
        rows = [
            row
            for row in rows_to_ask_about(rollouts)
            if row not in rows_in_vain and not (self._chooser.needs_scores and has_no_score[row])
        ]
        rewards = rollouts.rewards.cpu()
        has_no_reward = rewards.isnan().tolist()
        return Candidates(
            rollouts=rollouts,
            in_order=[row for row in tie_order(rollouts).tolist() if not has_no_reward[row]],
            rows=rows,
            answers=answers,
            answered=answered,
            in_vain={answers[row] for row in rows_in_vain},
            rewards=rewards,
            trusted=trusted_mask(rollouts).cpu(),
            scores=scores,
            log_odds=self._inner.log_odds,
            verdict_values=self._seen_verdicts.values(observed, trusted_rewards(rollouts)),
            says_truths=self._seen_verdicts.says_truths,
            shared_groups=frozenset(groups) if self.answer_reading == "shared" else groups_sharing_answers(rollouts),
        )


def drawn_of(budget: int, share: float) -> int:
    """How many questions of a budget are drawn at random: this share of them, a half rounded up.

    Of two or more at least one, unless the share is 0.
    """
    rounded = math.floor(share * budget + 0.5)
    at_least = 1 if share > 0 and budget > 1 else 0
    return max(at_least, rounded)


def trusted_rewards(rollouts: Rollouts) -> Float[Tensor, " m"]:
    """[M] the rewards of the rows that are trusted."""
    return rollouts.rewards[trusted_mask(rollouts)]


def differing(rewards: Float[Tensor, " a"], verdicts: Float[Tensor, " a"]) -> Bool[Tensor, " a"]:
    """[A] where a verdict is another than the reward: further from it than rounding takes it (`tied_rewards`)."""
    row = torch.arange(len(rewards), device=rewards.device)
    tied = tied_rewards(torch.cat([rewards, verdicts]), torch.cat([row, row]))
    return tied[: len(rewards)] != tied[len(rewards) :]


class Inquiry:
    """A batch while a second verifier is asked about its rows.

    Attributes:
        rollouts: the batch with the verdicts so far, as rewards that are trusted.
        judged_rows: the rows that have a verdict.
        rows_in_vain: those that were asked about in vain.
        questions: how many distinct responses were asked about.
        unjudged: how many of them got no verdict.
        unread: how many of these were answered by a truth value that no reward stands for.
        observed: [B] the rewards before any verdict; NaN where a row was trusted already.
    """

    def __init__(self, rollouts: Rollouts) -> None:
        self.rollouts = rollouts
        self.observed = observed_rewards(rollouts)
        self.judged_rows: list[int] = []
        self.rows_in_vain: set[int] = set()
        self.questions = 0
        self.unjudged = 0
        self.unread = 0

    def ask(self, questions: Sequence[Question], seen_verdicts: SeenVerdicts) -> None:
        """Asks all questions in one call; `seen_verdicts` tells what truth values stand for."""
        verdicts = ask(questions, self.rollouts, seen_verdicts, self.observed)
        self.questions += len(questions)
        self.unjudged += verdicts.missing
        self.unread += verdicts.unread
        self.judged_rows += verdicts.rows
        asked_rows = {row for question in questions for row in question}
        self.rows_in_vain |= asked_rows.difference(verdicts.rows)
        rewards = self.rollouts.rewards
        index = torch.tensor(verdicts.rows, dtype=torch.long, device=rewards.device)
        judged_rewards = torch.tensor(verdicts.values, dtype=torch.float64).to(rewards)
        trusted = trusted_mask(self.rollouts).clone()
        trusted[index] = True
        self.rollouts = replace(self.rollouts, rewards=rewards.index_copy(0, index, judged_rewards), trusted=trusted)
