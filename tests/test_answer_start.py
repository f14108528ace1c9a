r"""Where final answers begin in a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.answer_start import answer_start
from geoalign.lab.rewards.answers import final_answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"so \boxed{42}.", "42}."),
        (r"so \boxed{ 42 }", "42 }"),
        (r"first \boxed{1}, no: \boxed{2}", "2}"),
        (r"the roots are \boxed{-2} and \boxed{1}", r"-2} and \boxed{1}"),  # a list begins with its first box
        (r"the answer is 5, so \boxed{\frac{1}{2}}", r"\frac{1}{2}}"),  # a box comes before words
        ("48 / 2 = 24\n#### 72", "72"),
        ("#### 1\n#### $1,072.50\n", "1,072.50\n"),
        ("#### 3. Step\nso the answer is 5", "5"),  # a heading
        ("The answer is 12.", "12."),
        ("The answer is: **B**", "B**"),
        ("Final Answer: $x = 3$", "x = 3$"),
        ("**Answer:** (C)", "C)"),
        ("My answer is 'yes'", "yes'"),
        ("the answer is 3. No: the answer is 4", "4"),
    ],
)
def test_by_hand(text, answer):
    start = answer_start(text)
    assert start is not None
    assert text[start:] == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no mark, though 42 is the last number",
        "the answer is",
        "####  ",
        "##### 5\nanswer = 5",
        r"\boxed{}",
        r"\boxed{ }",
        r"\boxed{4",
        "answered: 5",
    ],
)
def test_what_marks_no_answer(text):
    assert answer_start(text) is None


@given(st.text(max_size=40), st.integers(0, 999))
def test_a_box_is_found_behind_any_text(before, number):
    text = before.replace("{", "").replace("}", "").replace("\\", "") + rf" \boxed{{{number}}}"
    start = answer_start(text)
    assert start is not None
    assert text[start:] == f"{number}}}"
    assert final_answer(text) == str(number)  # what is rewarded is what is found


def test_linear_in_the_length_of_the_text():
    text = "answer is " * 50_000
    assert answer_start(text) is None
    assert answer_start(text + "7") == len(text)
