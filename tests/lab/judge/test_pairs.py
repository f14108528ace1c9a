from collections.abc import Callable
from pathlib import Path

import pytest
from judge_server import row

from geoalign.errors import InputError
from geoalign.lab.evaluation.responses import SavedResponse, read_responses
from geoalign.lab.judge.pairs import MatchedResponses, match_responses
from geoalign.lab.judge.prompt import Comparison

Save = Callable[[str, list[SavedResponse]], Path]


def matched(saved: Save, a: list[SavedResponse], b: list[SavedResponse], *, allow: bool = False) -> MatchedResponses:
    return match_responses(
        read_responses(saved("a.jsonl", a)), read_responses(saved("b.jsonl", b)), allow_missing=allow
    )


def test_rows_are_matched_by_key_in_the_order_of_a(saved: Save) -> None:
    a = [row("a1", number=1), row("a0", number=0), row("a0'", number=0, sample=1), row("ah", name="harmless")]
    b = [row("bh", name="harmless"), row("b0'", number=0, sample=1), row("b0", number=0), row("b1", number=1)]
    found = matched(saved, a, b)
    assert [(pair.a.response, pair.b.response) for pair in found.pairs] == [
        ("a1", "b1"),
        ("a0", "b0"),
        ("a0'", "b0'"),
        ("ah", "bh"),
    ]
    assert found.only_a == found.only_b == ()
    prompt = ({"role": "user", "content": "Question 1?"},)
    assert found.pairs[0].comparisons() == (Comparison(prompt, "a1", "b1"), Comparison(prompt, "b1", "a1"))


def test_rows_in_one_file_only_are_an_error_that_lists_them(saved: Save) -> None:
    a = [row("x", number=0), row("x", number=1)]
    b = [row("y", number=0), row("y", number=0, sample=1)]
    with pytest.raises(InputError) as caught:
        matched(saved, a, b)
    said = str(caught.value)
    assert "b.jsonl: expected a response for each of " in said
    assert "a.jsonl, got none for 1: ('helpful', '1', 0)" in said
    assert "b.jsonl, got none for 1: ('helpful', '0', 1)" in said
    assert "--allow-missing" in said


def test_a_long_list_is_cut(saved: Save) -> None:
    with pytest.raises(InputError, match=r"got none for 12: .*'9', 0\), \.\.\."):
        matched(saved, [row("x", number=number) for number in range(13)], [row("y", number=12)])


def test_allowed_missing_rows_are_left_out_and_named(saved: Save) -> None:
    a = [row("x", number=0), row("x", number=1)]
    b = [row("y", number=2), row("y", number=1)]
    found = matched(saved, a, b, allow=True)
    assert [pair.key for pair in found.pairs] == [("helpful", "1", 0)]
    assert found.only_a == (("helpful", "0", 0),)
    assert found.only_b == (("helpful", "2", 0),)
    with pytest.raises(InputError, match=r"expected responses under the same .* got none"):
        matched(saved, a[:1], b[:1], allow=True)


@pytest.mark.parametrize("allow", [False, True])
def test_another_prompt_under_one_id_is_an_error_that_names_both_lines(saved: Save, allow: bool) -> None:
    a = [row("x", number=0), row("x", number=1)]
    b = [row("y", number=0), row("y", number=1, prompt="Another?")]
    with pytest.raises(
        InputError, match=r"b\.jsonl, line 2: expected the prompt of .*'1' to be that of .*a\.jsonl, line 2"
    ):
        matched(saved, a, b, allow=allow)


def test_samples_of_one_id_have_one_prompt(saved: Save) -> None:
    rows = [row("x"), row("x", sample=1, prompt="Another?")]
    with pytest.raises(InputError, match=r"a\.jsonl, line 2: expected the prompt .*a\.jsonl, line 1"):
        matched(saved, rows, rows)


def test_one_id_in_two_sets_may_have_two_prompts(saved: Save) -> None:
    rows = [row("x"), row("x", name="harmless", prompt="Another?")]
    assert len(matched(saved, rows, rows).pairs) == 2
