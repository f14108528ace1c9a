"""Which flagged reward comes first: in the report, on its page and in `flagged.csv`."""

import pandas

from geoalign.audit.spellings import IS_GOLD
from geoalign.audit.suspicion import by_suspicion


def test_what_was_checked_comes_first_and_within_each_kind_what_has_no_score_last():
    rows = pandas.DataFrame(
        [
            ("other, no score", False, None, None),
            ("other, low", False, None, 1.0),
            ("checked, no score", True, None, None),
            ("gold, no score", False, IS_GOLD, None),
            ("other, high", False, None, 2.0),
            ("other, high too", False, None, 2.0),
            ("gold, low", False, IS_GOLD, 0.5),
            ("checked, low", True, None, 0.1),
        ],
        columns=["name", "trusted", "by_spelling", "score"],
    ).assign(anomalous=True)
    assert by_suspicion(rows)["name"].tolist() == [
        "checked, low", "checked, no score", "gold, low", "gold, no score",
        "other, high", "other, high too", "other, low", "other, no score",
    ]  # fmt: skip
