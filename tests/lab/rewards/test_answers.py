import pytest

from geoalign.lab.rewards.answers import final_answer


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
