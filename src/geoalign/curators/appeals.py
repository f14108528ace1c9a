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
    """What came of asking: the batch with the verdicts as trusted rewards, the rows `asked` that have one, which of
    these it `overturned`, the trial, and how many questions had no answer."""

    rollouts: Rollouts
    asked: Int[Tensor, " a"]
    overturned: Bool[Tensor, " a"]
    trial: Curation
    unanswered: int

    def onto(self, decided: Curation) -> Curation:
        """The decision on the batch, with the trial's scores where was asked, and what was overturned as anomalous."""
        scores, anomalous = decided.scores.clone(), decided.anomalous.clone()
        scores[self.asked] = self.trial.scores[self.asked].to(scores)
        anomalous[self.asked] = self.overturned
        return replace(decided, scores=scores, anomalous=anomalous).with_metrics(
            appeals=float(len(self.asked)),
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
        read = dict.fromkeys((*self._inner.optional, "response_keys"))
        self.optional = tuple(name for name in read if name not in self.requires)
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
        rewards = rollouts.rewards.index_copy(0, rows, torch.tensor(verdicts, dtype=torch.float64).to(rollouts.rewards))
        trusted = torch.zeros_like(rewards, dtype=torch.bool) if rollouts.trusted is None else rollouts.trusted.clone()
        trusted[rows] = True
        known = replace(rollouts, rewards=rewards, trusted=trusted)
        return Hearing(known, rows, rewards[rows] != rollouts.rewards[rows], trial, unanswered)

    def _verdicts(self, rollouts: Rollouts, scores: Float[Tensor, " b"]) -> tuple[list[int], list[float], int]:
        """The rows with a verdict, the verdicts, and how many questions had no answer."""
        assert rollouts.second_rewards is not None
        alike = self._questions(rollouts, scores.cpu())
        answers = rollouts.second_rewards([rows[0] for rows in alike]) if alike else []
        if len(answers) != len(alike):
            raise InputError(f"second_rewards: expected {len(alike)} verdicts, got {len(answers)}")
        given = [
            (rows, float(answer))
            for rows, answer in zip(alike, answers, strict=True)
            if answer is not None and not math.isnan(answer)
        ]
        asked = [row for rows, _ in given for row in rows]
        return asked, [verdict for rows, verdict in given for _ in rows], len(alike) - len(given)

    def _questions(self, rollouts: Rollouts, scores: Float[Tensor, " b"]) -> list[list[int]]:
        """The rows to ask about, the most informative first, each with the rows of its group of the same response."""
        keys, groups = rollouts.response_keys, rollouts.groups.tolist()
        trusted = torch.zeros(len(groups)).bool() if rollouts.trusted is None else rollouts.trusted.cpu()
        open_rows = ~(scores.isnan() | rollouts.rewards.cpu().isnan() | trusted)
        answers = (rollouts.answers if "answers" in self.optional else None) or [None] * len(groups)
        response = list(zip(groups, range(len(groups)) if keys is None else keys.tolist(), strict=True))
        answer = [each if said is None else (each[0], said) for each, said in zip(response, answers, strict=True)]
        if self._inner.log_odds and two_values(rollouts.rewards.cpu()[open_rows]):
            scores = scores.sigmoid() * (-scores).sigmoid() * torch.tensor([*map(Counter(answer).get, answer)])
        first = tie_order(rollouts)
        first = first[open_rows[first]]
        rows = first[scores[first].argsort(descending=True, stable=True)].tolist()
        ahead = {answer[row]: row for row in reversed([*trusted.nonzero()[:, 0].tolist(), *rows])}
        alike: dict[tuple[int, int], list[int]] = {}
        for row in sorted(rows, key=lambda row: ahead[answer[row]] != row):
            if response[row] in alike or len(alike) < self.config.budget:
                alike.setdefault(response[row], []).append(row)
        return list(alike.values())
