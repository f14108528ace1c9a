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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from geoalign.answers.boxed import boxed_answer
from geoalign.dumps.field_names import ENVIRONMENTS, GOLD_ANSWERS, IDS, LIKELY_GOLD_ANSWERS, MEDIA, PROBLEM_IDS
from geoalign.dumps.formats.format import Row
from geoalign.dumps.values import BadValueError, described, field_of
from geoalign.files.columns import whole_text

# By field what may tell the problem of each rollout from another; None where a row lacks the field.
Parts = dict[str, list[str | None]]

_FIELDS_OF_PARTS = (*GOLD_ANSWERS, *LIKELY_GOLD_ANSWERS, *MEDIA, *ENVIRONMENTS, *PROBLEM_IDS, *IDS)
_FLAT_FIELDS = frozenset(name for name in _FIELDS_OF_PARTS if "." not in name)
# Of an object such as `extra_info` the fields inside it.
_NESTED_FIELDS = {
    outer: tuple(name for name in _FIELDS_OF_PARTS if name.startswith(f"{outer}."))
    for outer in dict.fromkeys(name.partition(".")[0] for name in _FIELDS_OF_PARTS if "." in name)
}
# Texts up to this length stand for themselves, longer ones and what is nested by a digest.
_LONGEST_NAME = 200
# Ids are of problems, and environments tell problems apart, only where at least this share of rows has another row of
# the same.
_LEAST_SHARED = 0.5
# A field holds the responses' own answers where at least so many refused responses, and so large a share of them, give
# just what it says.
_LEAST_REFUSED = 4
_LEAST_OWN = 0.95
# Where in a response without a box its answer is looked for: in its last characters. Longer answers than this, as a
# program, stand nowhere by chance.
_ENDING = 200
_LONG_ANSWER = 60


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


def parts_of(row: Row, *, gold: str | None, without: Collection[str]) -> dict[str, str]:
    """What may tell the problem of a flat row from another, by field; a truth value is a verdict, not a problem's.

    Args:
        row: the row.
        gold: the field of the gold answer.
        without: fields that hold something of the response.
    """
    names = []
    for name, value in row.items():
        if name in _FLAT_FIELDS and value is not None and not isinstance(value, bool):
            names.append(name)
    for outer, inner in _NESTED_FIELDS.items():
        if outer in row:
            names += [name for name in inner if field_of(row, name) is not None]
    names = [name for name in names if name not in without]
    if gold is not None and gold not in names and field_of(row, gold) is not None:
        names.append(gold)
    try:
        return {name: _name_of_part(name, field_of(row, name)) for name in names}
    except (TypeError, ValueError, RecursionError):
        raise BadValueError(None, "expected values that can be compared, got ones nested too deeply") from None


def _name_of_part(field: str, value: Any) -> str:
    """A text for the value of a field that may tell problems apart, the same for equal values alone.

    It is a digest of what is long or nested, unless the field may hold what a response answered: that is looked for in
    the response.
    """
    is_text = isinstance(value, str)
    if is_text:
        value = whole_text(value)
    if is_text and (field in LIKELY_GOLD_ANSWERS or len(value) <= _LONGEST_NAME):
        return str(value)
    text = value if is_text else json.dumps(value, sort_keys=True, default=_text_of_other)
    return _digest(text.encode("utf-8", "surrogatepass"))


def _text_of_other(value: Any) -> str:
    """A text for what JSON does not know: a digest of bytes."""
    return _digest(value) if isinstance(value, bytes) else str(value)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def name_of_group(field: str, value: Any) -> str:
    """The name of a group from the value of its field; different values have different names."""
    if isinstance(value, str):
        return value
    try:
        if isinstance(value, float) and not abs(value) <= 2**53:
            raise ValueError(value)
        return json.dumps(value, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):
        raise BadValueError(field, "a group that can be told from others", described(value)) from None


