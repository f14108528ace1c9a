"""Which rollouts of a file belong to one group, and what its ids name.

A group is what the file says: a field that names it. Where a file has none, rollouts of one problem are a group: those
of one prompt whose gold answers, images, environments and problem ids are the same, as far as the file has them. A
prompt's text alone makes no group where one of these differs: "Guess the hidden word." may be asked of many words.

An id may be that of a rollout or that of a problem. It is that of a problem where it comes again in the rows of one
problem and these differ; rows that say the same again under one id are duplicates.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from geoalign.answers.boxed import boxed_answer
from geoalign.dumps.field_names import ENVIRONMENTS, GOLD_ANSWERS, IDS, LIKELY_GOLD_ANSWERS, MEDIA, PROBLEM_IDS
from geoalign.dumps.values import BadValueError, described, field_of

_PARTS = (*GOLD_ANSWERS, *LIKELY_GOLD_ANSWERS, *MEDIA, *ENVIRONMENTS, *PROBLEM_IDS, *IDS)
# By the object that holds them the fields inside it.
_DOTTED: dict[str, list[str]] = {}
for _name in _PARTS:
    if "." in _name:
        _DOTTED.setdefault(_name.partition(".")[0], []).append(_name)
_PLAIN = frozenset(name for name in _PARTS if "." not in name)
# Texts up to this length stand for themselves, longer ones and what is nested by a digest.
_LONGEST_NAME = 200
# Ids are of problems, and environments tell problems apart, only where at least this share of rows has another row of
# the same.
_LEAST_SHARED = 0.5
# A field holds the responses' own answers where at least so many refused responses, and so large a share of them, give
# just what it says.
_LEAST_REFUSED, _LEAST_OWN = 4, 0.95
# Where in a response without a box its answer is looked for: in its last characters. Longer answers than this, as a
# program, stand nowhere by chance.
_ENDING, _LONG_ANSWER = 200, 60


@dataclass(frozen=True, eq=False)
class Grouping:
    """The groups of a file.

    Attributes:
        names: for each row the name of its group.
        fields: the fields whose values the rows of a group share.
        own: whether the file itself names the group, or the user the field that does.
        ids_are_problems: the field of ids names problems, or is a running number: it tells no rollout from another.
        duplicates: rows whose id another row had before, by their place, with the place of that row.
        remark: what else a reader should know of how groups were made; empty where there is nothing.
        own_answer: a field whose name stands for gold answers, but which holds what the responses answered; or empty.
    """

    names: Sequence[str]
    fields: tuple[str, ...]
    own: bool
    ids_are_problems: bool
    duplicates: Mapping[int, int]
    remark: str = ""
    own_answer: str = ""


def present_parts(row: Mapping[str, Any]) -> list[str]:
    """The fields of a row that may tell its problem from another; a truth value is a verdict, not a problem's."""
    names = [name for name in row if name in _PLAIN and row[name] is not None and not isinstance(row[name], bool)]
    inside = [name for outer, dotted in _DOTTED.items() if outer in row for name in dotted]
    names += [name for name in inside if field_of(row, name) is not None]
    return names


def name_of_part(field: str, value: Any) -> str:
    """A text for the value of a field that may tell problems apart, the same for equal values alone.

    It is a digest of what is long or nested, unless the field may hold what a response answered: that is looked for in
    the response.
    """
    if field in LIKELY_GOLD_ANSWERS and isinstance(value, str):
        return value
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=_texts_of_bytes)
    if isinstance(value, str) and len(text) <= _LONGEST_NAME:
        return text
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _texts_of_bytes(value: Any) -> str:
    return hashlib.blake2b(value, digest_size=16).hexdigest() if isinstance(value, bytes) else str(value)


def name_of_group(field: str, value: Any) -> str:
    """The name of a group from the value of its field; different values have different names."""
    if isinstance(value, str):
        return value
    if isinstance(value, float) and not abs(value) <= 2**53:
        raise BadValueError(field, "a group that can be told from others", described(value))
    try:
        return json.dumps(value, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):
        raise BadValueError(field, "a group that can be told from others", described(value)) from None


