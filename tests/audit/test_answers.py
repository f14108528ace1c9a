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
    rows = pandas.DataFrame({"answer": [gold], "final_answer": [answer], "by_spelling": [spelling]}, dtype=object)
    assert is_gold(rows) == [same]
