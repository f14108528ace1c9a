import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.answers import final_answer, normal_form
from geoalign.answers.boxed import answer_start
from geoalign.answers.equality import equal_at_sight, without_name
from geoalign.answers.forms import with_powers


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_read_and_verdicts_have_no_side(one, other):
    assert equal_at_sight(one, other) is equal_at_sight(other, one)
    without_name(one, other)


@pytest.mark.parametrize(
    ("gold", "answer", "verdict"),
    [
        ("7", "007", True), ("7", "8", False), ("-7", "7", False), ("1,000,000", "1000000", True),
        ("7.00", "7", True), ("7.5", "7", None), ("1,00", "100", None), ("\\sqrt{49}", "7", None),
        ("x + 1", "x + 1", True),
        ("1" + "0" * 10_000, "1" + "0" * 9_999, False),
    ],
)  # fmt: skip
def test_what_is_equal_at_sight(gold, answer, verdict):
    assert equal_at_sight(gold, answer) is verdict


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("\\dfrac{a}{b}", "\\frac {a} {b}"), ("\\text{(C)}", "(C)"), ("\\text {even}", "even"),
        ("\\textbf{east}", "\\text{ east }"), ("k_{\\mathrm{B}} x^{2}", "k_B x^2"),
        ("\\left(-\\infty, 0\\right]", "(-\\infty,0]"), ("2 \\pi r", "2\\pi r"), ("$f(x)=x$", "f(x) = x"),
    ],
)  # fmt: skip
def test_spellings_of_one_answer(one, other):
    assert normal_form(one) == normal_form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("x^{12}", "x^12"), ("{1}{2}", "12"), ("1 2", "12"), ("1\n 2", "12"), ("(1,2]", "[1,2)"), ("A", "a")],
)
def test_what_only_looks_alike(one, other):
    assert normal_form(one) != normal_form(other)


@pytest.mark.parametrize(
    ("gold", "answer", "values"),
    [
        ("I_{\\max }=2 \\pi q", "q", ("2 \\pi q", "q")),
        ("n_{\\gamma}(\\nu)=k", "n_\\gamma(\\nu) = k", ("k", " k")),
        ("I_{\\max}=q", "I_{\\min}=q", None),
        ("\\alpha+\\beta=1", "1", None),  # an equation, not a name
        ("x=1", "1", None),  # left to math-verify
    ],
)
def test_names_in_front_of_a_gold_answer(gold, answer, values):
    assert without_name(gold, answer) == (values or (gold, answer))


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"6+4=10;\boxed{81}", "81"), (r"\boxed{1}, or rather \boxed{ $+081.0$. }", "81"),
        (r"\boxed{+1,234.00}", "1234"), (r"\boxed{-0025}", "-25"), (r"\boxed{-0}", "0"), (r"\boxed{$x+1$.}", "x+1"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"), (r"\boxed{}", None), (r"\boxed{81", None), ("81", None),
        ("", None),
    ],
)  # fmt: skip
def test_the_final_answer_in_one_form(response, answer):
    assert final_answer(response) == answer


# What was quadratic took eight seconds.
LENGTH, SECONDS = 48_000, 1.0
PIECES = [
    "\\boxed{", "\\", "{", "$", ". ", "1", "1,", "1,000,", "{,}000", "a_1 ", "\\frac{1}", "(1,", "1/2,", " \\!",
    "\\left", "1e", "x_", "\\text{", "^{", "{{a}}", "1.", "x ( ", "\\_x{", "}", " ", "\\boxed{1}", "answer is ",
]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_reading_takes_time_in_proportion_to_the_length(piece):
    run = piece * (LENGTH // len(piece))
    ends = f"1{run}", f"1{run}2", f"####{run}x"
    for text in (run, f"\\boxed{{{run}}}", *ends, f"\\boxed{run}", run + run.replace("{", "}")):
        for read in (
            final_answer,
            answer_start,
            with_powers,
            lambda text: equal_at_sight("1/2", text),
            lambda text: without_name(text, "q"),
        ):
            started = time.process_time()
            read(text)
            assert time.process_time() - started < SECONDS
