import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign.lab.rewards.answers import final_answer, quick_verdict, tokens, values

EQUAL = [
    ("1/2", "0.5"),
    ("\\frac{1}{2}", "\\dfrac12"),
    ("-\\frac{1}{2}", "\\frac{-2}{4}"),
    ("1\\frac{4}{5}", "9/5"),
    ("1 \\frac{4}{5}", "1.8"),
    ("4.5e33", "4.5 \\times 10^{33}"),
    ("3e6", "3000000"),
    ("1e-5", "0.00001"),
    ("-3./2", "-1.5"),
    ("(1,2)", "\\left( 1 ,\\, 2 \\right)"),
    ("336^\\circ", "336"),
    ("336", "336^{\\circ}"),
    ("10{,}000", "10000"),
    ("10,\\!080", "10080"),
    ("11,\\! 111,\\! 111,\\! 100", "11111111100"),
    ("\\$32,\\!348", "32348"),
    ("1,234.5", "1234.5"),
    (".0000672", "0.0000672"),
    ("x=5", "5"),
    ("5", "y = 5"),
    ("025", "25"),
    ("27.0", "27"),
]

DIFFERENT = [
    ("1/2", "1/3"),
    ("\\frac{12}{3}", "\\frac{1}{23}"),
    ("1/3", "0.333"),
    ("1/100000000", "1/100000001"),
    ("5.4", "5.41"),
    # Rounded to the sixth decimal, as math-verify compares, all of these would be 0.
    ("1e-8", "2e-8"),
    ("2.7778e-6", "2.9e-6"),
    ("-1100", "1100"),
]

# For math-verify to decide: something else than plain numbers, or more than one reading.
OPEN = [
    ("1/3", "0.333333"),
    ("3", "3.0000001"),
    ("1,2", "(1,2)"),
    ("(1,2)", "[1,2]"),
    ("1,2,2", "2,1,1"),
    ("5,5", "5"),
    ("$2$,$100$", "2100"),
    ("-1100", "-1, 100"),
    ("12", "1 2"),
    ("12", "1\\ 2"),
    ("x=5", "y=5"),
    ("1,23", "123"),
    ("62.5%", "62.5"),
    ("0.5", "50\\%"),
    ("\\sqrt{4}", "2"),
    ("\\frac{1}{0}", "2"),
    ("1e9999", "2"),
    ("9" * 500 + "/2", "1"),
    ("(1)", "1"),
    ("((1,2),3)", "((1,2),4)"),
    ("5\\text{ cm}", "5"),
]


@pytest.mark.parametrize(("gold", "answer"), EQUAL)
def test_equal_numbers(gold, answer):
    assert quick_verdict(gold, answer) is True
    assert quick_verdict(answer, gold) is True


@pytest.mark.parametrize(("gold", "answer"), DIFFERENT)
def test_different_numbers(gold, answer):
    assert quick_verdict(gold, answer) is False
    assert quick_verdict(answer, gold) is False


@pytest.mark.parametrize(("gold", "answer"), OPEN)
def test_what_is_left_open(gold, answer):
    assert quick_verdict(gold, answer) is None


@given(st.integers(-(10**6), 10**6), st.integers(1, 10**4), st.integers(-(10**6), 10**6), st.integers(1, 10**4))
def test_fractions_are_compared_as_fractions(a, b, c, d):
    # a/b = c/d if and only if ad = cb.
    assert quick_verdict(f"{a}/{b}", f"\\frac{{{c}}}{{{d}}}") is (a * d == c * b)


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
    "text",
    [
        "1" * 10_000,
        "1," * 5000 + "1",
        "(" * 5000 + "1" + ")" * 5000,
        "{,}" * 3000,
        "\\frac" * 2000,
        "1 " * 5000,
        "$," * 5000,
        "-" * 10_000,
        "\\left(" * 1600,
        "1,000" * 2000,
    ],
)
def test_long_answers_take_little_time(text):
    start = time.perf_counter()
    quick_verdict(text, "1,2")
    tokens(text)
    values(text, "2")
    assert time.perf_counter() - start < 2


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
        (r"\boxed{ . }", None),
        (r"\boxed{81", None),
        ("81", None),
        ("", None),
    ],
)
def test_the_final_answer_in_one_form(response, answer):
    assert final_answer(response) == answer


def test_answers_that_are_equal_only_as_mathematics_keep_their_own_form():
    assert final_answer(r"\boxed{1/2}") != final_answer(r"\boxed{0.5}")
