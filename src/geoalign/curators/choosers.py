"""Which rows a second verifier is asked about: choosers, by name, order the rows of a batch."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from geoalign.noise.rows import two_values
from geoalign.types import Rollouts


@dataclass(frozen=True, eq=False)
class Candidates:
    """A batch of B rows as a chooser sees it, with the verdicts that it has so far.

    Attributes:
        rollouts: the batch; a row with a verdict has it as its reward, and is `trusted`.
        rows: the rows that may be asked about, in an order that does not depend on the batch's.
        answers: B final answers, each with its group; a response stands in for the answer that it does not give.
        answered: B times whether the response gives an answer.
        rewards: [B] on the CPU, as in `rollouts`.
        trusted: [B] on the CPU.
        scores: [B] the inner curator's scores on the CPU, NaN where it gives none.
        log_odds: whether these are log-odds that a reward is wrong.
    """

    rollouts: Rollouts
    rows: list[int]
    answers: list[tuple[int, Hashable]]
    answered: list[bool]
    rewards: Float[Tensor, " b"]
    trusted: Tensor
    scores: Float[Tensor, " b"]
    log_odds: bool

    def verdicts(self) -> dict[tuple[int, Hashable], bool]:
        """Whether an answer is right, of each that has a trusted row: its reward is the highest of the batch.

        Where all rewards of the batch are equal none is right.
        """
        scored = self.rewards[~self.rewards.isnan()]
        if not len(scored):
            return {}
        highest = float(scored.max())
        lowest = float(scored.min())
        right: dict[tuple[int, Hashable], bool] = {}
        for row in self.trusted.nonzero()[:, 0].tolist():
            right[self.answers[row]] = highest > lowest and float(self.rewards[row]) == highest
        return right

    def solved_groups(self) -> set[int]:
        """The groups of which a trusted row is right."""
        return {group for (group, _), right in self.verdicts().items() if right}

    def answers_by_frequency(self) -> dict[int, list[tuple[int, Hashable]]]:
        """The answers of each group, the most frequent first; of equally frequent ones that of an earlier row first.

        Responses without an answer, and rows without a reward, count for none.
        """
        counts: Counter[tuple[int, Hashable]] = Counter()
        for row in self.rows_in_order():
            if self.answered[row]:
                counts[self.answers[row]] += 1
        by_group: dict[int, list[tuple[int, Hashable]]] = defaultdict(list)
        for answer, _ in counts.most_common():
            by_group[answer[0]].append(answer)
        return by_group

    def rows_in_order(self) -> list[int]:
        """The rows that may be asked about, and then those that are trusted."""
        return [*self.rows, *self.trusted.nonzero()[:, 0].tolist()]


class Chooser:
    """Says which rows to ask about next, and what a verdict is worth where the inner curator makes nothing of it.

    Attributes:
        needs_scores: whether it goes by the inner curator's scores, and asks about no row without one.
        requires: the fields of a batch that it cannot do without.
        acts_on: what `settled` may change.
    """

    needs_scores: ClassVar[bool] = False
    requires: ClassVar[tuple[str, ...]] = ()
    acts_on: ClassVar[tuple[str, ...]] = ("rewards",)

    def next_rows(self, candidates: Candidates, generator: Generator) -> list[int]:
        """Rows to ask about now, in their order; it is called again with their verdicts while the budget lasts."""
        raise NotImplementedError

    def learn(self, candidates: Candidates, generator: Generator) -> None:
        """Learns from the verdicts of a batch, when the last is in; most have nothing to learn."""

    def settled(self, candidates: Candidates) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
        """[B] rewards, and [B] factors on the advantages, for an inner curator that reads no trusted rows.

        A verdict counts for all rows of the group with an equal answer; of a group in which one answer is found to be
        right, all others are wrong, and get the lowest reward of the batch.
        """
        right = candidates.verdicts()
        solved = candidates.solved_groups()
        value = {candidates.answers[row]: candidates.rewards[row] for row in candidates.trusted.nonzero()[:, 0].tolist()}
        rewards = candidates.rewards.clone()
        lowest = rewards[~rewards.isnan()].min() if len(right) else torch.nan
        for row, answer in enumerate(candidates.answers):
            if rewards[row].isnan():
                continue
            if answer in value:
                rewards[row] = value[answer]
            elif answer[0] in solved:
                rewards[row] = lowest
        return rewards, torch.ones_like(rewards)

    def state_dict(self) -> dict[str, Any]:
        """What another process needs to go on."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes what `state_dict` returned."""


