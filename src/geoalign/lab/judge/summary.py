"""What all judgments of some pairs come to: rates, scores, position bias, and what had to be left out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from geoalign.lab.analysis.statistics import Interval, clustered_proportion, wilson_interval
from geoalign.lab.judge.outcome import JudgedPair, Judgment, Side


@dataclass(frozen=True)
class JudgeSummary:
    """The result of A against B over some pairs; rates and scores are over the judged pairs, NaN where there is none.

    Attributes:
        pairs: all pairs; `judged`, `malformed` and `failed` of them add up to it.
        win, lose, tie: share of the judged pairs that A won, lost, tied, with 95% intervals.
        score_a, score_b: mean score over all judgments of the judged pairs, from 0 to 1.
        first_share: of the judgments of judged pairs that named a winner, the share that named the one shown first;
            0.5 without position bias, however good A and B are, because both orders of every pair count.
        first, second, undecided: judgments of judged pairs for either position, and ties.
        contradictions: ties because the two judgments named different responses.
        half_ties: ties because one judgment was a tie and the other not.
        unequal_ties: judgments "tie" with two different scores.
        malformed_judgments, failed_judgments: judgments that ended so.
        reasons: of those, how many for which reason.
        retried_answers: malformed answers after which the judge was asked again.
    """

    pairs: int
    judged: int
    malformed: int
    failed: int
    wins: int
    losses: int
    ties: int
    win: Interval
    lose: Interval
    tie: Interval
    score_a: Interval
    score_b: Interval
    first_share: Interval
    first: int
    second: int
    undecided: int
    contradictions: int
    half_ties: int
    unequal_ties: int
    malformed_judgments: int
    failed_judgments: int
    reasons: dict[str, int]
    retried_answers: int


def summarise(pairs: Sequence[JudgedPair]) -> JudgeSummary:
    """Rates of A against B, with Wilson's interval where every prompt has one pair; where a prompt has several samples,
    with an interval that takes prompts, not pairs, as independent. Scores and position bias always have the latter.

    A pair with a malformed or failed judgment is left out of everything but the counts.
    """
    judged = [pair for pair in pairs if pair.status == "judged"]
    winners = Counter(pair.winner for pair in judged)
    status = Counter(pair.status for pair in pairs)
    shown = [judgment for pair in judged for judgment in pair.judgments]
    every = [judgment for pair in pairs for judgment in pair.judgments]
    positions = Counter(judgment.position for judgment in shown)
    sides = [{judgment.winner for judgment in pair.judgments} for pair in judged]
    return JudgeSummary(
        pairs=len(pairs),
        judged=len(judged),
        malformed=status["malformed"],
        failed=status["failed"],
        wins=winners["a"],
        losses=winners["b"],
        ties=winners["tie"],
        win=_rate(judged, "a"),
        lose=_rate(judged, "b"),
        tie=_rate(judged, "tie"),
        score_a=_score(judged, "a"),
        score_b=_score(judged, "b"),
        first_share=_first_share(judged),
        first=positions["first"],
        second=positions["second"],
        undecided=positions["tie"],
        contradictions=sum(pair_winners == {"a", "b"} for pair_winners in sides),
        half_ties=sum(len(pair_winners) == 2 and "tie" in pair_winners for pair_winners in sides),
        unequal_ties=sum(_unequal_tie(judgment) for judgment in shown),
        malformed_judgments=sum(judgment.answer.status == "malformed" for judgment in every),
        failed_judgments=sum(judgment.answer.status == "failed" for judgment in every),
        reasons=dict(Counter(judgment.answer.reason for judgment in every if judgment.answer.reason).most_common()),
        retried_answers=sum(_retried(judgment) for judgment in every),
    )


def _unequal_tie(judgment: Judgment) -> bool:
    verdict = judgment.answer.verdict
    return verdict is not None and verdict.winner == "tie" and verdict.first_score != verdict.second_score


def _retried(judgment: Judgment) -> int:
    # The last answer is the verdict itself, or the malformed one after which no more were asked for.
    return max(0, judgment.answer.attempts - 1) if judgment.answer.status != "failed" else judgment.answer.attempts


def _rate(judged: Sequence[JudgedPair], winner: str) -> Interval:
    hits = [pair.winner == winner for pair in judged]
    if len({pair.key[:2] for pair in judged}) == len(judged):
        return wilson_interval(sum(hits), len(hits))
    return _clustered(judged, hits, [1.0] * len(judged))


def _score(judged: Sequence[JudgedPair], side: Side) -> Interval:
    scores = [math.fsum(judgment.score(side) or 0.0 for judgment in pair.judgments) for pair in judged]
    return _clustered(judged, scores, [2.0] * len(judged))


def _first_share(judged: Sequence[JudgedPair]) -> Interval:
    decided = [pair for pair in judged if any(judgment.position != "tie" for judgment in pair.judgments)]
    first = [sum(judgment.position == "first" for judgment in pair.judgments) for pair in decided]
    total = [sum(judgment.position != "tie" for judgment in pair.judgments) for pair in decided]
    return _clustered(decided, first, total)


def _clustered(pairs: Sequence[JudgedPair], parts: Sequence[float], totals: Sequence[float]) -> Interval:
    """Sum of parts over sum of totals, prompts as the independent groups; both lie in [0, 1] of each other."""
    prompts = {prompt: number for number, prompt in enumerate(dict.fromkeys(pair.key[:2] for pair in pairs))}
    rows = np.asarray([prompts[pair.key[:2]] for pair in pairs], dtype=np.int64)
    part, total = np.zeros(len(prompts)), np.zeros(len(prompts))
    np.add.at(part, rows, np.asarray(parts, dtype=np.float64))
    np.add.at(total, rows, np.asarray(totals, dtype=np.float64))
    return clustered_proportion(part, total)
