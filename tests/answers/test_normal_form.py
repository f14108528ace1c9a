import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from geoalign import boxed_answers
from geoalign.answers import final_answer, is_mathematical, normal_form
from geoalign.errors import InputError

# Each line is one answer in several spellings, the first in its normal form.
SPELLINGS = [
    ["1234", "1,234", "1{,}234", r"1\,234", r"1,\!234", r"1,\! 234", "$1,234$", "1234.", "1,234.00", "+1234", "01234"],
    ["0.5", "0.50", ".5", "+.5", r"\text{0.5}"],
    ["63", "63.", "63. ", "$63$.", r"\(63\)", r"\[63\]", "{63}", "(63)", "**63**", r"\boxed{63}", "６３"],
    ["17", r"\text{17}", r"\mathrm{17}", r"\textbf{17}", "17\\ ", "17,", r"17\,", r"\,17",
      "~17", "17\\\\", r"\bf 17", r"\bf{17}",
     r"\textcolor{red}{17}", r"\color{blue}{17}", r"\underline{17}", r"\fbox{17}", r"\large 17", "=17",
     "17 units", r"17\text{ square units}"],
    ["0", "-0", "0.0", "-0.00", "000"],
    ["-5", "−5", "–5", "- 5"],
    [r"\frac{1}{2}", r"\dfrac{1}{2}", r"\tfrac{1}{2}", r"\frac12", r"\frac 1 2", r"\frac{1}2", "1/2", "½", "1⁄2",
     "(1/2)", "{1}/{2}", r"\nicefrac12", r"\sfrac{1}{2}", r"\left(\frac12\right)"],
    [r"-\frac{1}{2}", r"\frac{-1}{2}", r"\frac{1}{-2}", "-1/2", "−½"],
    [r"2\frac{3}{4}", "2 3/4", r"2\frac34", "2¾", r"2\ \tfrac{3}{4}"],
    [r"\frac{\pi}{2}", r"\pi/2", "π/2", r"\dfrac\pi2"],
    [r"\frac{2\sqrt{3}}{3}", r"2\sqrt{3}/3", "2√3/3"],
    [r"\frac{3\pi}{4}", r"3\pi/4", "3π/4"],
    [r"2\pi", r"2\cdot\pi", r"{2}\pi", "2*π"],
    [r"0.1\overline{6}", r"0.1\bar{6}", r"0.1\bar6"],
    [r"2.5\times10^6", "2.5 million", r"2.5\text{ million}", r"\$2.5\text{ million dollars}"],
    ["20 degC", r"20^\circ\text{C}", "20°C", "20 degrees Celsius", r"20\,^\circ\mathrm{C}"],
    [r"\sqrt{2}", r"\sqrt2", r"\sqrt 2", "√2"],
    [r"(2,\infty)", r"\left(2, \infty\right)", "(2, ∞)", r"(2,+\infty)", r"\bigl( 2,\infty \bigr)"],
    [r"x\le3", r"x \leq 3", "x ≤ 3", r"x\leqslant 3", "x<=3"],
    ["x+1", "x + 1", "$x+1$", r"x\,+\,1"],
    ["x^2", "x^{2}", "x²"],
    ["45", r"45^\circ", r"45^{\circ}", "45°", r"45\degree", "45 degrees", r"45\text{ degrees}"],
    ["5 cm", "5cm", r"5\text{ cm}", r"5\,\mathrm{cm}", "5 centimeters", "5 centimetre"],
    ["5 cm^2", r"5\text{ cm}^2", "5 square centimeters", "5 sq cm", "5 cm²"],
    [r"10\%", "10%", "10 %", "10 percent", r"10\text{ percent}"],
    ["5", r"\$5", "$5", "5 dollars", r"\$5.00"],
    ["B", "(B)", "B.", r"\textbf{B}", r"\text{(B)}", r"\mathbf{(B)}", "Option B", "B) 42", r"\textbf{(B)}\ 42"],
    ["yes", "Yes", "YES.", r"\text{Yes}"],
    ["23_6", "23_{6}", r"23_{\text{six}}", "(23)_6", "23₆", "23 (base 6)"],
    [r"4.5\times10^{33}", "4.5e33", r"4.5 \times 10^{33}", r"4.5\cdot 10^{33}"],
]  # fmt: skip


@pytest.mark.parametrize("spellings", SPELLINGS, ids=[line[0] for line in SPELLINGS])
def test_spellings_of_one_answer_are_one_text(spellings):
    assert {normal_form(answer) for answer in spellings} == {spellings[0]}


DIFFERENT = [
    ("(1,234)", "1234"), ("1, 234", "1234"), ("1,2", "12"), ("1 2", "12"), ("0,123", "123"), ("1,23", "123"),
    (r"10\%", "10"), ("5 cm", "5"), ("5 cm", "5 m"), ("5 cm", "5 cm^2"), (r"45^\circ C", "45"), ("x=5", "5"),
    ("x=5", "y=5"), ("(1,2)", "[1,2]"), ("(1,2)", "(2,1)"), (r"\{1,2\}", "(1,2)"), ("A", "a"), ("A", "B"),
    ("(A) 3 (B) 5", "(A) 3 (B) 6"), ("(B) - 5", "B"), ("23_6", "23_5"), ("23_6", "23"), ("3", "3.5"),
    ("1–5", "-5"), ("√2", "2"), ("x²", "x2"), ("10²", "102"), (r"\frac123", r"\frac{1}{23}"), ("4 10/3", "10/3"),
    ("2½", "1/2"), ("50 cents", r"\$50"), ("no solution", "no"), ("-5", "5"), ("5!", "5"), ("1.5", "15"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different_answers_stay_different(one, other):
    assert normal_form(one) != normal_form(other)


@given(st.text(max_size=60) | st.text(alphabet="\\{}()[]$.,^_ 0123456789frac√²½–\ud800", max_size=60))
def test_any_text_has_a_form_that_is_a_text(text):
    assert isinstance(normal_form(text), str)


@pytest.mark.parametrize(
    "piece", ["\\boxed{", "{", "$ .", "\\text{", "√(", "²", "½", "\\frac{1}", "1,000,", "(B) ", "cm "]
)
def test_hostile_lengths_take_no_time(piece):
    for length in (1900, 100_000):
        started = time.process_time()
        normal_form(piece * (length // len(piece)))
        assert time.process_time() - started < 1.0


def test_answers_of_texts_and_conversations():
    conversation = [
        {"role": "user", "content": r"\boxed{7}?"},
        {"role": "assistant", "content": [{"type": "text", "text": r"It is \boxed{\dfrac12}."}]},
    ]
    completions = [r"so \boxed{1{,}234}", conversation, [{"role": "assistant", "content": None}], r"\boxed{}", "8"]
    assert boxed_answers(completions) == ["1234", r"\frac{1}{2}", None, None, None]
    assert final_answer(r"\boxed{-2} and \boxed{1}") == "-2,1"
    for wrong in (r"\boxed{1}", [5], [None], [[5]], [[{"role": "assistant", "content": 5}]]):
        with pytest.raises(InputError, match="completion"):
            boxed_answers(wrong)


@pytest.mark.parametrize(
    ("answer", "mathematical"),
    [
        ("42", True), (r"\frac{1}{2}", True), ("x^2+1", True), ("(B)", True), (r"5\text{ cm}", True), ("yes", True),
        (r"\sin x", True), ("Paris", False), ("The author argues that", False), ("", False),
        (r"\text{the second train}", False), ("it is 5", False),
    ],
)  # fmt: skip
def test_what_a_computer_algebra_could_compare(answer, mathematical):
    assert is_mathematical(answer) is mathematical
