"""Forms that people write: what is right in them, and what must not become right by reading them."""

import pytest

# (gold, answer): the same answer, whichever of the two is the gold one.
EQUAL = [
    # Unicode signs and digits
    (r"(2,\infty)", "(2, ∞)"), (r"(-\infty,1)\cup(2,\infty)", "(-∞,1)∪(2,∞)"), (r"2\sqrt{3}", "2√3"),
    (r"2\sqrt{x+1}", "2√(x+1)"), ("2", "∛8"), ("x^2+1", "x²+1"), ("10^{-3}", "10⁻³"), ("x_1+x_2", "x₁ + x₂"),
    (r"\frac{1}{2}", "½"), (r"\frac{1}{2}", "1⁄2"), ("0.75", "¾"), ("45", "45°"), ("6", "2·3"), ("-5", "–5"),
    ("12", "１２"), ("5", "٥\u200f"), (r"x\ne 2", "x≠2"), (r"\emptyset", "∅"), (r"2\pm\sqrt{3}", "2 ± √3"),
    (r"3\times10^{8}", "3×10⁸ m/s"), (r"\frac{\pi}{2}", "π/2"), ("-0.5", "−½"),
    # mixed numbers
    (r"\frac{11}{4}", "2 3/4"), ("2.75", "2½+¼"), ("-2.75", "-2 3/4"), ("-2.75", r"-2\frac34"),
    ("3/2, 7/3", "1 1/2, 2 1/3"),
    ("2.75", "2 3/4 cups"),
    # intervals and inequalities
    (r"(2,\infty)", "x>2"), (r"[2,\infty)", r"2\le x"), ("(1,3]", r"1<x\le 3"), ("(1,3]", r"3\ge x>1"),
    (r"(-\infty,1)\cup(2,\infty)", r"x<1 \text{ or } x>2"),
    (r"[\sqrt2,\infty)", r"x\ge\sqrt{2}"), ("1<x<3", "3>x>1"),
    # bases, units, letters, words
    ("23_6", r"23_{\text{six}}"), ("2516_8", "(2516)_8"), ("15", "15_{10}"), ("5 cm", r"5\text{ centimeters}"),
    ("3 m/s", r"3\text{ m s}^{-1}"), ("5", r"5\mathrm{~m}"), ("100", "100℃"), ("12.5", r"12.5\%"), ("0.125", r"12.5\%"),
    (r"\$5", "5 dollars"), ("B", "(B)"), ("B", "B) 42"), (r"\text{(B)}", r"\textbf{(B)}\ 42"), ("B", "B: 42"),
    ("True", "true"),
    (r"6.63\times10^{-34}", "6.63 × 10^-34"), (r"1.6\times10^{-19}", "1.6 x 10^-19"), ("5", "£5"),
    # what stands around an answer, and other commands for it
    ("7", "7\\ "), ("7", r"\textcolor{red}{7}"), ("7", r"\underline{7}"), ("7", "**7**"), ("7", "7;"), ("7", "7\\\\"),
    ("1234", r"\text{1,234}"), ("1/2", r"\nicefrac{1}{2}"), (r"45^\circ", r"45\degree"), ("B", "The answer is B"),
    ("1/3", r"0.\overline{3}"), ("1/6", r"0.1\bar6"), ("1000.5", r"1{,}000\frac12"), (r"\angle ABC", "∠ABC"),
    ("5000000", r"5\text{ million}"), (r"\$2.5\text{ million}", "2,500,000"),
    (r"100^\circ\text{C}", "100 degrees Celsius"), (r"100^\circ F", r"100^\circ"),
    (r"5\ \mu\text{m}", "5 micrometers"), (r"7\text{ a.m.}", "7 am"),
    ("5 ft 6 in", r"5\text{ ft } 6\text{ in}"), ("f'(x)=2x", "f'(x) = 2x"),
    # magnitudes
    (r"\frac{1}{2^{60}}", "2^{-60}"), (r"1.6\times10^{-19}", r"16\times10^{-20}"), (r"\frac{1}{720}", "0.001389"),
    ("1/3", "0.333333"), (r"\{1/3,2\}", r"\{0.333333,2\}"), (r"\sqrt{2}+\sqrt{3}", r"\sqrt{5+2\sqrt{6}}"),
]  # fmt: skip

