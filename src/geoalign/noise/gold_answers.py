"""How likely it is that a prompt's gold answer is wrong and the answer that most responses agree on is right.

The verdicts of a verifier that compares with the gold answer say what the gold answer is, not whether it is right. What
can tell is how the answers of the rollouts are spread, and two explanations are compared for each prompt:

    H0  the gold answer is right: x = its count k of n answers are right, and the others are wrong, the proposed answer
        with its m copies among them.
    H1  the proposed answer is right: x = m, and the gold answer is one more draw from the wrong answers.

Under both, the answers of a prompt are a sequence of draws. Each is right with probability p, and p differs from prompt
to prompt. Wrong answers agree as the customers of a Chinese restaurant do: with w of them given, the next one repeats
an answer that c of them give with probability c / (w + theta), and is new with theta / (w + theta). So

    P(x right of n | p) = p^x (1 - p)^(n - x)
    P(wrong answers with counts c_1, ..., c_j | theta) = theta^j prod_i (c_i - 1)! Gamma(theta) / Gamma(theta + w)
    P(one more draw has k copies) = k / (theta + w), or theta / (theta + w) for k = 0.

The distributions of p and theta are histograms on a grid, which EM fits to all prompts of the file, with the share of
wrong gold answers. A prior of some prompts' worth stands in where a file has few. How wrong answers agree is taken to
be the same on easy and hard prompts: this tells a common mistake from a right answer, and it is an assumption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp

# Shares of right answers, and how various wrong answers are.
P_GRID = np.array([0.01, 0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95, 0.99])
# Below 1 a common mistake would explain any agreement, and no gold answer could be doubted.
THETA_GRID = np.array([1.0, 3.0, 10.0, 30.0])
# Prior: worth so many prompts, spread evenly over each grid; and wrong gold answers among so many.
PRIOR_PROMPTS = 10.0
PRIOR_WRONG = 0.03
PRIOR_WRONG_PROMPTS = 100.0
_ROUNDS = 100
_CLOSE = 1e-3


@dataclass(frozen=True)
class AnswerCounts:
    """The answers to one prompt that has a gold answer.

    Attributes:
        gold: how many responses give the gold answer.
        proposed: how many give the answer that is proposed in its place; 0: none is.
        others: how many give each other answer, in descending order.
    """

    gold: int
    proposed: int
    others: tuple[int, ...]


def chance_of_wrong_gold(prompts: Sequence[AnswerCounts]) -> np.ndarray:
    """[G] The posterior probability that the proposed answer is right and the gold answer wrong; 0 where none is."""
    if not prompts:
        return np.zeros(0)
    # Prompts with the same counts say the same.
    patterns = dict.fromkeys(prompts)
    places = {pattern: place for place, pattern in enumerate(patterns)}
    pattern_of = np.array([places[prompt] for prompt in prompts])
    weight = np.bincount(pattern_of).astype(float)[:, None, None]
    # [U, P, T] the log-likelihood of each pattern under both explanations.
    gold_right = np.stack([_gold_right(pattern) for pattern in patterns])
    proposed_right = np.stack([_proposed_right(pattern) for pattern in patterns])
    proposed_right[[pattern.proposed == 0 for pattern in patterns]] = -np.inf
    log_p = np.full(len(P_GRID), -np.log(len(P_GRID)))
    log_theta = np.full(len(THETA_GRID), -np.log(len(THETA_GRID)))
    wrong = PRIOR_WRONG
    chance = np.zeros(len(patterns))
    for _ in range(_ROUNDS):
        prior = log_p[:, None] + log_theta
        right = np.log1p(-wrong) + gold_right + prior
        other = np.log(wrong) + proposed_right + prior
        total = logsumexp(np.stack([right, other]), axis=(0, 2, 3))[:, None, None]
        # [U, P, T] the share of each pattern that a point of the grid explains.
        share_other = np.exp(other - total)
        shares = weight * (np.exp(right - total) + share_other)
        before = np.concatenate([log_p, log_theta])
        chance = share_other.sum(axis=(1, 2))
        log_p = _log_histogram(shares.sum(axis=(0, 2)))
        log_theta = _log_histogram(shares.sum(axis=(0, 1)))
        expected = (weight * share_other).sum() + PRIOR_WRONG * PRIOR_WRONG_PROMPTS
        wrong = expected / (len(prompts) + PRIOR_WRONG_PROMPTS)
        if np.abs(np.concatenate([log_p, log_theta]) - before).max() < _CLOSE:
            break
    return chance[pattern_of]


def _log_histogram(counts: np.ndarray) -> np.ndarray:
    """The logarithm of a histogram with its prior."""
    smooth = counts + PRIOR_PROMPTS / len(counts)
    return np.asarray(np.log(smooth / smooth.sum()))


def _gold_right(prompt: AnswerCounts) -> np.ndarray:
    """[P, T] H0."""
    wrong = [*prompt.others, prompt.proposed]
    return _right_answers(prompt.gold, sum(wrong))[:, None] + _wrong_answers(wrong)


def _proposed_right(prompt: AnswerCounts) -> np.ndarray:
    """[P, T] H1."""
    wrong = [*prompt.others, prompt.gold]
    drawn = prompt.gold if prompt.gold else THETA_GRID
    log_gold = np.log(drawn / (THETA_GRID + sum(wrong)))
    return _right_answers(prompt.proposed, sum(wrong))[:, None] + _wrong_answers(wrong) + log_gold


def _right_answers(right: int, wrong: int) -> np.ndarray:
    """[P] log p^x (1 - p)^(n - x)."""
    return np.asarray(right * np.log(P_GRID) + wrong * np.log1p(-P_GRID))


def _wrong_answers(counts: Sequence[int]) -> np.ndarray:
    """[T] the log-probability of wrong answers with these counts."""
    given = np.array([count for count in counts if count], dtype=float)
    total = given.sum()
    repeats = gammaln(given).sum()
    return np.asarray(len(given) * np.log(THETA_GRID) + repeats + gammaln(THETA_GRID) - gammaln(THETA_GRID + total))
