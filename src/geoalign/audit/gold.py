"""Whether an answer is the gold answer, as far as their texts tell."""

from __future__ import annotations

from collections.abc import Sequence

import pandas

from geoalign.answers import answers_by_class
from geoalign.audit.spellings import IS_GOLD, IS_NOT_GOLD


class _AnyEqual:
    """Calls all answers equal that no text decides on."""

    def equal(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        return [True] * len(pairs)


def is_gold(scored: pandas.DataFrame) -> list[bool | None]:
    """Of each row whether its answer is the gold answer; None where one is missing or their texts do not tell.

    Where verdicts went by the spelling of an answer, the audit compared it with the gold answer already.
    """
    found: list[bool | None] = [None] * len(scored)
    columns = [scored[name].tolist() for name in ("answer", "final_answer", "by_spelling")]
    asked = []
    for place, (gold, answer, spelling) in enumerate(zip(*columns, strict=True)):
        if not isinstance(gold, str) or not isinstance(answer, str):
            continue
        if spelling in (IS_GOLD, IS_NOT_GOLD):
            found[place] = spelling == IS_GOLD
        else:
            asked.append((place, gold, answer))
    # Each row is compared with its own gold answer alone.
    answers = [text for _, gold, answer in asked for text in (gold, answer)]
    places = [place for place, _, _ in asked for _ in range(2)]
    sure = answers_by_class(answers, places)
    possible = answers_by_class(answers, places, _AnyEqual())
    for number, (place, _, _) in enumerate(asked):
        both = slice(2 * number, 2 * number + 2)
        if _are_equal(sure[both]):
            found[place] = True
        elif not _are_equal(possible[both]):
            found[place] = False
    return found


def _are_equal(pair: Sequence[str | None]) -> bool:
    return pair[0] is not None and pair[0] == pair[1]