DIFFERENT = [
    (r"\sqrt{5}", "√7"), ("5", "√5"), ("2", "2√3"), ("5", "5²"), ("52", "5²"), ("2", "2½"), ("12", "½"), ("8", "∞"),
    ("0", "∅"), (r"(-\infty,3)", "(-∞,4)"), ("5", "–5"), ("-4", "1–5"), ("x2", "x²"), ("6", "6⁻¹"),
    ("2", "2 3/4"), ("3/4", "2 3/4"), ("10", "4 10/3"), ("0.75", "2 3/4"), ("1.5", r"2\frac34"), ("-1.25", "-2 3/4"),
    (r"(2,\infty)", r"x\ge2"), ("(1,3)", r"1\le x\le3"), ("(1,3]", r"1\le x<3"), (r"(2,\infty)", "x<2"), ("2", "x>2"),
    ("(2,3)", "x>2"), ("x>2", "y>3"), (r"(1,\infty)", r"x>1 \text{ and } x>2"),
    ("23_6", "23_5"), ("23", "23_6"), ("15", "23_6"), ("23_6", "15"), ("5", "101_2"),
    ("5 cm", "5 m"), ("5 kg", "5 g"), (r"5\text{ cm}", r"5\text{ cm}^2"), ("5 km/h", "5 m/s"), ("2 hours", "2 minutes"),
    (r"5\text{ cm}, 3\text{ cm}", r"5\text{ m}, 3\text{ m}"),
    ("x=5 cm", "x=5 m"), ("£5", r"\$5"), (r"5\text{ m/s}", r"5\text{ m/s}^2"), (r"1.6\times10^{-19}", "1.7*10^-19"),
    (r"5\%", "5 cm"), ("0.5", r"0.5\%"), (r"\$5", "5 cents"), (r"45^\circ", "45 radians"), (r"100^\circ C", "100 K"),
    (r"100^\circ\text{F}", "100°C"), ("20 degrees Celsius", "20 degrees Fahrenheit"), ("60 rpm", "60 mph"),
    (r"5\text{ mV}", r"5\text{ V}"), (r"3\text{ MJ}", r"3\text{ mJ}"), (r"8\text{ nm}", "8 mm"), ("5 µm", "5 mm"),
    (r"7\text{ a.m.}", r"7\text{ p.m.}"), (r"5\text{ bits}", r"5\text{ bytes}"),
    ("5", r"5\text{ million}"), (r"5\text{ million}", r"5\text{ billion}"),
    (r"5\times10^{-20}\%", r"6\times10^{-20}\%"), ("A. 5", "B. 5"),
    (r"0.\overline{3}", "0.3"), (r"0.1\overline{6}", r"0.\overline{16}"),
    ("0.64N", "0.64"), ("3", "3mg"), ("6m", "6s"),
    ("5 ft 6 in", "5 ft 7 in"), ("2 hours 30 minutes", "2 hours, 45 minutes"),
    ("f''(2)", "f'(2)"), (r"30^\circ", "30'"),
    ("B", "(C) 42"), ("B", "(A) 42 (B) 43"), ("B", "A or B"), ("B", "BC"), ("5", "B"), ("true", "false"), ("yes", "no"),
    ("123", "0,123"),
    ("0.00000001", "0.00000002"), ("0", "0.0000001"), (r"1.38\times10^{-23}", r"6.63\times10^{-34}"),
    ("1e-20", "1e-21"),
    (r"\frac{1}{52!}", r"\frac{2}{52!}"), ("e^{-50}", "e^{-51}"), (r"10^{-20}\pi", "10^{-20}e"),
    ("(10^{-20},1)", "(10^{-21},1)"), (r"\{10^{-20},1\}", r"\{10^{-21},1\}"), ("[10^{-20},1]", "[10^{-21},1]"),
    (r"\begin{pmatrix}10^{-20}\\1\end{pmatrix}", r"\begin{pmatrix}10^{-21}\\1\end{pmatrix}"),
    ("x>10^{-20}", "x>10^{-21}"), ("0.000333", r"\frac{1}{3000}"),
    ("(0,1)", "(10^{-20},1)"),
]  # fmt: skip

# What the response may leave out, and the gold answer may not: (gold, answer) is right, the other way round is wrong.
LEFT_OUT = [("23_6", "23")]
# Judgements that docs/rewards.md states.
ORDERS = [
    ("1,2", "2,1", True), (r"\{1,2\}", r"\{2,1\}", True), (r"\{1,2\}", "2,1", True), ("(1,2)", "(2,1)", False),
    ("(1,2)", "2,1", False), (r"\{1,2\}", r"\{1,1,2\}", True), ("1,2", "1", False), ("1,2", "1,2,3", False),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_one_answer_in_two_forms_is_right_whichever_is_the_gold_one(reward, one, other):
    assert reward.outcomes([rf"\boxed{{{other}}}", rf"\boxed{{{one}}}"], [one, other]) == ["correct"] * 2


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_another_answer_in_such_a_form_is_wrong(reward, one, other):
    gold_and_answer = (one, other)
    assert reward.score([rf"\boxed{{{gold_and_answer[1]}}}"], [gold_and_answer[0]]) == [0.0]


@pytest.mark.parametrize(("gold", "answer"), LEFT_OUT)
def test_a_base_may_be_left_out_and_not_be_added(reward, gold, answer):
    assert reward.score([rf"\boxed{{{answer}}}", rf"\boxed{{{gold}}}"], [gold, answer]) == [1.0, 0.0]


@pytest.mark.parametrize(("gold", "answer", "right"), ORDERS)
def test_the_order_counts_in_brackets_of_a_tuple_alone(reward, gold, answer, right):
    assert reward.score([rf"\boxed{{{answer}}}"], [gold]) == [float(right)]
