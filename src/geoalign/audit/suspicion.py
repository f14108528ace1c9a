"""Which flagged rewards to look at first: one order for the report, its page and `flagged.csv`."""

from __future__ import annotations

import pandas

from geoalign.audit.spellings import IS_GOLD

# The columns that `by_suspicion` sorts by, and the one that says which rows are flagged.
COLUMNS_OF_SUSPICION = ("anomalous", "trusted", "by_spelling", "score")


def by_suspicion(rows: pandas.DataFrame) -> pandas.DataFrame:
    """The flagged rollouts, the most suspicious first: those that a check found wrong, then refusals of the gold answer
    for its spelling, then all others.

    Among each of the three the highest score comes first, and those without a score come last: what was checked stays
    before what was not, whatever its score. Equal ones keep the order of the input.
    """
    flagged = rows[rows["anomalous"]]
    order = pandas.DataFrame(
        {
            "checked": flagged["trusted"].eq(True),
            "gold": flagged["by_spelling"].eq(IS_GOLD),
            "score": flagged["score"],
        }
    )
    return flagged.loc[order.sort_values(["checked", "gold", "score"], ascending=False).index]
