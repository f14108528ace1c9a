"""A batch while a second verifier is asked about its rows: what may be asked, and what is known of its answers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.curators.verdict_values import VerdictValues
from geoalign.method.ties import tied_rewards
from geoalign.noise.trusted import truth_by_answer
from geoalign.types import Rollouts

# A group, and an answer that its rows give.
GroupAnswer = tuple[int, Hashable]


@dataclass(frozen=True, eq=False)
class Candidates:
    """A batch of B rows as a chooser sees it, with the verdicts that it has so far.

    Attributes:
        rollouts: the batch; a row with a verdict has it as its reward, and is `trusted`.
        in_order: the rows with a reward, in an order that does not depend on the batch's.
        rows: those of them that may be asked about: without a verdict, not asked in vain, and with a score where the
            chooser needs one.
        answers: B final answers, each with its group. Where a response gives none, its own key stands in, so that
            identical responses share one.
        answered: B times whether the response gives an answer.
        in_vain: the answers of which a row was asked about and got no verdict.
        rewards: [B] on the CPU, as in `rollouts`.
        trusted: [B] on the CPU.
        scores: [B] the inner curator's scores on the CPU, NaN where it gives none.
        log_odds: whether these are log-odds that a reward is wrong.
        verdict_values: the two values of the verdicts; None where rewards are no verdicts, or the values are not known.
        says_truths: the second verifier says true and false, so that rows keep a bonus that is in their rewards.
        shared_groups: the groups whose answers do not exclude each other: several may be right.
    """

    rollouts: Rollouts
    in_order: list[int]
    rows: list[int]
    answers: list[GroupAnswer]
    answered: list[bool]
    in_vain: set[GroupAnswer]
    rewards: Float[Tensor, " b"]
    trusted: Tensor
    scores: Float[Tensor, " b"]
    log_odds: bool
    verdict_values: VerdictValues | None
    says_truths: bool
    shared_groups: frozenset[int] = frozenset()

    @property
    def trusted_rows(self) -> list[int]:
        """The rows whose reward is known to be right, in the order of `in_order`."""
        trusted = self.trusted.tolist()
        return [row for row in self.in_order if trusted[row]]

    @cached_property
    def counts(self) -> Counter[GroupAnswer]:
        """How many rows with a reward give each answer."""
        return Counter(self.answers[row] for row in self.in_order)

    @cached_property
    def sizes(self) -> Counter[int]:
        """How many rows with a reward each group has: so many enter its advantages."""
        return Counter(self.answers[row][0] for row in self.in_order)

    def spokesmen(self, rows: Iterable[int]) -> dict[GroupAnswer, int]:
        """For each answer that these rows give the first of them, which is asked about for all."""
        first: dict[GroupAnswer, int] = {}
        for row in rows:
            first.setdefault(self.answers[row], row)
        return first

    @cached_property
    def says_right(self) -> list[bool]:
        """B times whether the reward says that the answer is right: it lies above the middle of `verdict_values`.

        Without these values the highest reward of the batch says so, unless all are equal.
        """
        if self.verdict_values is not None:
            return self.verdict_values.accepts(self.rewards).tolist()
        levels = tied_rewards(self.rewards, torch.zeros_like(self.rewards, dtype=torch.long))
        scored = levels[~levels.isnan()]
        if not len(scored) or float(scored.max()) == float(scored.min()):
            return [False] * len(levels)
        return (levels == scored.max()).tolist()

    @cached_property
    def known_answers(self) -> dict[GroupAnswer, bool]:
        """Whether an answer is right, of each that has a trusted row with a reward, by `truth_by_answer`."""
        answers = list(dict.fromkeys(self.answers))
        numbers = {answer: number for number, answer in enumerate(answers)}
        truth = truth_by_answer(
            self.trusted & ~self.rewards.isnan(),
            torch.tensor(self.says_right, dtype=torch.double),
            torch.tensor([numbers[answer] for answer in self.answers], dtype=torch.long),
        )
        return {answer: said == 1 for answer, said in zip(answers, truth.tolist(), strict=True) if not math.isnan(said)}

    @cached_property
    def known_rewards(self) -> dict[GroupAnswer, float]:
        """The reward of each of the `known_answers`: the lowest that a trusted row has which agrees with the truth."""
        truth = self.known_answers
        rewards: dict[GroupAnswer, list[float]] = defaultdict(list)
        for row in self.trusted_rows:
            answer = self.answers[row]
            if self.says_right[row] == truth.get(answer):
                rewards[answer].append(float(self.rewards[row]))
        return {answer: min(given) for answer, given in rewards.items()}

    @cached_property
    def solved_groups(self) -> set[int]:
        """The groups whose right answer is known, so that all their other answers are wrong.

        A response that is right but gives no answer says nothing of the others.
        """
        final_answers = {answer for answer, answered in zip(self.answers, self.answered, strict=True) if answered}
        right = {answer for answer, is_right in self.known_answers.items() if is_right}
        return {group for group, _ in right & final_answers} - self.shared_groups

    def settled_reward(self, row: int) -> float:
        """The reward of a row by what is known of its answer, or of the right answer of its group; else its own.

        With truth values each row keeps its own where it says so already (`VerdictValues.reward_of`); else an answer
        has one reward (`known_rewards`), and one that the right answer excludes has the lowest (`lowest_reward`).
        """
        answer = self.answers[row]
        own = float(self.rewards[row])
        is_right = self.known_answers.get(answer)
        is_excluded = is_right is None and answer[0] in self.solved_groups
        if is_right is None and not is_excluded:
            return own
        if self.says_truths and self.verdict_values is not None:
            return self.verdict_values.reward_of(bool(is_right), own)
        return self.lowest_reward if is_excluded else self.known_rewards.get(answer, own)

    @cached_property
    def lowest_reward(self) -> float:
        """What a wrong answer gets: the low verdict without a bonus, else the lowest reward; NaN without any reward."""
        scored = self.rewards[~self.rewards.isnan()]
        if not len(scored):
            return torch.nan
        if self.verdict_values is not None:
            return self.verdict_values.lowest(scored)
        return float(scored.min())

    def answers_by_frequency(self) -> dict[int, list[GroupAnswer]]:
        """The answers of each group, the most frequent first; of equally frequent ones that of an earlier row first.

        Responses without an answer, and rows without a reward, count for none.
        """
        counts = Counter(self.answers[row] for row in self.in_order if self.answered[row])
        by_group: dict[int, list[GroupAnswer]] = defaultdict(list)
        for answer, _ in counts.most_common():
            by_group[answer[0]].append(answer)
        return by_group


def groups_sharing_answers(rollouts: Rollouts) -> frozenset[int]:
    """The groups of which a row says that their answers do not exclude each other (`Rollouts.shared_answers`)."""
    if rollouts.shared_answers is None:
        return frozenset()
    return frozenset(rollouts.groups[rollouts.shared_answers].tolist())