def group_rows(
    frame: pandas.DataFrame,
    parts: Parts,
    *,
    group: str | None,
    id_field: str | None,
    prompt: str | None,
    gold: str | None,
    gold_asked: bool = False,
) -> Grouping:
    """The groups of a file with one rollout a row.

    Args:
        frame: its rows, with `step`, `named_group` (the group's name as the file gives it), `question` (the prompt as a
            text), `id`, `response` and `reward`; `named_group` and `question` are None where there is none.
        parts: by field what may tell a row's problem from another, in the order of rows.
        group: the field that names the group, as the file or the user says; None: none does.
        id_field: the field of ids; None: there is none.
        prompt: the field of the prompt; None: there is none.
        gold: the field of the gold answer, as format or user say; None: there is none.
        gold_asked: the user says so.
    """
    rows = _Rows(frame, parts, gold, gold_asked=gold_asked)
    ids_are_problems = False
    duplicates: Mapping[int, int] = {}
    if id_field is not None:
        ids = _split(rows.steps, frame["id"].tolist())
        ids_are_problems = rows.kind_of_ids(ids) != "rollouts"
        if not ids_are_problems:
            duplicates = _repeated(ids)
    own_answer = rows.own_answers[0] if rows.own_answers else ""
    remark = ""
    if group is None and own_answer:
        remark = (
            f"`{own_answer}` differs within prompts and is what refused responses answered, so it splits no group: "
            f"--field final_answer={own_answer} reads it as the responses' answer"
        )
    columns = rows.columns_of_groups(prompt) if group is None else {group: frame["named_group"].tolist()}
    return Grouping(
        names=joined_names([*columns.values()], len(frame)),
        fields=tuple(columns),
        own=group is not None,
        ids_are_problems=ids_are_problems,
        duplicates=duplicates,
        remark=remark,
        own_answer=own_answer,
    )