def group_rows(
    frame: pandas.DataFrame,
    parts: Mapping[str, Sequence[str | None]],
    *,
    group: str | None,
    id_field: str | None,
    prompt: str | None,
    gold: str | None,
    gold_asked: bool = False,
) -> Grouping:
    """The groups of a file with one rollout a row.

    Args:
        frame: its rows, with `step`, `own` (the group's name as the file gives it), `asked` (the prompt as a text),
            `id`, `response` and `reward`; `own` and `asked` are None where there is none.
        parts: by field what may tell a row's problem from another, in the order of rows; None where a row lacks it.
        group: the field that names the group, as the file or the user says; None: none does.
        id_field: the field of ids; None: there is none.
        prompt: the field of the prompt; None: there is none.
        gold: the field of the gold answer, as format or user say; None: there is none.
        gold_asked: the user says so.
    """
    steps = pandas.factorize(frame["step"])[0]
    doubtful = {name: parts[name] for name in LIKELY_GOLD_ANSWERS if name in parts}
    if gold_asked and gold in doubtful:
        del doubtful[gold]
    not_gold = _own_answers(frame, doubtful, steps)
    own_answer = not_gold[0] if not_gold else ""
    facts: list[Sequence[str | None]] = [frame["asked"].tolist()]
    for name, column in parts.items():
        if name in (*GOLD_ANSWERS, *MEDIA, gold, "answer") and name not in not_gold:
            facts.append(column)

    ids_are_problems = False
    duplicates: Mapping[int, int] = {}
    if id_field is not None:
        ids = _refined(steps, frame["id"].tolist())
        ids_are_problems = _what_ids_are(ids, facts, frame, steps) != "rollouts"
        if not ids_are_problems:
            duplicates = _repeated(ids)

    if group is not None:
        return Grouping(frame["own"].tolist(), (group,), True, ids_are_problems, duplicates, own_answer=own_answer)
    usable = {name: column for name, column in parts.items() if name not in not_gold}
    problem_id = _problem_id(frame, usable, facts, steps)
    fields, columns = _grouping_fields(frame, usable, steps, prompt=prompt, gold=gold, problem_id=problem_id)
    remark = ""
    if not_gold:
        remark = (
            f"`{own_answer}` differs within prompts and is what refused responses answered, so it splits no group: "
            f"--field final_answer={own_answer} reads it as the responses' answer"
        )
    return Grouping(joined_names(columns, len(frame)), fields, False, ids_are_problems, duplicates, remark, own_answer)


def _grouping_fields(
    frame: pandas.DataFrame,
    parts: Mapping[str, Sequence[str | None]],
    steps: np.ndarray,
    *,
    prompt: str | None,
    gold: str | None,
    problem_id: str | None,
) -> tuple[tuple[str, ...], list[Sequence[str | None]]]:
    """The fields that make the groups of a file that names none, and their values.

    Fields are added, the prompt first and the problem's id last, as long as each splits the groups further; one
    that is uncertain, as an environment, is left out if it would leave most rows alone.
    """
    fields: list[str] = []
    columns: list[Sequence[str | None]] = []
    group_of_row = steps

    if prompt is not None:
        asked: list[str | None] = frame["asked"].tolist()
        of_prompts = _refined(steps, asked)
        # Prompts that are all different, as of a dialogue that has gone on, are one problem's where its id says so.
        of_one_id = problem_id is not None and _agree_on_gold(parts, steps, problem_id, gold)
        if _has_pairs(of_prompts) or not of_one_id:
            fields.append(prompt)
            columns.append(asked)
            group_of_row = of_prompts

    others = [name for name in parts if name not in (*PROBLEM_IDS, *IDS)]
    # The problem's id comes last: where text and gold answer tell problems apart it adds nothing.
    for name in [*others, *([] if problem_id is None else [problem_id])]:
        refined = _refined(group_of_row, parts[name])
        if refined.max() == group_of_row.max() and fields:
            continue
        # What differs in nearly every row, as the number of a process does, tells no problem from another.
        certain = name in (*GOLD_ANSWERS, *MEDIA, "answer", gold, problem_id)
        if not certain and _has_pairs(group_of_row) and _share_in_pairs(refined) < _LEAST_SHARED:
            continue
        fields.append(name)
        columns.append(parts[name])
        group_of_row = refined
    return tuple(fields), columns


def _problem_id(
    frame: pandas.DataFrame,
    parts: Mapping[str, Sequence[str | None]],
    facts: Sequence[Sequence[str | None]],
    steps: np.ndarray,
) -> str | None:
    """The field that names the problem of each row; None where no field does, or nearly each row has another."""
    without_prompts = not frame["asked"].notna().any()
    for name in PROBLEM_IDS:
        if name in parts and (without_prompts or _share_in_pairs(_refined(steps, parts[name])) >= _LEAST_SHARED):
            return name
    for name in IDS:
        if name in parts and None not in parts[name]:
            ids = _refined(steps, parts[name])
            if _what_ids_are(ids, facts, frame, steps) == "problems":
                return name
    return None


