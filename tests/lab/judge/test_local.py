import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.lab.judge.local import LocalJudge, local_score
from geoalign.lab.judge.prompt import Comparison
from geoalign.lab.judge.verdict import Verdict, parse_verdict

ASKED = "What do blue whales eat?"  # content words: blue, whales


@pytest.mark.parametrize(
    ("response", "score"),
    [
        ("Blue whales eat krill.", 1.0),  # 0.6 * 2/2 + 0.4 * 4/4
        ("Whales whales whales whales", 0.4),  # 0.6 * 1/2 + 0.4 * 1/4
        ("They eat fish, fish.", 0.3),  # 0.6 * 0/2 + 0.4 * 3/4
        ("", 0.0),
        (" ?!\n", 0.0),
    ],
)
def test_the_rules_by_hand(response: str, score: float) -> None:
    assert local_score(ASKED, response) == score


def test_nothing_asked_for_leaves_the_repeats() -> None:
    assert local_score("Hi", "well well") == 0.8  # 0.6 + 0.4 * 1/2


def ask(comparison: Comparison) -> Verdict:
    return parse_verdict(asyncio.run(LocalJudge().ask(comparison)))


def test_the_last_user_turn_counts() -> None:
    prompt = (
        {"role": "user", "content": "Tell me about cooking soup"},
        {"role": "assistant", "content": "Boil cooking soup"},
        {"role": "user", "content": ASKED},
    )
    found = ask(Comparison(prompt, "cooking soup", "blue whales"))
    assert found == Verdict("second", 0.4, 1.0)


@given(st.text(), st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_it_has_no_position_bias_and_is_never_malformed(asked: str, first: str, second: str) -> None:
    prompt = ({"role": "user", "content": asked},)
    one, two = ask(Comparison(prompt, first, second)), ask(Comparison(prompt, second, first))
    assert (one.first_score, one.second_score) == (two.second_score, two.first_score)
    assert {"first": "second", "second": "first", "tie": "tie"}[one.winner] == two.winner


def test_the_key_depends_on_all_of_the_comparison() -> None:
    prompt = ({"role": "user", "content": "x"},)
    keys = [
        Comparison(prompt, "a", "b"),
        Comparison(prompt, "b", "a"),
        Comparison(({"role": "system", "content": "x"},), "a", "b"),
        Comparison(prompt, "a\ud800", "b"),
    ]
    assert len({LocalJudge().key(comparison) for comparison in keys}) == 4
    assert json.loads(asyncio.run(LocalJudge().ask(keys[3])))["overall_winner"] == "tie"
