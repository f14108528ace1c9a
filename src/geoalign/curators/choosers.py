"""Which rows a second verifier is asked about: choosers, by name, order the rows of a batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Generator, Tensor

from geoalign.curators.candidates import Candidates, GroupAnswer
from geoalign.method.ties import tied_rewards

# Numbers that follow from scores, which are float32, are equal up to this share of them: log-odds near the largest, 30,
# are off by 2e-6, and with them the probabilities.
_ROUNDING = 1e-5


class Chooser:
    """Says which rows to ask about next, and what a verdict is worth where the inner curator makes nothing of it.

    Attributes:
        needs_scores: whether it goes by the inner curator's scores, and asks about no row without one.
        in_rounds: whether it is called again with the verdicts, while the budget lasts; else it names all rows at once.
        requires: the fields of a batch that it cannot do without.
        optional: those that it makes use of.
        acts_on: what `settled` may change.
    """

    needs_scores: ClassVar[bool] = False
    in_rounds: ClassVar[bool] = False
    requires: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()
    acts_on: ClassVar[tuple[str, ...]] = ("rewards",)

    def begin(self) -> None:
        """A new batch comes: forgets what was noted of one that ended before `learn`; most note nothing."""

    def next_rows(self, candidates: Candidates, generator: Generator) -> list[int]:
        """Rows to ask about now, in their order."""
        raise NotImplementedError

    def learn(self, candidates: Candidates, generator: Generator) -> None:
        """Learns from the verdicts of a batch, when the last is in; most have nothing to learn."""

    def settled(self, candidates: Candidates, generator: Generator) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
        """[B] rewards, and [B] factors on the advantages, for an inner curator that reads no trusted rows.

        A verdict counts for all rows of the group with an equal answer. Where answers exclude each other and one is
        found to be right, all others are wrong, and get the lowest reward (`Candidates.lowest_reward`). Trusted rows
        keep theirs.
        """
        rewards = candidates.rewards.clone()
        settled = ~(rewards.isnan() | candidates.trusted)
        for row in settled.nonzero()[:, 0].tolist():
            rewards[row] = candidates.settled_reward(row)
        return rewards, torch.ones_like(rewards)

    def state_dict(self) -> dict[str, Any]:
        """What another process needs to go on."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes what `state_dict` returned."""


class Informative(Chooser):
    """The rows whose truth says most: n p (1 - p), one row of each answer first.

    n rows of the group have the answer, and p is the probability that the reward is wrong; where scores are no log-odds
    or rewards are no verdicts, by score alone. First comes the most informative row of every answer that has no trusted
    row yet.
    """

    needs_scores = True

    def next_rows(self, candidates: Candidates, generator: Generator) -> list[int]:
        worth = candidates.scores
        if candidates.log_odds and candidates.verdict_values is not None:
            # n p (1 - p).
            n = torch.tensor([candidates.counts[answer] for answer in candidates.answers])
            worth = worth.sigmoid() * (-worth).sigmoid() * n
        descending = places_by_worth(worth[candidates.rows].tolist())
        rows = [candidates.rows[place] for place in descending]
        # A trusted row speaks for its answer, else the most informative one.
        spokesman = candidates.spokesmen([*candidates.trusted_rows, *rows])
        first = [row for row in rows if spokesman[candidates.answers[row]] == row]
        others = [row for row in rows if spokesman[candidates.answers[row]] != row]
        return [*first, *others]


class RemainingError(Informative):
    """The answers whose truth takes most from the expected squared error of the advantages.

    With q_a the probability that answer a of a group is right, at most one of them, and n_a of its N rows giving it,
    GRPO's advantages under each truth are known, and so is their expected squared distance from their mean:

        V(q) = (N - 1) (sum q - sum q^2 + (sum q b)^2 - sum q^2 b^2),   b_a = sqrt(n_a / (N - n_a))

    A check that finds a right answer leaves none of it; one that refutes a leaves V of the others, whose q grow by
    1 / (1 - q_a). Of all groups the check that takes most from the sum comes next, as if those before it had refuted.
    Then come all other rows by `Informative`, those of groups in which all give one answer among them: there a verdict
    changes no advantage, but the inner curator learns from it how often the verifier errs. `Informative` also has
    batches whose scores are no log-odds or whose rewards are no verdicts.

    Where several answers of a group may be right, each is weighed as if the others were wrong.

    Args:
        enough: no more is asked in a batch once what is left is expected to be below this share of the squared norm of
            the advantages; 0: the budget is used up. It says nothing of batches that `Informative` has.
    """

    def __init__(self, enough: float = 0.0) -> None:
        self._enough = enough

    def next_rows(self, candidates: Candidates, generator: Generator) -> list[int]:
        by_information = super().next_rows(candidates, generator)
        values = candidates.verdict_values
        if not candidates.log_odds or values is None:
            return by_information
        groups = open_answers(candidates, middle=values.middle)
        checks = [check for answers in groups for check in answers.checks()]
        checks = [checks[place] for place in places_by_worth([gain for _, gain in checks])]
        if self._enough:
            checks = self._needed(checks, groups)
        spokesman = candidates.spokesmen(by_information)
        by_gain = [spokesman[answer] for answer, _ in checks]
        if self._enough:
            return by_gain
        chosen = set(by_gain)
        return [*by_gain, *(row for row in by_information if row not in chosen)]

    def _needed(
        self, checks: list[tuple[GroupAnswer, float]], groups: list[OpenAnswers]
    ) -> list[tuple[GroupAnswer, float]]:
        """The first of these checks, each with what it takes from the error, after which little enough is left."""
        left = sum(answers.error(set()) for answers in groups)
        largest_left = self._enough * sum(answers.squared_norm() for answers in groups)
        needed = []
        for answer, gain in checks:
            if left <= largest_left:
                break
            needed.append((answer, gain))
            left -= gain
        return needed