def _what_ids_are(
    ids: np.ndarray, facts: Sequence[Sequence[str | None]], frame: pandas.DataFrame, steps: np.ndarray
) -> str:
    """What ids name: "rollouts", each its own, also where some came twice by mistake; "problems"; or "neither", as the
    numbers of rollouts within their problem do.

    `facts` are what is known of the problem of each row.
    """
    if not _has_pairs(ids):
        return "rollouts"
    with_texts = bool(frame["response"].any())
    different = ids
    for column in (*facts, frame["response" if with_texts else "reward"].tolist()):
        different = _refined(different, column)
    if different.max() == ids.max():
        return "rollouts"  # the same rollouts again
    problems = steps
    for column in facts:
        problems = _refined(problems, column)
    of_one_problem = bool(_refined(ids, problems.tolist()).max() == ids.max())
    if of_one_problem and ids.max() == problems.max():
        return "problems"
    if _share_in_pairs(ids) < _LEAST_SHARED:
        return "rollouts"
    return "problems" if of_one_problem else "neither"


def _agree_on_gold(
    parts: Mapping[str, Sequence[str | None]], steps: np.ndarray, problem_id: str, gold: str | None
) -> bool:
    """Whether all rows of a problem id have one gold answer, and there is one."""
    known = [name for name in parts if name in (*GOLD_ANSWERS, gold)]
    ids = _refined(steps, parts[problem_id])
    return bool(known) and all(_refined(ids, parts[name]).max() == ids.max() for name in known)


def _own_answers(frame: pandas.DataFrame, doubtful: Mapping[str, Sequence[str | None]], steps: np.ndarray) -> list[str]:
    """Of fields that may hold gold answers those that hold what the responses themselves answered."""
    of_prompts = _refined(steps, frame["asked"].tolist())
    found = []
    for name, column in doubtful.items():
        split = _refined(of_prompts, column)
        if split.max() > of_prompts.max() and _is_the_responses_own(frame, column, split):
            found.append(name)
    return found


def _is_the_responses_own(frame: pandas.DataFrame, column: Sequence[str | None], split: np.ndarray) -> bool:
    """Whether a field holds what the response itself answered.

    Told by refused responses: what they answered is not the gold answer. Groups of one size speak against it, for wrong
    answers do not come equally often.
    """
    sizes = np.bincount(split)
    if sizes.min() == sizes.max() > 1:
        return False
    rewards = frame["reward"].to_numpy(dtype=float)
    if np.isnan(rewards).all():
        return False
    refused = np.flatnonzero(rewards < np.nanmax(rewards))
    matches = []
    for row in refused.tolist():
        value = column[row]
        response = frame["response"].iloc[row]
        if value is None or not response:
            continue
        given = value.strip()
        boxed = boxed_answer(response)
        if len(given) > _LONG_ANSWER:
            matches.append(given in response)
        elif boxed is not None:
            matches.append(given == boxed.strip())
        else:
            matches.append(given in response[-_ENDING:])
    return len(matches) >= _LEAST_REFUSED and float(np.mean(matches)) >= _LEAST_OWN


def _refined(group_of_row: np.ndarray, column: Sequence[Any]) -> np.ndarray:
    """Groups split by the values of a column (None is one of them), numbered from 0 by first appearance."""
    values = pandas.factorize(pandas.Series(column, dtype=object), use_na_sentinel=False)[0]
    both = group_of_row.astype(np.int64) * (int(values.max()) + 1) + values
    return np.asarray(pandas.factorize(both)[0])


def _share_in_pairs(group_of_row: np.ndarray) -> float:
    """The share of rows that are not alone in their group."""
    return float((np.bincount(group_of_row)[group_of_row] > 1).mean())


def _has_pairs(group_of_row: np.ndarray) -> bool:
    """Whether any group has more than one row."""
    return int(group_of_row.max()) + 1 < len(group_of_row)


def _repeated(ids: np.ndarray) -> dict[int, int]:
    """The rows whose id came before, with the first row that has it."""
    first: dict[int, int] = {}
    repeated: dict[int, int] = {}
    for row, identifier in enumerate(ids.tolist()):
        earlier = first.setdefault(identifier, row)
        if earlier != row:
            repeated[row] = earlier
    return repeated


def joined_names(columns: Sequence[Sequence[str | None]], rows: int) -> list[str]:
    """A name for each row from its values in some columns: the only one, or a list of them as JSON."""
    if not columns:
        return [""] * rows
    if len(columns) == 1 and None not in columns[0]:
        return [str(value) for value in columns[0]]
    made: dict[tuple[str | None, ...], str] = {}
    names = []
    for values in zip(*columns, strict=True):
        if values not in made:
            made[values] = json.dumps(values, ensure_ascii=False)
        names.append(made[values])
    return names
