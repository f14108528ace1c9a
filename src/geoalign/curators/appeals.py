"""Appeals: a second, costlier verifier judges the most informative rows; its verdicts are trusted from then on."""

from __future__ import annotations

import math
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
from geoalign.curators.registry import CuratorSection, default_curator
from geoalign.errors import ConfigError, InputError
from geoalign.noise.rows import two_values
from geoalign.settings import Count, setting, settings
from geoalign.types import Curation, Rollouts


@settings
class AppealsConfig:
    """The settings of `Appeals`; in YAML `curator` is a section of its own, with its `type`."""

    type: ClassVar[str] = "appeals"

    curator: CuratorSection = setting(
        default_factory=lambda: default_curator("denoise"), help="Scores the rows, and learns from the verdicts."
    )
    budget: Count = setting(default=16, help="Responses of a batch that the second verifier may be asked about.")


@dataclass(frozen=True, eq=False)
class Hearing:
    """What came of asking the second verifier about A rows of a batch.

    Attributes:
        rollouts: the batch with the verdicts as trusted rewards.
        asked_rows: [A] the rows that have a verdict.
        overturned: [A] where the verdict is another than the reward.
        trial: the inner curator's curation of the batch before any verdict.
        unanswered: how many questions had no answer.
    """

    rollouts: Rollouts
    asked_rows: Int[Tensor, " a"]
    overturned: Bool[Tensor, " a"]
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
    score, none is asked about.

    `scores` of rows that were asked about are the trial's; anomalous are those whose verdict differs from the reward.

    Needs `second_rewards` and what the inner curator needs; heeds `response_keys`.

    Args:
        config: its settings, or the curator alone, one that reads `trusted`; as a keyword, `curator`: as `Holder` says.

    Raises:
        ConfigError: the inner curator makes no use of trusted rows, or scores none.
        InputError: the second verifier returns another number of verdicts than it was asked for.
    """

    headline = ("appeals", "overturned")

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

    def curate(self, rollouts: Rollouts, *, generator: Generator | None = None, details: bool = False) -> Curation:
        """Tries, asks, and decides; only the decision draws from `generator`."""
        if not len(rollouts):
            rollouts.require("second_rewards", by="Appeals")
            return identity(rollouts)
        hearing = self.hear(rollouts)
        return hearing.onto(self._inner.curate(hearing.rollouts, generator=generator, details=details))

    def hear(self, rollouts: Rollouts) -> Hearing:
        """Tries and asks; the inner curator learns nothing of it."""
        rollouts.require("second_rewards", by="Appeals")
        trial = deepcopy(self._inner).curate(rollouts, generator=Generator().manual_seed(0))
        asked, verdicts, unanswered = self._verdicts(rollouts, trial.scores)
        rows = torch.tensor(asked, dtype=torch.long, device=rollouts.rewards.device)
        new_rewards = torch.tensor(verdicts, dtype=torch.float64).to(rollouts.rewards)
        rewards = rollouts.rewards.index_copy(0, rows, new_rewards)
        trusted = torch.zeros_like(rewards, dtype=torch.bool) if rollouts.trusted is None else rollouts.trusted.clone()
        trusted[rows] = True
        return Hearing(
            rollouts=replace(rollouts, rewards=rewards, trusted=trusted),
            asked_rows=rows,
            overturned=rewards[rows] != rollouts.rewards[rows],
            trial=trial,
            unanswered=unanswered,
        )

    def _verdicts(self, rollouts: Rollouts, scores: Float[Tensor, " b"]) -> tuple[list[int], list[float], int]:
        """The rows with a verdict, the verdicts, and how many questions had no answer."""
        assert rollouts.second_rewards is not None
        questions = self._questions(rollouts, scores.cpu())
        answers = rollouts.second_rewards([rows[0] for rows in questions]) if questions else []
        if len(answers) != len(questions):
            raise InputError(f"second_rewards: expected {len(questions)} verdicts, got {len(answers)}")
        asked: list[int] = []
        verdicts: list[float] = []
        unanswered = 0
        for rows, answer in zip(questions, answers, strict=True):
            if answer is None or math.isnan(answer):
                unanswered += 1
                continue
            asked += rows
            verdicts += [float(answer)] * len(rows)
        return asked, verdicts, unanswered

    def _questions(self, rollouts: Rollouts, scores: Float[Tensor, " b"]) -> list[list[int]]:
        """The rows to ask about, the most informative first.

        Each question is a list of the rows of a group that hold one response; it is asked about the first of them.
        First comes the most informative row of every answer that has no trusted row yet.
        """
        groups = rollouts.groups.tolist()
        keys = range(len(groups)) if rollouts.response_keys is None else rollouts.response_keys.tolist()
        response_of = list(zip(groups, keys, strict=True))
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
            elif len(questions) < self.config.budget:
                questions[response] = [row]
        return list(questions.values())