@dataclass(frozen=True)
class OpenAnswers:
    """Answers of a group, at most one of them right, of which nothing is known.

    Attributes:
        names: the answers that may be right.
        chance_right: q of each, the probability that it is right; in all at most 1.
        root_odds: b of each: sqrt(n / (N - n)), where n of N rows give it; 0 where all rows do.
        rows: N.
    """

    names: list[GroupAnswer]
    chance_right: list[float]
    root_odds: list[float]
    rows: int

    def error(self, refuted: set[int]) -> float:
        """The expected squared error of the group's advantages that is left when these answers have been checked.

        It is V of the answers that are left (`RemainingError`), times the probability that none of the checked ones is
        right: a check that finds the right answer leaves no error.
        """
        left = [place for place in range(len(self.names)) if place not in refuted]
        none_right = 1 - sum(self.chance_right[place] for place in refuted)
        if none_right <= 1e-9:
            return 0.0
        q = [self.chance_right[place] / none_right for place in left]
        b = [self.root_odds[place] for place in left]
        # An answer that all rows give leaves no advantage, right or wrong.
        counted = [chance for chance, root in zip(q, b, strict=True) if root > 0]
        weighted = [chance * root for chance, root in zip(q, b, strict=True)]
        value = sum(counted) - sum(chance**2 for chance in counted)
        value += sum(weighted) ** 2 - sum(each**2 for each in weighted)
        return none_right * (self.rows - 1) * value

    def squared_norm(self) -> float:
        """The expected squared norm of the group's advantages: N - 1 where a right answer is not that of all rows."""
        chances = zip(self.chance_right, self.root_odds, strict=True)
        return (self.rows - 1) * sum(chance for chance, root in chances if root > 0)

    def checks(self) -> list[tuple[GroupAnswer, float]]:
        """The answers in the order in which to check them, each with what that takes from the error.

        It ends where no error is left: an answer that is certain by then is not among them.
        """
        refuted: set[int] = set()
        before = self.error(refuted)
        checks = []
        while before > 1e-9 and len(refuted) < len(self.names):
            left = {place: self.error({*refuted, place}) for place in range(len(self.names)) if place not in refuted}
            places = list(left)
            gains = [before - left[place] for place in places]
            best = places[places_by_worth(gains)[0]]
            checks.append((self.names[best], before - left[best]))
            refuted.add(best)
            before = left[best]
        return checks


def open_answers(candidates: Candidates, *, middle: float) -> list[OpenAnswers]:
    """The answers of which it is not known whether they are right, by ascending group; above `middle` is "right".

    Those of a group stand together. Where several of them may be right each stands alone.
    """
    known = candidates.known_answers
    solved = candidates.solved_groups
    chances: dict[GroupAnswer, list[float]] = defaultdict(list)
    wrong = candidates.scores.double().sigmoid()
    for row in candidates.rows:
        answer = candidates.answers[row]
        if candidates.answered[row] and answer not in known and answer[0] not in solved:
            accepted = float(candidates.rewards[row]) > middle
            chances[answer].append(1 - float(wrong[row]) if accepted else float(wrong[row]))
    by_group: dict[int, list[GroupAnswer]] = defaultdict(list)
    for answer in chances:
        by_group[answer[0]].append(answer)
    exclusive_sets = []
    for group in sorted(by_group):
        names = by_group[group]
        exclusive_sets += [[name] for name in names] if group in candidates.shared_groups else [names]
    found = []
    for names in exclusive_sets:
        group = names[0][0]
        chance = [sum(chances[name]) / len(chances[name]) for name in names]
        scale = 1 / max(1.0, sum(chance))
        size = candidates.sizes[group]
        found.append(
            OpenAnswers(
                names=names,
                chance_right=[each * scale for each in chance],
                root_odds=[_root_odds(candidates.counts[name], size) for name in names],
                rows=size,
            )
        )
    return found


