import io

import pytest
from rich.console import Console

from geoalign.lab.judge.judge import Judged, judgment_of, print_rates, rates_of
from geoalign.statistics import wilson_interval

# Against each other's position: which response the answer names, and the scores of the first and the second shown.
FIRST = ("model_a", 0.9, 0.2)
SECOND = ("model_b", 0.2, 0.9)
TIE = ("tie", 0.5, 0.5)


def answer(winner, first, second):
    return f'{{"overall_winner": "{winner}", "model_a_score": {first}, "model_b_score": {second}}}'


def pair(a_first, b_first, number=0, sample=0):
    return judgment_of(("helpful", str(number), sample), [answer(*a_first), answer(*b_first)])


@pytest.mark.parametrize(
    ("a_first", "b_first", "winner"),
    [
        (FIRST, SECOND, "a"),  # A named in both positions
        (SECOND, FIRST, "b"),
        (TIE, TIE, "tie"),
        (FIRST, FIRST, "tie"),  # whoever stood first: A, then B
        (SECOND, SECOND, "tie"),
        (FIRST, TIE, "tie"),
        (TIE, FIRST, "tie"),
    ],
)
def test_both_positions_have_to_agree(a_first, b_first, winner):
    assert pair(a_first, b_first).winner == winner


FOUR = [
    pair(("model_a", 0.9, 0.1), ("model_b", 0.3, 0.7), 0),  # A wins: A 0.9, 0.7; B 0.1, 0.3
    pair(("model_a", 0.8, 0.2), ("model_a", 0.6, 0.4), 1),  # contradiction: A 0.8, 0.4; B 0.2, 0.6
    pair(("model_b", 0.2, 0.5), ("tie", 0.5, 0.4), 2),  # half a tie: A 0.2, 0.4; B 0.5, 0.5
    pair(("model_b", 0.1, 1.0), ("model_a", 1.0, 0.0), 3),  # B wins: A 0.1, 0.0; B 1.0, 1.0
]


def test_by_hand():
    malformed = [judgment_of(("helpful", "4", 0), ["?", "?"])]
    found = rates_of(FOUR + malformed, 7)
    assert (found.pairs, found.judged, found.malformed, found.failed) == (7, 4, 1, 2)
    assert found.win == wilson_interval(1, 4)
    assert found.lose == wilson_interval(1, 4)
    assert found.tie == wilson_interval(2, 4)
    assert found.score_a.estimate == pytest.approx(3.5 / 8)
    assert found.score_b.estimate == pytest.approx(4.2 / 8)
    # Scores of A per prompt 0.8, 0.6, 0.3, 0.05, mean 0.4375: squared residuals add up to 0.326875; the error is
    # sqrt(4/3 * 0.326875) / 4 = 0.165045; t with 3 degrees of freedom 3.182446: 0.4375 -+ 0.525247, cut at 0.
    assert (found.score_a.low, found.score_a.high) == (0.0, pytest.approx(0.962747, abs=1e-5))


def test_several_samples_of_a_prompt_are_not_independent():
    wins = [pair(FIRST, SECOND, number, sample) for number in (0, 1) for sample in (0, 1)]
    found = rates_of(wins + [pair(SECOND, FIRST, 2, sample) for sample in (0, 1)], 6)
    assert found.win.estimate == pytest.approx(4 / 6)
    independent = wilson_interval(4, 6)
    assert found.win.high - found.win.low > independent.high - independent.low


def test_samples_that_all_agree_count_each_prompt_once():
    found = rates_of([pair(FIRST, SECOND, number, sample) for number in (0, 1) for sample in (0, 1)], 4)
    assert (found.win, found.lose) == (wilson_interval(2, 2), wilson_interval(0, 2))


def test_one_win_in_two_for_every_prompt_is_no_certainty():
    judged = []
    for number in (0, 1):
        judged.append(pair(FIRST, SECOND, number, sample=0))
        judged.append(pair(TIE, TIE, number, sample=1))
    assert rates_of(judged, 4).win == wilson_interval(1, 2)


def test_the_winner_comes_first_and_no_set_is_cut():
    rates = rates_of(FOUR, 4)
    out = io.StringIO()
    names = ("helpful_with_a_long_name", "harmless")
    print_rates(Console(width=80, file=out), Judged(dict.fromkeys(names, rates), rates), "t")
    lines = out.getvalue().splitlines()
    assert lines[0].startswith(f"A won {rates.win.estimate:.1%} of {rates.judged} judged pairs")
    for name in names:
        assert sum(name in line.split() for line in lines) == 2
    assert all(len(line) <= 80 for line in lines)
