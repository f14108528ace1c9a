"""Appeals: a second, costlier verifier judges the most informative rows; its verdicts are trusted from then on."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from geoalign.curators.curator import identity, tie_order
from geoalign.curators.holder import Holder
from geoalign.curators.labelled_rollouts import check_reads_trusted
from geoalign.curators.random_checks import RandomChecks, draw_rows
from geoalign.curators.registry import CuratorSection, default_curator
from geoalign.curators.second_verifier import PatientAsking, Question, ask, questions_about, responses_of
from geoalign.errors import ConfigError
from geoalign.noise.rows import two_values
from geoalign.settings import AnyShare, Count, setting, settings
from geoalign.types import Curation, Rollouts


@settings
class AppealsConfig:
    """The settings of `Appeals`; in YAML `curator` is a section of its own, with its `type`."""

    type: ClassVar[str] = "appeals"

    curator: CuratorSection = setting(
        default_factory=lambda: default_curator("denoise"), help="Scores the rows, and learns from the verdicts."
    )
    budget: Count = setting(default=16, help="Responses of a batch that the second verifier may be asked about.")
    random_share: AnyShare = setting(
        default=0.25, help="Share of the budget for rows drawn at random, which give rates."
    )
    check_window: Count = setting(default=100, help="Random checks after which both error rates get an interval.")


@dataclass(frozen=True, eq=False)
class Hearing:
    """What came of asking the second verifier about A rows of a batch.

    Attributes:
        rollouts: the batch with the verdicts as trusted rewards.
        asked_rows: [A] the rows that have a verdict.
        overturned: [A] where the verdict is another than the reward.
        drawn_rows: those of them that were drawn at random.
        trial: the inner curator's curation of the batch before any verdict.
        unanswered: how many questions had no answer.
    """

    rollouts: Rollouts
    asked_rows: Int[Tensor, " a"]
    overturned: Bool[Tensor, " a"]
    drawn_rows: list[int]
    trial: Curation
    unanswered: int

    def onto(self, decided: Curation) -> Curation:
        """The decision on the batch; asked rows have the trial's scores, and are anomalous where overturned."""
        scores = decided.scores.clone()
        scores[self.asked_rows] = self.trial.scores[self.asked_rows].to(scores)
        anomalous = decided.anomalous.clone()
        anomalous[self.asked_rows] = self.overturned
        return replace(decided, scores=scores, anomalous=anomalous).with_metrics(
            appeals=float(len(self.asked_rows)),
            appeals_unanswered=float(self.unanswered),
            overturned=float(self.overturned.sum()),
            anomalous=float(anomalous.sum()),
        )


