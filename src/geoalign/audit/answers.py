"""The final answers of rollouts: read from responses, compared within a prompt, and with the gold answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas

from geoalign.answers import Equivalence, answers_by_class
from geoalign.answers.boxed import boxed_answer
from geoalign.answers.classes import compared_answers
from geoalign.audit.spellings import IS_GOLD, IS_NOT_GOLD


def with_answers(rows: pandas.DataFrame, equal: Equivalence | None) -> pandas.DataFrame:
    """The rows of a file with four columns on their answers, of which two are None where a response gives none.

    `final_answer` is the answer as it is spelt: that of the file, or else what is boxed in the response.
    `compared_answer` is one text for all equal answers to a prompt.
    `undecided` says of a prompt that it has two answers of which nobody could tell whether they are one.
    `exclusive` says of a prompt whether at most one of its answers is right. It is so unless answers are undecided, or
    the file has several gold answers to the prompt. Nothing may be concluded from two different answers elsewhere.

    Args:
        rows: has `step`, `group`, `response`, `final_answer` and `gold_answers`.
        equal: decides on pairs of answers on which no text decides.
    """
    given = zip(rows["final_answer"], rows["response"], strict=True)
    spelled = [boxed_answer(response) if answer is None else answer for answer, response in given]
    prompts = list(zip(rows["step"], rows["group"], strict=True))
    compared, undecided = compared_answers(spelled, prompts, equal)
    # What is empty in its normal form is no answer.
    final = [answer if same is not None else None for answer, same in zip(spelled, compared, strict=True)]
    has_several_golds = rows["gold_answers"].map(len) > 1
    several_golds = has_several_golds.groupby([rows["step"], rows["group"]]).transform("any")
    # As objects: a column of text would make NaN of a missing answer.
    return rows.assign(
        final_answer=pandas.Series(final, index=rows.index, dtype=object),
        compared_answer=pandas.Series(compared, index=rows.index, dtype=object),
        undecided=undecided,
        exclusive=~several_golds & ~pandas.Series(undecided, index=rows.index),
    )


def is_gold(rows: pandas.DataFrame) -> list[bool | None]:
    """Of each row whether its answer is a gold answer; None where one is missing or their texts do not tell.

    Where verdicts went by the spelling of an answer, the audit compared it with the gold answers already.

    Args:
        rows: has `gold_answers`, `final_answer` and `by_spelling`.
    """
    found: list[bool | None] = [None] * len(rows)
    places = []
    answers = []
    row: Any
    for place, row in enumerate(rows[["gold_answers", "final_answer", "by_spelling"]].itertuples(index=False)):
        if row.gold_answers is None or not isinstance(row.final_answer, str):
            continue
        if row.by_spelling in (IS_GOLD, IS_NOT_GOLD):
            found[place] = row.by_spelling == IS_GOLD
            continue
        for gold in row.gold_answers:
            places.append(place)
            answers.extend([gold, row.final_answer])
    # Each row is compared with one gold answer at a time: the two are a group of answers.
    pairs = [number for number in range(len(places)) for _ in range(2)]
    surely = answers_by_class(answers, pairs)
    possibly = answers_by_class(answers, pairs, _AnyEqual())
    are_surely: dict[int, bool] = {}
    are_possibly: dict[int, bool] = {}
    for number, place in enumerate(places):
        are_surely[place] = are_surely.get(place, False) or _are_one(surely, number)
        are_possibly[place] = are_possibly.get(place, False) or _are_one(possibly, number)
    for place, is_possible in are_possibly.items():
        if are_surely[place]:
            found[place] = True
        elif not is_possible:
            found[place] = False
    return found


def told_golds(rows: pandas.DataFrame) -> pandas.Series:
    """The gold answer of each row as verifiers are told it: a text, or a list where there are several; None without.

    Args:
        rows: has `answer` and `gold_answers`.
    """
    told = []
    for answer, golds in zip(rows["answer"], rows["gold_answers"], strict=True):
        told.append(list(golds) if len(golds) > 1 else answer)
    return pandas.Series(told, index=rows.index, dtype=object)


class _AnyEqual:
    """Calls all answers equal that no text decides on."""

    def equal(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        return [True] * len(pairs)


def _are_one(classes: Sequence[str | None], number: int) -> bool:
    """Whether the gold answer and the response's, at 2 x `number` and after it, are in one class."""
    gold = classes[2 * number]
    return gold is not None and gold == classes[2 * number + 1]
