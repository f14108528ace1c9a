import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.lab.analysis.statistics import Interval, wilson_interval
from geoalign.lab.judge.outcome import Answer, JudgedPair, Judgment
from geoalign.lab.judge.summary import summarise
from geoalign.lab.judge.verdict import Verdict

MALFORMED = Answer(None, "malformed", "no text", 3, "")
FAILED = Answer(None, "failed", "HTTP 500: down", 1, "?")


def said(winner: str, first: float, second: float, attempts: int = 1) -> Answer:
    return Answer(Verdict(winner, first, second), "judged", "", attempts, "{}")  # type: ignore[arg-type]


def pair(a_first: Answer, b_first: Answer, number: int = 0, sample: int = 0) -> JudgedPair:
    return JudgedPair(("helpful", str(number), sample), Judgment("a", a_first), Judgment("b", b_first))


FOUR = [
    pair(said("first", 0.9, 0.1), said("second", 0.3, 0.7), 0),  # A wins: A 0.9, 0.7; B 0.1, 0.3
    pair(said("first", 0.8, 0.2), said("first", 0.6, 0.4, attempts=2), 1),  # contradiction: A 0.8, 0.4; B 0.2, 0.6
    pair(said("second", 0.2, 0.5), said("tie", 0.5, 0.4), 2),  # half a tie: A 0.2, 0.4; B 0.5, 0.5
    pair(said("second", 0.1, 1.0), said("first", 1.0, 0.0), 3),  # B wins: A 0.1, 0.0; B 1.0, 1.0
]
LEFT_OUT = [
    pair(said("first", 1.0, 0.0), MALFORMED, 4),
    pair(MALFORMED, MALFORMED, 5),
    pair(FAILED, said("second", 0.0, 1.0), 6),
    pair(FAILED, MALFORMED, 7),
]


def test_by_hand() -> None:
    found = summarise(FOUR + LEFT_OUT)
    assert (found.pairs, found.judged, found.malformed, found.failed) == (8, 4, 2, 2)
    assert (found.wins, found.losses, found.ties) == (1, 1, 2)
    # Of the four judged pairs, whatever was left out.
    assert found.win == wilson_interval(1, 4)
    assert found.lose == wilson_interval(1, 4)
    assert found.tie == wilson_interval(2, 4)
    assert (found.win.estimate, found.tie.estimate) == (0.25, 0.5)
    # (0.9 + 0.7 + 0.8 + 0.4 + 0.2 + 0.4 + 0.1 + 0.0) / 8 and (0.1 + 0.3 + 0.2 + 0.6 + 0.5 + 0.5 + 1.0 + 1.0) / 8
    assert found.score_a.estimate == pytest.approx(3.5 / 8)
    assert found.score_b.estimate == pytest.approx(4.2 / 8)
    # First named in 1, 2, 0, 1 judgments of 2, 2, 1, 2 that named one.
    assert (found.first, found.second, found.undecided) == (4, 3, 1)
    assert found.first_share.estimate == pytest.approx(4 / 7)
    assert (found.contradictions, found.half_ties, found.unequal_ties) == (1, 1, 1)
    assert (found.malformed_judgments, found.failed_judgments) == (4, 2)
    assert found.reasons == {"no text": 4, "HTTP 500: down": 2}
    # One before the verdict of pair 1, two before each last malformed one, one before each failure.
    assert found.retried_answers == 1 + 4 * 2 + 2 * 1


def test_the_interval_of_scores_takes_prompts_as_independent() -> None:
    # Totals of A per prompt 1.6, 1.2, 0.6, 0.1 of 2 judgments each; mean 0.4375, residuals to 0.875: 0.725, 0.325,
    # -0.275, -0.775, squares 0.525625, 0.105625, 0.075625, 0.600625, sum 1.3075; error sqrt(4/3 * 1.3075) / 8 =
    # 0.165045; Student's t with 3 degrees of freedom 3.182446: 0.4375 -+ 0.525247, cut at 0.
    found = summarise(FOUR).score_a
    assert (found.low, found.high) == (0.0, pytest.approx(0.962747, abs=1e-5))


def test_several_samples_of_a_prompt_are_not_independent() -> None:
    same = [
        pair(said("first", 1.0, 0.0), said("second", 0.0, 1.0), number, sample)
        for number in (0, 1)
        for sample in (0, 1)
    ]
    other = [pair(said("second", 0.0, 1.0), said("first", 1.0, 0.0), 2, sample) for sample in (0, 1)]
    found = summarise(same + other)
    assert found.win.estimate == pytest.approx(4 / 6)
    independent = wilson_interval(4, 6)
    assert found.win.high - found.win.low > independent.high - independent.low


def test_nothing_judged_gives_nan_and_counts() -> None:
    for pairs in ([], LEFT_OUT):
        found = summarise(pairs)
        assert (found.pairs, found.judged) == (len(pairs), 0)
        for interval in (found.win, found.lose, found.tie, found.score_a, found.score_b, found.first_share):
            assert math.isnan(interval.estimate)


def test_only_ties_have_no_position_bias_to_measure() -> None:
    found = summarise([pair(said("tie", 0.5, 0.5), said("tie", 0.4, 0.4))])
    assert (found.first, found.second, found.undecided) == (0, 0, 2)
    assert math.isnan(found.first_share.estimate)
    assert found.tie.estimate == 1.0


def test_a_judge_that_always_names_the_first_gives_ties_and_full_bias() -> None:
    found = summarise([pair(said("first", 1.0, 0.0), said("first", 1.0, 0.0), number) for number in range(5)])
    assert (found.wins, found.losses, found.ties, found.contradictions) == (0, 0, 5, 5)
    assert found.first_share.estimate == 1.0
    assert found.score_a.estimate == found.score_b.estimate == 0.5


scores = st.floats(0, 1)
verdicts = st.builds(said, st.sampled_from(["first", "second", "tie"]), scores, scores, st.integers(1, 3))
answers = st.one_of(verdicts, st.sampled_from([MALFORMED, FAILED]))
pairs = st.lists(
    st.builds(pair, answers, answers, st.integers(0, 5), st.integers(0, 2)), unique_by=lambda found: found.key
)


@given(pairs)
def test_exchanging_a_and_b_exchanges_wins_and_losses_exactly(given_pairs: list[JudgedPair]) -> None:
    exchanged = [
        JudgedPair(one.key, Judgment("a", one.b_first.answer), Judgment("b", one.a_first.answer)) for one in given_pairs
    ]
    before, after = summarise(given_pairs), summarise(exchanged)
    for one, two in (("win", "lose"), ("lose", "win"), ("tie", "tie"), ("score_a", "score_b"), ("score_b", "score_a")):
        assert equal(getattr(before, one), getattr(after, two))
    assert (before.wins, before.losses, before.ties) == (after.losses, after.wins, after.ties)
    assert equal(before.first_share, after.first_share)
    for name in ("judged", "malformed", "failed", "first", "second", "contradictions", "half_ties", "retried_answers"):
        assert getattr(before, name) == getattr(after, name)


@given(pairs)
def test_shares_add_up(given_pairs: list[JudgedPair]) -> None:
    found = summarise(given_pairs)
    assert found.wins + found.losses + found.ties == found.judged
    assert found.judged + found.malformed + found.failed == found.pairs == len(given_pairs)
    assert found.first + found.second + found.undecided == 2 * found.judged


def equal(one: Interval, two: Interval) -> bool:
    return str(one) == str(two)  # NaN too