class Informative(Chooser):
    """The rows whose truth says most: n p (1 - p), one row of each answer first.

    n rows of the group have the answer, and p is the probability that the reward is wrong; where scores are no log-odds
    or rewards have more than two values, by score alone. First comes the most informative row of every answer that has
    no trusted row yet.
    """

    needs_scores = True

    def next_rows(self, candidates: Candidates, generator: Generator) -> list[int]:
        worth = candidates.scores
        of_candidates = torch.tensor(candidates.rows, dtype=torch.long)
        if candidates.log_odds and two_values(candidates.rewards[of_candidates]):
            # n p (1 - p).
            rows_of_answer = Counter(candidates.answers)
            n = torch.tensor([rows_of_answer[answer] for answer in candidates.answers])
            worth = worth.sigmoid() * (-worth).sigmoid() * n
        descending = worth[of_candidates].argsort(descending=True, stable=True)
        rows = of_candidates[descending].tolist()
        # The row that speaks for each answer: a trusted one, else the most informative.
        spokesman: dict[tuple[int, Hashable], int] = {}
        for row in [*candidates.trusted.nonzero()[:, 0].tolist(), *rows]:
            spokesman.setdefault(candidates.answers[row], row)
        first = [row for row in rows if spokesman[candidates.answers[row]] == row]
        others = [row for row in rows if spokesman[candidates.answers[row]] != row]
        return [*first, *others]


class MajorityAnswers(Chooser):
    """One row of each group's most frequent answer; where that is refuted, in the next round of the next frequent one.

    In a round the groups come by the share k of their rows that give this answer, those whose k (1 - k) is largest
    first: that is where the verdict decides most of the group's advantages. Groups of which an answer was found to be
    right are done. Responses without an answer are never asked about.
    """

    def next_rows(self, candidates: Candidates, generator: Generator) -> list[int]:
        right = candidates.verdicts()
        solved = candidates.solved_groups()
        spokesman: dict[tuple[int, Hashable], int] = {}
        for row in candidates.rows:
            spokesman.setdefault(candidates.answers[row], row)
        counts = Counter(candidates.answers)
        sizes = Counter(group for group, _ in candidates.answers)
        open_answers: list[tuple[int, Hashable]] = []
        for group, answers in candidates.answers_by_frequency().items():
            unknown = [answer for answer in answers if answer not in right and answer in spokesman]
            if group not in solved and unknown:
                open_answers.append(unknown[0])
        share = {answer: counts[answer] / sizes[answer[0]] for answer in open_answers}
        order = {row: place for place, row in enumerate(candidates.rows)}
        rows = sorted((spokesman[answer] for answer in open_answers), key=order.__getitem__)
        return sorted(rows, key=lambda row: -share[candidates.answers[row]] * (1 - share[candidates.answers[row]]))


class Negatives(Chooser):
    """Rows that the verifier refused, those with the lowest reward of the batch, at random (after arXiv 2510.00915).

    The paper has a second verifier recheck what a rule refused, for the share of refusals that are wrong, and corrects
    advantages by that share (`noise_corrected`). Here a budget bounds the rechecks, and each verdict counts itself.
    """

    def next_rows(self, candidates: Candidates, generator: Generator) -> list[int]:
        scored = candidates.rewards[~candidates.rewards.isnan()]
        lowest = float(scored.min()) if len(scored) else 0.0
        if lowest > 0 and lowest == float(scored.max()):
            return []  # all are accepted
        return shuffled([row for row in candidates.rows if float(candidates.rewards[row]) == lowest], generator)


class RandomRows(Chooser):
    """Rows at random, so that a response that was given often is asked about more often than a rare one."""

    def next_rows(self, candidates: Candidates, generator: Generator) -> list[int]:
        return shuffled(candidates.rows, generator)


def shuffled(rows: list[int], generator: Generator) -> list[int]:
    """The rows in an order that is drawn from `generator`."""
    return [rows[place] for place in torch.randperm(len(rows), generator=generator).tolist()]


def _care() -> Chooser:
    from geoalign.curators.care import Care

    return Care()


CHOOSERS: dict[str, Callable[[], Chooser]] = {
    "informative": Informative,
    "majority": MajorityAnswers,
    "negatives": Negatives,
    "random": RandomRows,
    "care": _care,
}
"""What makes a chooser, by name: `Appeals(choose=...)`."""
