import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.boxed import boxed_answer, last_boxed
from geoalign.lab.rewards.verified import nesting_depth


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
    ],
)
def test_the_last_complete_box_counts(text, answer):
    assert last_boxed(text) == answer


@pytest.mark.parametrize(
    "text", ["", "81", "boxed{81}", r"\boxed", r"\boxed{", r"\boxed{3{ }", r"\boxed 81", r"\boxedx{1}", r"\boxed\{1\}"]
)
def test_without_a_complete_box_there_is_no_answer(text):
    assert last_boxed(text) is None


# Letters drawn alone hardly ever spell a box, so texts are drawn in pieces.
PIECES = st.lists(
    st.sampled_from(["\\boxed{", "}", "{", "\\{", "\\\\", " and ", ", ", "$", "1", "23"]), max_size=30
).map("".join)


@given(PIECES)
def test_the_answer_is_a_balanced_part_of_the_text_after_an_opening(text):
    answer = last_boxed(text)
    if answer is not None:
        assert "{" + answer + "}" in text
        plain = answer.replace("\\\\", "").replace("\\{", "").replace("\\}", "")
        assert plain.count("{") == plain.count("}")


@given(st.text(), st.text(alphabet="0123456789abc+-"))
def test_a_box_at_the_end_is_found_whatever_stands_before(text, answer):
    assert last_boxed(text + " \\boxed{" + answer + "}") == answer


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{" * 150_000,
        "{" * 1_000_000,
        "}" * 1_000_000,
        "\\boxed{" + "{" * 400_000 + "}" * 400_000,
        "\\boxed" + " " * 1_000_000,
        "\\boxed " * 150_000,
        "\\boxed{1}" * 100_000 + "{",
        "\\" * 1_000_000,
    ],
)
def test_a_million_hostile_characters_take_no_quadratic_time(text):
    start = time.perf_counter()
    last_boxed(text)
    # Half a second is usual; a search of quadratic cost takes many minutes.
    assert time.perf_counter() - start < 20


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
    (r"\boxed{3} or \boxed{3}", "3"),
    (r"\boxed{1}, wait: \boxed{2}", "2"),
    (r"first \boxed{1}, then \boxed{2}.", "2"),
    (r"\boxed{1}. No, \boxed{2}", "2"),
    (r"\[\boxed{-2}\] \[\boxed{1}\]", "1"),
    (r"$\boxed{-2}$ $\boxed{1}$", "1"),
    (r"\boxed{a \boxed{b}} \boxed{c}", "c"),
    (r"\boxed{1}, \boxed{2", "1"),
    (r"\boxed{1} " + "\n" * 100 + r"\boxed{2}", "2"),
    (r"\boxed{1} sand \boxed{2}", "2"),
    (r"\boxed{1} land\boxed{2}", "2"),
    (r"\boxed{} \boxed{2}", "2"),
    (r"\boxed{1}, \boxed{}", ""),
]


@pytest.mark.parametrize(("text", "answer"), [*LISTS, *SINGLE])
def test_a_list_of_boxes_at_the_end_is_one_answer(text, answer):
    assert boxed_answer(text) == answer


def test_without_a_box_there_is_no_list():
    assert boxed_answer("-2 and 1") is None


@given(PIECES)
def test_the_answer_is_the_last_box_or_ends_with_it(text):
    last, answer = last_boxed(text), boxed_answer(text)
    assert (answer is None) == (last is None)
    assert last is None or answer.endswith(last)


def test_many_boxes_take_no_quadratic_time():
    start = time.perf_counter()
    for text in (
        "\\boxed{" * 70_000 + "}" * 70_000,
        "".join(f"\\boxed{{{number}}} x= and " for number in range(60_000)),
        "\\boxed{1}" + "a " * 100_000 + "\\boxed{2}",
        "\\boxed{1}" + " x" * 34 + "\\boxed{2}",
    ):
        boxed_answer(text)
    assert time.perf_counter() - start < 20


def test_depth_counts_brackets_of_all_kinds():
    assert nesting_depth("") == 0
    assert nesting_depth("(1,[2])") == 2
    assert nesting_depth(")))((") == 0
    assert nesting_depth("{" * 10_000 + "}" * 10_000) == 10_000
