"""The final answers of rollouts: read from responses, compared within a prompt, and with the gold answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas

from geoalign.answers import Equivalence, answers_by_class
from geoalign.answers.boxed import boxed_answer
from geoalign.audit.spellings import IS_GOLD, IS_NOT_GOLD


def with_answers(rows: pandas.DataFrame, equal: Equivalence | None) -> pandas.DataFrame:
    """The rows of a file with two columns on their answers, None where a response gives none.

    `final_answer` is the answer as it is spelt: that of the file, or else what is boxed in the response.
    `compared_answer` is one text for all equal answers to a prompt.

    Args:
        rows: has `step`, `group`, `response` and `final_answer`.
        equal: decides on pairs of answers on which no text decides.
    """
    given = zip(rows["final_answer"], rows["response"], strict=True)
    spelled = [boxed_answer(response) if answer is None else answer for answer, response in given]
    prompts = list(zip(rows["step"], rows["group"], strict=True))
    compared = answers_by_class(spelled, prompts, equal)
    # What is empty in its normal form is no answer.
    final = [answer if same is not None else None for answer, same in zip(spelled, compared, strict=True)]
    # As objects: a column of text would make NaN of a missing answer.
    return rows.assign(
        final_answer=pandas.Series(final, index=rows.index, dtype=object),
        compared_answer=pandas.Series(compared, index=rows.index, dtype=object),
    )


def is_gold(rows: pandas.DataFrame) -> list[bool | None]:
    """Of each row whether its answer is the gold answer; None where one is missing or their texts do not tell.

    Where verdicts went by the spelling of an answer, the audit compared it with the gold answer already.

    Args:
        rows: has `answer` (the gold one), `final_answer` and `by_spelling`.
    """
    found: list[bool | None] = [None] * len(rows)
    places = []
    answers = []
    row: Any
    for place, row in enumerate(rows[["answer", "final_answer", "by_spelling"]].itertuples(index=False)):
        if not isinstance(row.answer, str) or not isinstance(row.final_answer, str):
            continue
        if row.by_spelling in (IS_GOLD, IS_NOT_GOLD):
            found[place] = row.by_spelling == IS_GOLD
        else:
            places.append(place)
            answers.extend([row.answer, row.final_answer])
    # Each row is compared with its own gold answer alone: it is a group of two answers.
    pairs = [place for place in places for _ in range(2)]
    surely = answers_by_class(answers, pairs)
    possibly = answers_by_class(answers, pairs, _AnyEqual())
    for number, place in enumerate(places):
        if _are_one(surely, number):
            found[place] = True
        elif not _are_one(possibly, number):
            found[place] = False
    return found


class _AnyEqual:
    """Calls all answers equal that no text decides on."""

    def equal(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        return [True] * len(pairs)


def _are_one(classes: Sequence[str | None], number: int) -> bool:
    """Whether the gold answer and the response's, at 2 x `number` and after it, are in one class."""
    gold = classes[2 * number]
    return gold is not None and gold == classes[2 * number + 1]
