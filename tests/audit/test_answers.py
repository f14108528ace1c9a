"""What is said of an answer beside the gold answer."""

import pandas
import pytest

from geoalign.audit.answers import is_gold


@pytest.mark.parametrize(
    ("gold", "answer", "spelling", "same"),
    [
        ("7", "8", None, False),
        ("7", " 7 ", None, True),
        ("1/2", "0.5", None, True),
        ("(x+1)^2", "x^2+2x+1", None, None),
        ("(x+1)^2", "x^2+2x+1", "gold", True),
        ("7", "7.0", "not gold", False),
        (None, "7", None, None),
        ("7", None, None, None),
    ],
)
def test_an_answer_is_called_another_than_the_gold_one_only_where_texts_tell(gold, answer, spelling, same):
    golds = () if gold is None else (gold,)
    assert is_gold(answered(golds, answer, spelling)) == [same]


@pytest.mark.parametrize(
    ("golds", "answer", "same"),
    [
        (("7", "1/2"), "0.5", True),
        (("7", "1/2"), "8", False),
        # Their texts tell of one gold answer that it is another one, and of the second nothing.
        (("7", "(x+1)^2"), "x^2+2x+1", None),
    ],
)
def test_an_answer_is_compared_with_each_gold_answer(golds, answer, same):
    assert is_gold(answered(golds, answer, None)) == [same]


def answered(golds, answer, spelling):
    return pandas.DataFrame(
        {"gold_answers": [golds], "final_answer": [answer], "by_spelling": [spelling]}, dtype=object
    )
