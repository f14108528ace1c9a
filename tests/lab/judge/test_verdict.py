import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.lab.judge.verdict import MAX_CHARACTERS, MalformedVerdictError, Verdict, parse_verdict


def text(winner: object = "model_a", a: object = 0.8, b: object = 0.6) -> str:
    return json.dumps({"overall_winner": winner, "model_a_score": a, "model_b_score": b})


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (text(), Verdict("first", 0.8, 0.6)),
        (text("model_b", 0, 1), Verdict("second", 0.0, 1.0)),
        (text("tie", 0.5, 0.5), Verdict("tie", 0.5, 0.5)),
        (text("tie", 0.9, 0.1), Verdict("tie", 0.9, 0.1)),
        (f"\n\t {text()} \r\n", Verdict("first", 0.8, 0.6)),
        (f"```json\n{text()}\n```", Verdict("first", 0.8, 0.6)),
        (f"```\r\n{text()}\r\n```\n", Verdict("first", 0.8, 0.6)),
        (f"```json \n{text()}```", Verdict("first", 0.8, 0.6)),
        ('{"model_b_score": 1e-1, "overall_winner": "model_a",\n "model_a_score": 1}', Verdict("first", 1.0, 0.1)),
    ],
)
def test_verdicts(answer: str, expected: Verdict) -> None:
    assert parse_verdict(answer) == expected


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "no text"),
        (" \n", "no text"),
        ("model_a", "not one JSON object alone"),
        ("[]", "not one JSON object alone"),
        ('"tie"', "not one JSON object alone"),
        (f"The verdict: {text()}", "not one JSON object alone"),
        (f"{text()} because it is better", "not one JSON object alone"),
        (f"{text()}\n{text('model_b', 0.1, 0.2)}", "not one JSON object alone"),
        (f"<think>hm</think>{text()}", "not one JSON object alone"),
        (f"\ufeff{text()}", "not one JSON object alone"),
        (f"Here:\n```json\n{text()}\n```", "not one JSON object alone"),
        (f"```json\n{text()}\n```\n```json\n{text()}\n```", "not one JSON object alone"),
        (f"```python\n{text()}\n```", "not one JSON object alone"),
        (f"```{text()}```", "not one JSON object alone"),
        (f"````\n{text()}\n````", "not one JSON object alone"),
        ("``````", "not one JSON object alone"),
        (text()[:-1], "not one JSON object alone"),
        ("[" * 5000, "not one JSON object alone"),
        ('{"overall_winner": "tie"}', "missing or further keys"),
        (text()[:-1] + ', "reason": "x"}', "missing or further keys"),
        (text()[:-1] + ', "model_a_score": 0.9}', "doubled keys"),
        (text("a"), "unknown winner"),
        (text("Model_A"), "unknown winner"),
        (text(None), "unknown winner"),
        (text(["tie"]), "unknown winner"),
        (text("model_a", 0.8, 0.8), "winner without the higher score"),
        (text("model_a", 0.2, 0.8), "winner without the higher score"),
        (text("model_b", 0.8, 0.8), "winner without the higher score"),
        (text("model_b", 0.8, 0.2), "winner without the higher score"),
        (text("model_a", True, False), "score that is no number from 0 to 1"),
        (text("tie", "0.8", 0.6), "score that is no number from 0 to 1"),
        (text("tie", None, 0.6), "score that is no number from 0 to 1"),
        (text("tie", 1.01, 0.6), "score that is no number from 0 to 1"),
        (text("tie", 8, 6), "score that is no number from 0 to 1"),
        (text("tie", 0.5, -0.1), "score that is no number from 0 to 1"),
        (text("tie", float("nan"), 0.6), "score that is no number from 0 to 1"),
        (text("tie", 0.5, float("inf")), "score that is no number from 0 to 1"),
        (text("tie").replace("0.8", "1e999"), "score that is no number from 0 to 1"),
        (text() + " " * MAX_CHARACTERS, "too long"),
    ],
)
def test_malformed_answers(answer: str, reason: str) -> None:
    with pytest.raises(MalformedVerdictError) as caught:
        parse_verdict(answer)
    assert str(caught.value) == reason


pieces = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "```",
        "json",
        "\n",
        '"overall_winner"',
        ":",
        '"model_a"',
        ",",
        '"model_a_score"',
        "0.5",
        "NaN",
        "9",
    ]
)


@given(st.one_of(st.text(), st.lists(pieces).map("".join)))
def test_any_other_text_is_malformed_never_another_error(answer: str) -> None:
    with pytest.raises(MalformedVerdictError):
        parse_verdict(answer)


@given(st.floats(0, 1), st.floats(0, 1), st.sampled_from(["model_a", "model_b"]))
def test_a_named_winner_has_the_strictly_higher_score(a: float, b: float, winner: str) -> None:
    right = a > b if winner == "model_a" else b > a
    if right:
        assert parse_verdict(text(winner, a, b)) == Verdict("first" if winner == "model_a" else "second", a, b)
    else:
        with pytest.raises(MalformedVerdictError, match="winner without the higher score"):
            parse_verdict(text(winner, a, b))
