import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.answers import final_answer
from geoalign.answers.boxed import answer_start, boxed_answer, last_boxed
from geoalign.answers.verified import nesting_depth


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (r"\boxed{81}", "81"),
        (r"first \boxed{1}, then \boxed{2}.", "2"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed {5}", "5"),
        ("\\boxed\n{5}", "5"),
        (r"\boxed{}", ""),
        (r"\boxed{1} and \boxed{2", "1"),
        (r"\boxed{ x \boxed{3}", "3"),
        (r"\boxed{a \boxed{b}}", "b"),
        (r"\boxed{a \boxed{b}} \boxed{c}", "c"),
        (r"} } \boxed{7}", "7"),
        (r"{ \boxed{7}", "7"),
        (r"\boxed{\{1,2\}}", r"\{1,2\}"),
        (r"\boxed{\{1,2)}", r"\{1,2)"),
        (r"\boxed{a \\{b}}", r"a \\{b}"),
        (r"\\boxed{81}", "81"),
        ("\\boxed{1}\x00\ud800\\boxed{\u0663}", "\u0663"),
        *(
            (text, None)
            for text in ("", "boxed{81}", r"\boxed{", r"\boxed{3{ }", r"\boxed 81", r"\boxedx{1}", r"\boxed\{1\}")
        ),
    ],
)
def test_the_last_complete_box_counts(text, answer):
    assert last_boxed(text) == answer


LISTS = [
    (r"\boxed{-2} and \boxed{1}", "-2, 1"),
    (r"so \boxed{5} first. Then $\boxed{-2}$ and $\boxed{1}$.", "-2, 1"),
    (r"$\boxed{-2}$, $\boxed{1}$", "-2, 1"),
    (r"$\boxed{-2}, \boxed{1}$ are the roots.", "-2, 1"),
    (r"\boxed{-2}; \boxed{1}", "-2, 1"),
    (r"\boxed{-2}, and \boxed{1}", "-2, 1"),
    (r"\boxed{-2}\boxed{1}", "-2, 1"),
    ("\\boxed{-2}\n\\boxed{1}", "-2, 1"),
    (r"\[x = \boxed{-2} \quad \text{or} \quad x = \boxed{1}\]", "-2, 1"),
    (r"$x_1=\boxed{-2}$ or $x_2=\boxed{1}$", "-2, 1"),
    (r"\boxed{(1,2)}, \boxed{(2,1)}", "(1,2), (2,1)"),
    (r"\boxed{3}, \boxed{4}, and \boxed{5}", "3, 4, 5"),
    (r"\boxed{\boxed{1}, \boxed{2}}", "1, 2"),
]
SINGLE = [
    (r"\boxed{3} or \boxed{3}", "3"), (r"\boxed{1}, wait: \boxed{2}", "2"), (r"\boxed{1}. No, \boxed{2}", "2"),
    (r"\[\boxed{-2}\] \[\boxed{1}\]", "1"), (r"$\boxed{-2}$ $\boxed{1}$", "1"),
    (r"\boxed{a \boxed{b}} \boxed{c}", "c"), (r"\boxed{1}, \boxed{2", "1"),
    (r"\boxed{1} " + "\n" * 100 + r"\boxed{2}", "2"), (r"\boxed{1} sand \boxed{2}", "2"),
    (r"\boxed{1} land\boxed{2}", "2"), (r"\boxed{} \boxed{2}", "2"), (r"\boxed{1}, \boxed{}", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "answer"), [*LISTS, *SINGLE])
def test_a_list_of_boxes_at_the_end_is_one_answer(text, answer):
    assert boxed_answer(text) == answer


def test_depth_counts_brackets_of_all_kinds():
    assert nesting_depth("") == 0
    assert nesting_depth("(1,[2])") == 2
    assert nesting_depth(")))((") == 0
    assert nesting_depth("{" * 10_000 + "}" * 10_000) == 10_000


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
        *((text, None) for text in (
            "", "no mark, though 42 is the last number", "the answer is", "####  ", "##### 5\nanswer = 5", r"\boxed{}",
            r"\boxed{ }", r"\boxed{4", "answered: 5",
        )),
    ],
)  # fmt: skip
def test_where_the_answer_begins(text, answer):
    start = answer_start(text)
    assert (None if start is None else text[start:]) == answer


@given(st.text(max_size=40), st.integers(0, 999))
def test_a_box_is_found_behind_any_text(before, number):
    text = before.replace("{", "").replace("}", "").replace("\\", "") + rf" \boxed{{{number}}}"
    start = answer_start(text)
    assert start is not None
    assert text[start:] == f"{number}}}"
    assert final_answer(text) == str(number)  # what is rewarded is what is found