class Appeals(Holder[AppealsConfig]):
    """Asks a second verifier about the most informative rows, and curates the batch again with its verdicts as trusted.

    The inner curator scores the batch in a trial. Up to `budget` distinct responses that are not trusted yet go to
    `Rollouts.second_rewards`, first one row of each answer that has no trusted row. Verdicts go by n p (1 - p) where
    scores are log-odds, as those of `Denoise` are: the variance that the truth settles where n rows of the group have
    the answer and p is the probability that the reward is wrong; all else goes by score. A verdict holds for identical
    responses of the group: their rewards become the second verifier's, and they `trusted`; the inner curator then
    decides on this batch, and learns from it. A verdict of None or NaN changes nothing, and is counted. If no row has a
    score, none is chosen.

    Before any is chosen, `random_share` of the budget is drawn at random among the rows that have a reward and are not
    trusted: `random_share` times `budget` rows, rounded. They are asked about as well, and of the verdicts on them the
    verifier's error rates are made, window by window, with an alarm where one rises (`RandomChecks`). Chosen rows never
    enter a rate. With a `random_share` of 0 none is drawn.

    In a training a second verifier that fails leaves its questions unanswered (`PatientAsking`).

    `scores` of rows that were asked about are the trial's; anomalous are those whose verdict differs from the reward.

    Needs `second_rewards` and what the inner curator needs; heeds `response_keys`.

    Args:
        config: its settings, or the curator alone, one that reads `trusted`; as a keyword, `curator`: as `Holder` says.

    Raises:
        ConfigError: the inner curator makes no use of trusted rows, or scores none.
    """

    headline = ("appeals", "overturned")

    kept = ("random_checks",)

    def __init__(self, config: Any = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        check_reads_trusted(self._inner, setting="appeals")
        if not self._inner.scores_rows:
            name = type(self._inner).__name__
            raise ConfigError(f"appeals: expected a curator that scores rows, by which to ask, as denoise; got {name}")
        self.requires = (*self._inner.requires, "second_rewards")
        self.also_reads("response_keys")
        if self.acts_on is not None:
            # The rewards of rows that the second verifier overturns.
            self.acts_on = tuple(dict.fromkeys((*self.acts_on, "rewards")))
        # How many rows of a batch are drawn at random.
        self._draws = round(self.config.random_share * self.config.budget)
        self._random_checks = RandomChecks(self.config.check_window)
        self._patient = PatientAsking()

    def curate(self, rollouts: Rollouts, *, generator: Generator | None = None, details: bool = False) -> Curation:
        """Tries, asks, and decides; the random rows and the decision draw from `generator`, the trial does not."""
        rollouts.require("second_rewards", by="Appeals")
        assert rollouts.second_rewards is not None
        if not len(rollouts):
            return identity(rollouts)
        if self._draws:
            generator = self.drawing_from(generator)
        patient = replace(rollouts, second_rewards=self._patient.of(rollouts.second_rewards))
        hearing = self.hear(patient, generator=generator)
        decided = self._inner.curate(hearing.rollouts, generator=generator, details=details)
        curation = hearing.onto(decided)
        if not self._draws:
            return curation
        verdicts = hearing.rollouts.rewards[hearing.drawn_rows].tolist()
        self._random_checks.add(rollouts, hearing.drawn_rows, verdicts)
        alarms = decided.metrics.get("alarms", 0.0)
        checked = self._random_checks.metrics(len(hearing.drawn_rows))
        return curation.with_metrics(**{**checked, "alarms": alarms + checked["alarms"]})

    def hear(self, rollouts: Rollouts, *, generator: Generator | None = None) -> Hearing:
        """Tries and asks; the inner curator learns nothing of it, and no rate counts it.

        Args:
            generator: of the rows drawn at random.

        Raises:
            InputError: the second verifier returns another number of verdicts than it was asked for.
        """
        rollouts.require("second_rewards", by="Appeals")
        assert rollouts.second_rewards is not None
        drawn = draw_rows(rollouts, self._draws, self.drawing_from(generator)) if self._draws else []
        trial = deepcopy(self._inner).curate(rollouts, generator=Generator().manual_seed(0))
        questions = self._all_questions(rollouts, drawn, trial.scores.cpu())
        answers = ask(questions, rollouts.second_rewards)
        rows = torch.tensor(answers.rows, dtype=torch.long, device=rollouts.rewards.device)
        new_rewards = torch.tensor(answers.verdicts, dtype=torch.float64).to(rollouts.rewards)
        rewards = rollouts.rewards.index_copy(0, rows, new_rewards)
        trusted = torch.zeros_like(rewards, dtype=torch.bool) if rollouts.trusted is None else rollouts.trusted.clone()
        trusted[rows] = True
        answered = set(answers.rows)
        return Hearing(
            rollouts=replace(rollouts, rewards=rewards, trusted=trusted),
            asked_rows=rows,
            overturned=rewards[rows] != rollouts.rewards[rows],
            drawn_rows=[row for row in drawn if row in answered],
            trial=trial,
            unanswered=answers.unanswered,
        )

    def _all_questions(self, rollouts: Rollouts, drawn: list[int], scores: Float[Tensor, " b"]) -> list[Question]:
        """The questions about the drawn rows, and about the most informative rows as far as the budget goes."""
        trusted = torch.zeros(len(rollouts)).bool() if rollouts.trusted is None else rollouts.trusted.cpu()
        if not drawn:
            return self._questions(rollouts, scores, budget=self.config.budget)
        responses = responses_of(rollouts)
        of_drawn = {responses[row] for row in drawn}
        may_ask = (~rollouts.rewards.isnan().cpu() & ~trusted).tolist()
        identical = [row for row in tie_order(rollouts).tolist() if may_ask[row] and responses[row] in of_drawn]
        at_random = questions_about(identical, rollouts)
        # Their truth will be known, as that of trusted rows is.
        trusted = trusted.index_fill(0, torch.tensor(identical), True)
        known = replace(rollouts, trusted=trusted.to(rollouts.rewards.device))
        chosen = self._questions(known, scores, budget=self.config.budget - len(at_random))
        return [*at_random, *chosen]

    def _questions(self, rollouts: Rollouts, scores: Float[Tensor, " b"], *, budget: int) -> list[Question]:
        """The rows to ask about, the most informative first.

        Each question is a list of the rows of a group that hold one response; it is asked about the first of them.
        First comes the most informative row of every answer that has no trusted row yet.
        """
        groups = rollouts.groups.tolist()
        response_of = responses_of(rollouts)
        answer_of: list[tuple[int, Any]] = list(response_of)
        if rollouts.answers is not None and "answers" in self.optional:
            for row, answer in enumerate(rollouts.answers):
                if answer is not None:
                    answer_of[row] = (groups[row], answer)
        trusted = torch.zeros(len(groups)).bool() if rollouts.trusted is None else rollouts.trusted.cpu()
        rewards = rollouts.rewards.cpu()
        may_ask = ~(scores.isnan() | rewards.isnan() | trusted)
        if self._inner.log_odds and two_values(rewards[may_ask]):
            # n p (1 - p).
            rows_of_answer = Counter(answer_of)
            n = torch.tensor([rows_of_answer[answer] for answer in answer_of])
            scores = scores.sigmoid() * (-scores).sigmoid() * n

        in_order = tie_order(rollouts)
        in_order = in_order[may_ask[in_order]]
        rows = in_order[scores[in_order].argsort(descending=True, stable=True)].tolist()
        # The row that speaks for each answer: a trusted one, else the most informative.
        spokesman: dict[tuple[int, Any], int] = {}
        for row in [*trusted.nonzero()[:, 0].tolist(), *rows]:
            spokesman.setdefault(answer_of[row], row)
        first = [row for row in rows if spokesman[answer_of[row]] == row]
        others = [row for row in rows if spokesman[answer_of[row]] != row]
        questions: dict[tuple[int, int], list[int]] = {}
        for row in [*first, *others]:
            response = response_of[row]
            if response in questions:
                questions[response].append(row)
            elif len(questions) < budget:
                questions[response] = [row]
        return list(questions.values())
