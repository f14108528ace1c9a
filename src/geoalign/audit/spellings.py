"""Answers whose verdict goes with their spelling, as where a verifier rewards `\\frac{35}{2}` and refuses `17.5`.

An answer is right or wrong however it is spelt. Where every spelling of it was judged alike, and one was rewarded and
another refused, the verifier went by the spelling, and all verdicts of one kind are mistakes. If the answer is a gold
answer, the refusals are. Otherwise only that one kind is wrong is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas

from geoalign.answers import Equivalence
from geoalign.answers.classes import compared_answers
from geoalign.files.columns import Bools

# Whether an answer that was judged by its spelling is a gold answer: column `by_spelling`. NO_GOLD: nothing tells, for
# there is none, or nobody could tell whether it is equal.
IS_GOLD = "gold"
IS_NOT_GOLD = "not gold"
NO_GOLD = "no gold"
# Answers that `summary.json` lists.
LISTED = 1000


@dataclass(frozen=True)
class SpelledAnswer:
    """An answer to a prompt whose verdict goes with its spelling.

    Attributes:
        rows: the rollouts that give it and have a reward, by their index.
        gold: one of IS_GOLD, IS_NOT_GOLD and NO_GOLD.
        verdicts: how often each spelling was rewarded and refused, the most frequent spelling first.
    """

    group: int
    rows: list[int]
    answer: str
    gold: str
    gold_answer: str | None
    verdicts: dict[str, tuple[int, int]]


def judged_by_spelling(frame: pandas.DataFrame, high: float, equal: Equivalence | None) -> list[SpelledAnswer]:
    """The answers of a step whose verdict goes with their spelling.

    Args:
        frame: has `group`, `final_answer` (as it is spelt), `compared_answer` (one text for equal answers), `answer`
            (the gold one), `gold_answers` and `reward`.
        high: the reward of a response that was accepted.
        equal: decides on pairs of answers on which no text decides.
    """
    given = frame[frame["reward"].notna() & frame["compared_answer"].notna()]
    given = given.assign(spelling=given["final_answer"].str.strip())
    answers = given.groupby(["group", "compared_answer"], sort=False)
    several = (answers["reward"].transform("nunique") > 1) & (answers["spelling"].transform("nunique") > 1)
    found = []
    key: Any
    for key, rows in given[several].groupby(["group", "compared_answer"], sort=False):
        verdicts = counted_verdicts(rows["spelling"], rows["reward"] == high)
        if not goes_with_spelling(verdicts):
            continue
        one_gold = rows["answer"].nunique() == 1
        with_gold = rows[rows["answer"].notna()]
        gold_answers = with_gold["gold_answers"].iloc[0] if one_gold else ()
        answer = SpelledAnswer(
            group=int(key[0]),
            rows=rows.index.tolist(),
            answer=key[1],
            gold=_is_gold(gold_answers, list(verdicts), equal),
            gold_answer=with_gold["answer"].iloc[0] if one_gold else None,
            verdicts=verdicts,
        )
        found.append(answer)
    return found


def counted_verdicts(spellings: Iterable[str], rewarded: Iterable[bool]) -> dict[str, tuple[int, int]]:
    """How often each spelling was rewarded and refused, the most frequent spelling first."""
    given: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    for spelling, is_rewarded in zip(spellings, rewarded, strict=True):
        given[spelling] += 1
        accepted[spelling] += bool(is_rewarded)
    return {spelling: (accepted[spelling], count - accepted[spelling]) for spelling, count in given.most_common()}


def goes_with_spelling(verdicts: dict[str, tuple[int, int]]) -> bool:
    """Whether each spelling was judged alike, and not all of them were."""
    alike = all(not (rewarded and refused) for rewarded, refused in verdicts.values())
    return alike and len({rewarded > 0 for rewarded, _ in verdicts.values()}) == 2


def _is_gold(gold_answers: Sequence[str], spellings: Sequence[str], equal: Equivalence | None) -> str:
    """Whether an answer is one of the gold answers, by its spellings: one of IS_GOLD, IS_NOT_GOLD and NO_GOLD."""
    found = NO_GOLD if not gold_answers else IS_NOT_GOLD
    for gold_answer in gold_answers:
        (gold, *answers), in_doubt = compared_answers([gold_answer, *spellings], [0] * (1 + len(spellings)), equal)
        if gold is not None and gold in answers:
            return IS_GOLD
        if in_doubt[0]:
            found = NO_GOLD
    return found


def flags_by_spelling(
    frame: pandas.DataFrame, answers: Sequence[SpelledAnswer], flagged: Bools, *, high: float, exclusive: bool
) -> Bools:
    """What is flagged, once it is known which verdicts go with a spelling.

    A curator takes such verdicts for chance, and would flag the rarer kind. Of the gold answer all refusals are flagged
    and no reward. Of another answer a reward is not flagged because another spelling was refused; where a reward for
    another answer to the prompt contradicts it, the curator's flags stay. Where there is no gold answer, a refused
    spelling of the only rewarded answer is flagged, for verifiers rather refuse a spelling than reward one. An answer
    whose truth a label tells is left to the curator.

    Args:
        frame: as in `judged_by_spelling`, with `exclusive` (whether at most one answer to the prompt is right) and
            `label`.
        flagged: what the curator flags.
        exclusive: False: several answers to any prompt may be right.
    """
    changed = pandas.Series(flagged, index=frame.index)
    rewarded = frame["reward"] == high
    known = frame["label"].notna()
    changed[_spelt_like_gold_and_refused_elsewhere(frame, rewarded, known)] = False
    by_group = frame.groupby("group")
    for answer in answers:
        rows = answer.rows
        if known[rows].any():
            continue
        group = by_group.get_group(answer.group)
        other = group["compared_answer"].notna() & (group["compared_answer"] != answer.answer)
        excluded = exclusive and group["exclusive"].all()
        if answer.gold != IS_GOLD and excluded and (other & (group["reward"] == high)).any():
            continue
        right = [row for row in rows if rewarded[row]]
        refused = [row for row in rows if not rewarded[row]]
        changed[right] = False
        if answer.gold != IS_NOT_GOLD:
            changed[refused] = True
    return changed.to_numpy(dtype=bool)


def spelling_column(frame: pandas.DataFrame, answers: Sequence[SpelledAnswer]) -> pandas.Series:
    """Of each row whether its answer, which was judged by its spelling, is the gold answer; None for other rows."""
    column = pandas.Series(None, index=frame.index, dtype=object)
    for answer in answers:
        column[answer.rows] = answer.gold
    return column


def _spelt_like_gold_and_refused_elsewhere(
    frame: pandas.DataFrame, rewarded: pandas.Series, known: pandas.Series
) -> pandas.Series:
    """The rewarded rows that are spelt like a gold answer, though the same answer of their group was refused too.

    That refusal is no reason to flag them. An answer with a label is left out.
    """
    answers = [frame["group"], frame["compared_answer"]]
    refused = frame["reward"].notna() & ~rewarded
    elsewhere = refused.groupby(answers).transform("any").eq(True)
    labelled = known.groupby(answers).transform("any").eq(True)
    spelt = zip(frame["final_answer"], frame["gold_answers"], strict=True)
    alike = pandas.Series(
        [isinstance(answer, str) and answer.strip() in map(str.strip, golds) for answer, golds in spelt],
        index=frame.index,
        dtype=bool,
    )
    return rewarded & alike & elsewhere & ~labelled


def spellings_summary(answers: Sequence[tuple[int, SpelledAnswer]], *, redact: bool) -> dict[str, Any]:
    """`spellings` of `summary.json`: the answers judged by their spelling, each with the step it is of."""
    listed = []
    for step, answer in answers[:LISTED]:
        spellings = [
            {"spelling": None if redact else spelling, "rewarded": rewarded, "refused": refused}
            for spelling, (rewarded, refused) in answer.verdicts.items()
        ]
        listed.append(
            {
                "step": step,
                "group": answer.group,
                "index": answer.rows[0],
                "gold": None if redact else answer.gold_answer,
                "is_gold": {IS_GOLD: True, IS_NOT_GOLD: False, NO_GOLD: None}[answer.gold],
                "spellings": spellings,
            }
        )
    prompts = len({(step, answer.group) for step, answer in answers})
    gold = sum(1 for _, answer in answers if answer.gold == IS_GOLD)
    return {"prompts": prompts, "answers": len(answers), "gold": gold, "listed": listed}