class _Rows:
    """The rows of a file, and what is known of their problems.

    A division of the rows is an array [B] with the number of each row's part, from 0 by first appearance.

    Attributes:
        steps: the division by steps.
        own_answers: fields whose names stand for gold answers, but which hold what the responses answered.
        facts: what is sure to tell problems apart: prompts, gold answers, images.
    """

    def __init__(self, frame: pandas.DataFrame, parts: Parts, gold: str | None, *, gold_asked: bool) -> None:
        self.frame = frame
        self.steps = np.asarray(pandas.factorize(frame["step"])[0])
        self.questions: list[str | None] = frame["question"].tolist()
        self._sure = {*GOLD_ANSWERS, *MEDIA, "answer", gold}
        self._golds = {*GOLD_ANSWERS, gold}
        doubtful = [name for name in LIKELY_GOLD_ANSWERS if name in parts and not (gold_asked and name == gold)]
        self.own_answers = [name for name in doubtful if self._holds_own_answers(parts[name])]
        self.parts = {name: column for name, column in parts.items() if name not in self.own_answers}
        self.facts = [self.questions, *(column for name, column in self.parts.items() if name in self._sure)]

    def columns_of_groups(self, prompt: str | None) -> Parts:
        """The fields that make the groups of a file that names none, with their values.

        Fields are added, the prompt first and the problem's id last, as long as each splits the groups further; one
        that is uncertain, as an environment, is left out if it would leave most rows alone.
        """
        columns: Parts = {}
        groups = self.steps
        problem_id = self._problem_id()
        if prompt is not None:
            of_prompts = _split(self.steps, self.questions)
            # Prompts that are all different, as of a dialogue that has gone on, are one problem's where its id says so.
            if _has_pairs(of_prompts) or problem_id is None or not self._one_gold_answer_for_each(problem_id):
                columns[prompt] = self.questions
                groups = of_prompts
        others = [name for name in self.parts if name not in (*PROBLEM_IDS, *IDS)]
        # The problem's id comes last: where text and gold answer tell problems apart it adds nothing.
        for name in [*others, *([] if problem_id is None else [problem_id])]:
            split = _split(groups, self.parts[name])
            if split.max() == groups.max() and columns:
                continue
            # What differs in nearly every row, as the number of a process does, tells no problem from another.
            certain = name in self._sure or name == problem_id
            if certain or not _has_pairs(groups) or _share_in_pairs(split) >= _LEAST_SHARED:
                columns[name] = self.parts[name]
                groups = split
        return columns

    def _problem_id(self) -> str | None:
        """The field that names the problem of each row; None where no field does, or nearly each row has another."""
        without_prompts = not self.frame["question"].notna().any()
        for name in PROBLEM_IDS:
            if name in self.parts:
                ids = _split(self.steps, self.parts[name])
                if without_prompts or _share_in_pairs(ids) >= _LEAST_SHARED:
                    return name
        for name in IDS:
            if name in self.parts and None not in self.parts[name]:
                ids = _split(self.steps, self.parts[name])
                if self.kind_of_ids(ids) == "problems":
                    return name
        return None

    def kind_of_ids(self, ids: np.ndarray) -> str:
        """What the division by ids is of: "rollouts", each its own, also where some came twice by mistake; "problems";
        or "neither", as the numbers of rollouts within their problem are."""
        if not _has_pairs(ids):
            return "rollouts"
        own_values = "response" if self.frame["response"].any() else "reward"
        columns = [*self.facts, self.frame[own_values].tolist()]
        if not any(_differs_within(ids, column) for column in columns):
            return "rollouts"  # the same rollouts again
        problems = self.steps
        for column in self.facts:
            problems = _split(problems, column)
        one_problem_each = not any(_differs_within(ids, column) for column in self.facts)
        if one_problem_each and ids.max() == problems.max():
            return "problems"
        if _share_in_pairs(ids) < _LEAST_SHARED:
            return "rollouts"
        return "problems" if one_problem_each else "neither"

    def _one_gold_answer_for_each(self, problem_id: str) -> bool:
        """Whether all rows of a problem's id have one gold answer, and there is one."""
        known = [column for name, column in self.parts.items() if name in self._golds]
        ids = _split(self.steps, self.parts[problem_id])
        return bool(known) and not any(_differs_within(ids, column) for column in known)

    def _holds_own_answers(self, column: Sequence[str | None]) -> bool:
        """Whether a field, which by its name may hold gold answers, holds what the response itself answered.

        It then differs within prompts, and refused responses answered what it says, which the gold answer cannot be.
        Groups of one size speak against it, for wrong answers do not come equally often.
        """
        of_prompts = _split(self.steps, self.questions)
        split = _split(of_prompts, column)
        if split.max() == of_prompts.max():
            return False
        sizes = np.bincount(split)
        if sizes.min() == sizes.max() > 1:
            return False
        rewards = self.frame["reward"].to_numpy(dtype=float)
        if np.isnan(rewards).all():
            return False
        refused = np.flatnonzero(rewards < np.nanmax(rewards))
        matches = []
        for row in refused.tolist():
            answer = column[row]
            response = self.frame["response"].iloc[row]
            if answer is not None and response:
                matches.append(_answers_just(response, answer.strip()))
        return len(matches) >= _LEAST_REFUSED and float(np.mean(matches)) >= _LEAST_OWN


def _answers_just(response: str, answer: str) -> bool:
    """Whether this is what a response answers: in its box, or without one near its end."""
    if len(answer) > _LONG_ANSWER:
        return answer in response
    boxed = boxed_answer(response)
    if boxed is not None:
        return answer == boxed.strip()
    return answer in response[-_ENDING:]


def _split(division: np.ndarray, column: Sequence[Any]) -> np.ndarray:
    """A division of rows, divided further by the values of a column; None is one of them."""
    values = pandas.factorize(pandas.Series(column, dtype=object), use_na_sentinel=False)[0]
    both = division.astype(np.int64) * (int(values.max()) + 1) + values
    return np.asarray(pandas.factorize(both)[0])


def _differs_within(division: np.ndarray, column: Sequence[Any]) -> bool:
    """Whether any two rows of a part have different values of a column."""
    return bool(_split(division, column).max() > division.max())


def _share_in_pairs(division: np.ndarray) -> float:
    """The share of rows that are not alone in their part."""
    return float((np.bincount(division)[division] > 1).mean())


def _has_pairs(division: np.ndarray) -> bool:
    """Whether any part has more than one row."""
    return int(division.max()) + 1 < len(division)


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
    names: dict[tuple[str | None, ...], str] = {}
    for values in zip(*columns, strict=True):
        if values not in names:
            names[values] = json.dumps(values, ensure_ascii=False)
    return [names[values] for values in zip(*columns, strict=True)]
