import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.lab.rewards.answers import final_answer, quick_verdict, tokens, values, with_powers


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_is_read_and_verdicts_have_no_side(one, other):
    assert quick_verdict(one, other) is quick_verdict(other, one)
    assert (tokens(one) == tokens(other)) is (tokens(other) == tokens(one))
    values(one, other)


@given(st.text(alphabet="0123456789+-*/^_{}()[],.= $xyn\\fracsqt", max_size=40))
def test_answers_equal_themselves_in_wider_spacing(text):
    # Around an operator that is not escaped a space changes nothing.
    assert tokens(re.sub(r"(?<!\\)([+=])", r" \1 ", text)) == tokens(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x^{2}", "x^2"),
        ("\\dfrac{a}{b}", "\\frac {a} {b}"),
        ("\\text{(C)}", "(C)"),
        ("\\text {even}", "even"),
        ("\\textbf{east}", "\\text{ east }"),
        ("k_{\\mathrm{B}}", "k_B"),
        ("\\left(-\\infty, 0\\right]", "(-\\infty,0]"),
        ("2 \\pi r", "2\\pi r"),
        ("62.5\\%", "62.5%"),
        ("x \\leqslant 2", "x \\le 2"),
        ("$f(x)=x$", "f(x) = x"),
        ("90°", "90^{\\circ}"),
        ("\u22125", "-5"),
    ],
)
def test_spellings_of_one_answer(one, other):
    assert tokens(one) == tokens(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x^{12}", "x^12"),
        ("2^{10}", "2^10"),
        ("{1}{2}", "12"),
        ("a_{1}2", "a_{12}"),
        ("\\pi r", "\\pir"),
        ("1 2", "12"),
        ("\\frac{1}{23}", "\\frac{12}{3}"),
        ("\\sqrt{ab}", "\\sqrt{a}b"),
        ("(1,2]", "[1,2)"),
        ("x_1", "x^1"),
        ("a'", "a"),
        ("A", "a"),
    ],
)
def test_what_only_looks_alike(one, other):
    assert tokens(one) != tokens(other)


def test_names_in_front_of_an_answer():
    assert values("$I_{\\max }=q$", "q") == ("q", "q")
    assert values("n_{\\gamma}(\\nu)=k_{\\mathrm{B}}", "n_\\gamma(\\nu) = k_B") == ("k _ B", "k _ B")
    assert values("I_{\\max}=q", "I_{\\min}=q") is None
    assert values("I_{\\max}=q", "x=q") is None
    assert values("\\alpha+\\beta=1", "1") is None  # an equation, not a name
    assert values("x=1", "1") is None  # left to math-verify


@pytest.mark.parametrize(
    ("response", "answer"),
    [
        (r"6+4=10;\boxed{81}", "81"),
        (r"\boxed{1}, or rather \boxed{ $+0,081.0$. }", "81"),
        (r"\boxed{+1,234.00}", "1234"),
        (r"\boxed{-0025}", "-25"),
        (r"\boxed{-0}", "0"),
        (r"\boxed{$x+1$.}", "x+1"),
        (r"\boxed{\frac{1}{2}}", r"\frac{1}{2}"),
        (r"\boxed{}", None),
        (r"\boxed{81", None),
        ("81", None),
        ("", None),
    ],
)
def test_the_final_answer_in_one_form(response, answer):
    assert final_answer(response) == answer


# What was quadratic took eight seconds at four times the length, and half a second at this one.
LENGTH, SECONDS = 12_000, 0.4
PIECES = [
    "\\boxed{", "\\", "{", "$", ". ", "1", "1,", "1,000,", "{,}000", "a_1 ", "\\frac{1}", "(1,", "1/2,", " \\!",
    "\\left",     "1e", "x_", "\\text{", "^{", "{{a}}", "1.", "x ( ", "\\_x{",
]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_reading_takes_time_in_proportion_to_the_length(piece):
    run = piece * (LENGTH // len(piece))
    for text in (run, f"\\boxed{{{run}}}", f"1{run}"):
        for read in (
            final_answer,
            with_powers,
            lambda text: quick_verdict("1/2", text),
            lambda text: values(text, "q"),
        ):
            started = time.process_time()
            read(text)
            assert time.process_time() - started < SECONDS