def _root_odds(count: int, size: int) -> float:
    """sqrt(n / (N - n)) for n of N rows; 0 for all of them."""
    return (count / (size - count)) ** 0.5 if count < size else 0.0


class MajorityAnswers(Chooser):
    """One row of each group's most frequent answer; where that is refuted, in the next round of the next frequent one.

    In a round the groups come by the share k of their rows that give this answer, those whose k (1 - k) is largest
    first: that is where the verdict decides most of the group's advantages. A group is done once its right answer is
    found, unless several may be right. Responses without an answer are never asked about, nor is an answer of which a
    row got no verdict.
    """

    in_rounds = True
    requires = ("answers",)

    def next_rows(self, candidates: Candidates, generator: Generator) -> list[int]:
        known = candidates.known_answers
        solved = candidates.solved_groups
        spokesman = candidates.spokesmen(candidates.rows)
        decides: dict[int, float] = {}
        for group, answers in candidates.answers_by_frequency().items():
            unknown = [answer for answer in answers if answer not in known and answer not in candidates.in_vain]
            # Of an answer whose rows all have verdicts, as many for it as against it, no row is left to ask about.
            unknown = [answer for answer in unknown if answer in spokesman]
            if group in solved or not unknown:
                continue
            share = candidates.counts[unknown[0]] / candidates.sizes[group]
            decides[spokesman[unknown[0]]] = share * (1 - share)
        # Rows that decide equally much stay in the order of `rows`.
        rows = [row for row in candidates.rows if row in decides]
        return [rows[place] for place in places_by_worth([decides[row] for row in rows])]


class Negatives(Chooser):
    """Rows that the verifier refused, at random (after arXiv 2510.00915).

    They are those whose reward is nearer to the low value of verdicts. Where the values are not known they are those of
    the lowest reward among the rows that may be asked about, and none if all of these are equal and positive.

    The paper has a second verifier recheck what a rule refused, for the share of refusals that are wrong, and corrects
    advantages by that share (`noise_corrected`). Here a budget bounds the rechecks, and each verdict counts itself.
    """

    def next_rows(self, candidates: Candidates, generator: Generator) -> list[int]:
        if candidates.verdict_values is not None:
            refused = [row for row in candidates.rows if not candidates.says_right[row]]
        else:
            refused = self._lowest(candidates)
        return shuffled(refused, generator)

    def _lowest(self, candidates: Candidates) -> list[int]:
        """The rows of the lowest reward, of rewards whose values are not known."""
        rewards = candidates.rewards[candidates.rows]
        levels = tied_rewards(rewards, torch.zeros_like(rewards, dtype=torch.long)).tolist()
        if not levels or min(levels) == max(levels) > 0:
            return []  # all are accepted
        return [row for row, level in zip(candidates.rows, levels, strict=True) if level == min(levels)]


class RandomRows(Chooser):
    """Rows at random, so that a response that was given often is asked about more often than a rare one."""

    def next_rows(self, candidates: Candidates, generator: Generator) -> list[int]:
        return shuffled(candidates.rows, generator)


def places_by_worth(worth: Sequence[float]) -> list[int]:
    """The places of these numbers, the largest first; numbers that differ by rounding only stay in their order.

    A number is another one than the next larger where it is smaller by more than 1e-5 of the larger of their sizes.
    """
    descending = sorted(range(len(worth)), key=lambda place: -worth[place])
    level = dict.fromkeys(descending, 0)
    for before, place in pairwise(descending):
        reach = _ROUNDING * max(abs(worth[before]), abs(worth[place]))
        level[place] = level[before] + (worth[before] - worth[place] > reach)
    return sorted(descending, key=lambda place: (level[place], place))


def shuffled(rows: list[int], generator: Generator) -> list[int]:
    """The rows in an order that is drawn from `generator`."""
    return [rows[place] for place in torch.randperm(len(rows), generator=generator).tolist()]


def _care() -> Chooser:
    from geoalign.curators.care.chooser import Care

    return Care()


ChooserName = Literal["error", "informative", "majority", "negatives", "random", "care"]
CHOOSERS: dict[ChooserName, Callable[[], Chooser]] = {
    "informative": Informative,
    "error": RemainingError,
    "majority": MajorityAnswers,
    "negatives": Negatives,
    "random": RandomRows,
    "care": _care,
}
"""What makes a chooser, by name: `Appeals(choose=...)`. A further one stands here and in `ChooserName`."""
