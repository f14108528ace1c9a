import itertools

import pytest

from geoalign.lab.judge.outcome import Answer, JudgedPair, Judgment
from geoalign.lab.judge.verdict import Position, Verdict

SCORES: dict[Position, tuple[float, float]] = {"first": (0.9, 0.2), "second": (0.2, 0.9), "tie": (0.5, 0.5)}
NO_VERDICT = {
    "malformed": Answer(None, "malformed", "no text", 3, ""),
    "failed": Answer(None, "failed", "HTTP 500", 0, ""),
}


def answer(position: Position) -> Answer:
    return Answer(Verdict(position, *SCORES[position]), "judged", "", 1, "{}")


def pair(a_first: Answer, b_first: Answer) -> JudgedPair:
    return JudgedPair(("helpful", "0", 0), Judgment("a", a_first), Judgment("b", b_first))


@pytest.mark.parametrize(
    ("a_first", "b_first", "winner"),
    [
        ("first", "second", "a"),  # A named in both positions
        ("second", "first", "b"),
        ("tie", "tie", "tie"),
        ("first", "first", "tie"),  # whoever stood first: A, then B
        ("second", "second", "tie"),
        ("first", "tie", "tie"),
        ("second", "tie", "tie"),
        ("tie", "first", "tie"),
        ("tie", "second", "tie"),
    ],
)
def test_both_positions_have_to_agree(a_first: Position, b_first: Position, winner: str) -> None:
    judged = pair(answer(a_first), answer(b_first))
    assert judged.status == "judged"
    assert judged.winner == winner


def test_scores_go_with_the_side_not_with_the_position() -> None:
    judged = pair(answer("first"), answer("first"))
    assert [judgment.winner for judgment in judged.judgments] == ["a", "b"]
    assert [judgment.score("a") for judgment in judged.judgments] == [0.9, 0.2]
    assert [judgment.score("b") for judgment in judged.judgments] == [0.2, 0.9]


@pytest.mark.parametrize("position", ["first", "second", "tie"])
@pytest.mark.parametrize("status", ["malformed", "failed"])
def test_a_pair_without_both_verdicts_is_left_out_never_a_tie(position: Position, status: str) -> None:
    for both in itertools.permutations([answer(position), NO_VERDICT[status]]):
        assert pair(*both).status == status
        assert pair(*both).winner is None
    assert pair(NO_VERDICT[status], NO_VERDICT[status]).winner is None


def test_failed_comes_before_malformed() -> None:
    for both in itertools.permutations(NO_VERDICT.values()):
        assert pair(*both).status == "failed"


def test_a_judgment_without_verdict_has_no_position_winner_or_score() -> None:
    judgment = Judgment("a", NO_VERDICT["malformed"])
    assert (judgment.position, judgment.winner, judgment.score("a"), judgment.score("b")) == (None, None, None, None)
