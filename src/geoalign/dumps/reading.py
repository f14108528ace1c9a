"""From a file of rollouts to one frame of columns: every value checked, bad rows refused by name or skipped and listed.

The columns of a frame, one row a rollout in the order of the file:

    row, sample     row in the file, and number among the responses to its prompt, both from 0
    line            line, or row in a parquet file, from 1
    position        number among the rollouts of the file, skipped ones included: the row of its hidden state
    step, group     the step, and the number of its group, from 0 by first appearance within the step
    group_name, id  what the file calls them; `id` is the row's number where the file has none, or its ids name problems
    problem         a text, the same for rollouts of one problem in this step and any other, as far as the file tells
    prompt          a text; `messages`: the same as chat messages, None where it was none
    response
    reward          NaN: could not be scored; `true_reward`, `label` (given by a person): NaN where unknown
    correct, answer, final_answer, tokens, truncated: None where the file does not say
    gold_answers    every answer that the file says is right; `answer` is the only one, or all of them as a JSON list
    verdict.NAME    what a further verifier said, as a number, for each field that the user named; NaN where nothing
    origin          by field of the file the environment or data source, and the id of the problem; None without any
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas

from geoalign.answers.messages import Messages
from geoalign.dumps import values
from geoalign.dumps.field_names import ENVIRONMENTS, GOLD_ANSWERS, MEDIA, PROBLEM_IDS
from geoalign.dumps.files import dump_rows
from geoalign.dumps.formats.format import Row
from geoalign.dumps.groups import Grouping, Parts, group_rows, joined_names, name_of_group, parts_of
from geoalign.dumps.layout import DumpLayout, is_filled
from geoalign.dumps.raw_rows import RawRow
from geoalign.dumps.row_names import row_name
from geoalign.dumps.values import BadValueError, field_of
from geoalign.errors import InputError
from geoalign.files.columns import whole_text
from geoalign.text import quote

# What each rollout of a row has of its own beside the reward, and the check of its value.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "response": values.response,
    "true_reward": values.number_as_said,
    "correct": values.truth,
    "final_answer": values.final_answer,
    "tokens": values.count,
    "truncated": values.truth,
}
# The columns that are read of each rollout. Two serve grouping alone, and are None where the file has none:
# `named_group` is the group's name as the file gives it, `question` the whole prompt, with images and system message.
_COLUMNS: dict[str, Any] = {
    **dict.fromkeys(("row", "line", "position", "step"), "int64"),
    **dict.fromkeys(("named_group", "question", "id", "prompt", "messages", "answer", "gold_answers"), object),
    "reward": "float64",
    **dict.fromkeys(_CHECKS, object),
    "true_reward": "float64",
}


@dataclass(frozen=True)
class Skipped:
    """A row that was left out under `--skip-bad`: where, which field (None: the row itself), and why."""

    file: str
    line: int
    field: str | None
    reason: str


@dataclass(frozen=True, eq=False)
class Dump:
    """The rollouts of one file in order, what was left out, and how many there are with it (None: not known).

    Attributes:
        layout: how it was read, with the fields that make its groups.
        own_groups: whether the file, or the user, names the group of a rollout.
        remark: what a reader should know of how groups were made, and of fields that the user named and no row fills;
            empty where there is nothing.
        own_answer: a field that may hold gold answers by its name, but holds the responses' own; empty where none does.
    """

    path: Path
    layout: DumpLayout
    frame: pandas.DataFrame
    skipped: tuple[Skipped, ...] = ()
    positions: int | None = None
    own_groups: bool = True
    remark: str = ""
    own_answer: str = ""


def read_dump(path: Path, layout: DumpLayout, *, step: int = 1, skip_bad: bool = False) -> Dump:
    """Reads a file of rollouts.

    Args:
        path: the file.
        layout: how it is read, as `find_layout` says.
        step: the step of rollouts that name none.
        skip_bad: leave rows out that cannot be read, or whose id came before, and list them.

    Raises:
        InputError: a row cannot be read and is not to be skipped, or no row can be.
    """
    reader = _Reader(path, layout, step, skip_bad=skip_bad)
    for raw in dump_rows(path):
        reader.add(raw)
    frame = reader.frame()
    frame["problem"] = _problems(frame, reader.parts, layout)
    grouping = _grouping(path, frame, reader.parts, layout)
    id_of_problem = layout.fields.get("id") if grouping.ids_are_problems else None
    frame["origin"] = _origins(reader.parts, len(frame), id_of_problem)
    frame["group_name"] = pandas.Series(grouping.names, dtype=object)
    skipped = [*reader.skipped, *_duplicates(path, frame, grouping, layout, skip_bad=skip_bad)]
    if grouping.ids_are_problems:
        frame["id"] = _numbers_as_ids(frame, layout)

    frame = frame.drop(index=[*grouping.duplicates], columns=["named_group", "question"]).reset_index(drop=True)
    by_step = frame.groupby("step", sort=False)
    frame["group"] = by_step["group_name"].transform(lambda names: pandas.factorize(names)[0]).astype("int64")
    frame["sample"] = frame.groupby(["step", "group"]).cumcount()
    frame["label"] = math.nan
    return Dump(
        path=path,
        layout=_as_read(layout, frame, grouping),
        frame=frame,
        skipped=tuple(sorted(skipped, key=lambda row: row.line)),
        positions=reader.positions,
        own_groups=grouping.own,
        remark=". ".join(filter(None, [grouping.remark, *reader.remarks()])),
        own_answer=grouping.own_answer,
    )


def read_rewards(path: Path, layout: DumpLayout) -> list[float]:
    """The rewards alone, of the rows that can be read."""
    rewards: list[float] = []
    for raw in dump_rows(path):
        if raw.value is not None:
            with suppress(BadValueError):
                rewards += [_reward(layout, row) for row in _rollouts_of(layout, layout.flat(raw.value))]
    return rewards


# --- the rows one after the other ------------------------------------------------------------------------------------


class _Reader:
    """Collects the rollouts of one file; texts that come again are kept once.

    Attributes:
        columns: by name of `_COLUMNS`, and by role of further verdicts, the values of all rollouts.
        parts: by field what may tell the problem of a row from another, for all rollouts; None where a row lacks it.
        skipped: the rows that were left out.
        positions: how many rollouts the file has up to here, skipped ones included; None where that is not known.
    """

    def __init__(self, path: Path, layout: DumpLayout, step: int, *, skip_bad: bool) -> None:
        self._path = path
        self._layout = layout
        self._step = step
        self._skip_bad = skip_bad
        self._kinds = {**_COLUMNS, **dict.fromkeys(layout.verdicts, "float64")}
        self.columns: dict[str, list[Any]] = {name: [] for name in self._kinds}
        self.parts: Parts = {}
        self.skipped: list[Skipped] = []
        self.positions: int | None = 0
        self._no_parts = layout.of_responses
        # The fields that the user named for what a rollout may lack, by role, as long as no row has filled them.
        self._never_filled = layout.asked_beside_rollouts
        self._texts: dict[str, str] = {}

    def add(self, raw: RawRow) -> None:
        """Reads the next row of the file; InputError where it is bad and not to be skipped."""
        rollouts: list[dict[str, Any]] = []
        try:
            if raw.value is None:
                raise BadValueError(None, raw.problem or "")
            row = self._layout.flat(raw.value)
            rows = _rollouts_of(self._layout, row)
            rollouts = [self._rollout(raw, number, rollout) for number, rollout in enumerate(rows)]
            self._add_parts(row)
            self._note_filled(row)
        except BadValueError as error:
            if not self._skip_bad:
                raise InputError(f"{row_name(self._path, raw.line)}: {error}{self._ways_out(error)}") from None
            rollouts = []
            reason = f"{error.reason}; nothing behind it was read" if raw.rest_lost else error.reason
            self.skipped.append(Skipped(str(self._path), raw.line, error.field, reason))
        for rollout in rollouts:
            for name, value in rollout.items():
                self.columns[name].append(value)
        if raw.rest_lost or (self._layout.format.lists and not rollouts):
            self.positions = None
        elif self.positions is not None:
            self.positions += len(rollouts) or 1

    def _note_filled(self, row: Row) -> None:
        """Takes the fields that this flat row fills from those that no row has filled."""
        for role in [*self._never_filled]:
            if is_filled(self._layout.value(row, role)):
                del self._never_filled[role]

    def remarks(self) -> list[str]:
        """A sentence for each field that the user named for what a rollout may lack and that no row fills."""
        return [f"No row fills {quote(name)}, named by --field {role}" for role, name in self._never_filled.items()]

    def _ways_out(self, error: BadValueError) -> str:
        """How a file with a bad row is read nevertheless, to stand behind what is wrong with the row."""
        without = self._without_column(error.field)
        return f"; leave such rows out with --skip-bad{f', or {without}' if without else ''}"

    def _without_column(self, field: str | None) -> str:
        """The options that leave a field out, in words; empty where the rollouts need it."""
        roles = self._layout.optional_roles(field)
        options = " ".join(f"--field {role}=" for role in roles)
        return f"do without the column with {options}" if options else ""

    def frame(self) -> pandas.DataFrame:
        """All rollouts in the columns of `_COLUMNS`, with further verdicts; InputError where there are none."""
        if not self.columns["row"]:
            first = self.skipped[0]
            name = f"{first.field}: " if first.field else ""
            without = self._without_column(first.field)
            raise InputError(
                f"{self._path}: none of its {len(self.skipped)} rows can be read; the first: "
                f"{row_name(self._path, first.line)}: {name}{first.reason}{f'; {without}' if without else ''}"
            )
        # Each list is let go before the next column is made.
        return pandas.DataFrame(
            {name: pandas.Series(self.columns.pop(name), dtype=kind) for name, kind in self._kinds.items()}
        )

    def _rollout(self, raw: RawRow, number: int, row: Row) -> dict[str, Any]:
        """A rollout by column, from its flat row; it is the so many-th of its row of the file."""
        layout = self._layout
        prompt, messages = self._prompt(row)
        step = layout.step(row)
        identifier = values.short_text(layout.fields.get("id", ""), _required(layout, row, "id"))
        if identifier is None:
            identifier = str(raw.number)
        golds = values.gold_answers(layout.fields.get("answer", ""), layout.value(row, "answer"))
        rollout = {
            "row": raw.number,
            "line": raw.line,
            "position": (self.positions or 0) + number,
            "step": self._step if step is None else step,
            "named_group": self._kept(_named_group(layout, row)),
            "question": self._kept(_question(layout, row)),
            "id": f"{identifier}/{number}" if layout.format.lists else identifier,
            "prompt": prompt,
            "messages": messages,
            "answer": self._kept(values.short_text("", golds) if len(golds) > 1 else next(iter(golds), None)),
            "gold_answers": golds,
            "reward": _reward(layout, row),
        }
        for role, check in _CHECKS.items():
            value = _required(layout, row, role) if role == "response" else layout.value(row, role)
            rollout[role] = None if value is None else check(layout.fields[role], value)
        for role, name in layout.verdicts.items():
            rollout[role] = values.number_as_said(name, layout.value(row, role))
        if "response" not in layout.fields:
            rollout["response"] = ""  # a dump may come without its texts
        return rollout

    def _prompt(self, row: Row) -> tuple[str, Messages | None]:
        """The prompt as a text, and its chat messages where it has any, or has a system message apart."""
        prompt = _required(self._layout, row, "prompt")
        if prompt is None:
            return "", None
        text, messages = values.prompt(self._layout.fields["prompt"], prompt)
        system = self._layout.value(row, "system")
        if isinstance(system, str) and system and messages is None:
            messages = ({"role": "system", "content": whole_text(system)}, {"role": "user", "content": text})
        return self._texts.setdefault(text, text), messages

    def _add_parts(self, row: Row) -> None:
        """Adds what may tell the problem of a flat row from another.

        Where rows hold lists of responses, each is a group, and nothing needs to be told apart.
        """
        if self._layout.format.lists:
            return
        parts = parts_of(row, gold=self._layout.fields.get("answer"), without=self._no_parts)
        for name in parts:
            if name not in self.parts:
                self.parts[name] = [None] * len(self.columns["row"])
        for name, column in self.parts.items():
            column.append(self._kept(parts.get(name)))

    def _kept(self, text: str | None) -> str | None:
        """The text itself, one object for equal texts."""
        return None if text is None else self._texts.setdefault(text, text)


def _rollouts_of(layout: DumpLayout, row: Row) -> list[Row]:
    """The rollouts of a flat row: the row itself, or of one that holds lists a row for each of its responses."""
    if not layout.format.lists:
        return [row]
    responses = field_of(row, layout.fields["response"])
    if not isinstance(responses, list) or not responses:
        raise BadValueError(layout.fields["response"], "a list of responses", values.described(responses))
    lists = {}
    for role in ("reward", *_CHECKS, *layout.verdicts):
        for name in layout.names(role):
            if role == "reward" or field_of(row, name) is not None:
                lists[name] = field_of(row, name)
    for name, entries in lists.items():
        if not isinstance(entries, list) or len(entries) != len(responses):
            got = str(len(entries)) if isinstance(entries, list) else values.described(entries)
            raise BadValueError(name, f"{len(responses)} entries, one for each response", got)
    return [{**row, **dict(zip(lists, entries, strict=True))} for entries in zip(*lists.values(), strict=True)]


def _reward(layout: DumpLayout, row: Row) -> float:
    """The reward of a row; of several columns those that are numbers add up, as TRL adds them.

    In lists a reward may be a list of one number, as of one head.
    """
    scored = []
    for name in layout.names("reward"):
        value = layout.value(row, "reward", name)
        if layout.format.lists and isinstance(value, list) and len(value) == 1:
            value = value[0]
        if value is None and name not in row and not layout.format.reward_may_lack:
            raise BadValueError(name, "the reward of the rollout", "no such field")
        number = values.number_or_truth(name, value)
        if not math.isnan(number):
            scored.append(number)
    return values.number(layout.fields["reward"], sum(scored)) if scored else math.nan


def _required(layout: DumpLayout, row: Row, role: str, name: str | None = None) -> Any:
    """What a flat row has for a role, in the field `name` of several; BadValueError where only the row has nothing."""
    name = name or layout.fields.get(role)
    value = layout.value(row, role, name)
    if value is None and name is not None:
        raise BadValueError(name, f"the {role} of the rollout", "null" if name in row else "no such field")
    return value


def _named_group(layout: DumpLayout, row: Row) -> str | None:
    """The name of a row's group as the file gives it; None where it gives none."""
    parts = [name_of_group(name, _required(layout, row, "group", name)) for name in layout.names("group")]
    if len(parts) > 1:
        return json.dumps(parts)
    return parts[0] if parts else None


def _question(layout: DumpLayout, row: Row) -> str | None:
    """What a row asks, as a text: the prompt whole, its images too, and the system message where it stands apart."""
    if "prompt" not in layout.fields:
        return None
    prompt = layout.value(row, "prompt")
    system = layout.value(row, "system")
    return name_of_group(layout.fields["prompt"], prompt if system is None else [system, prompt])


# --- all rows together -----------------------------------------------------------------------------------------------


def _problems(frame: pandas.DataFrame, parts: Parts, layout: DumpLayout) -> pandas.Series:
    """For each row a text of its problem: prompt, gold answer, images; what the file calls its group without a prompt.

    It depends on nothing but the row, so that it is the same in every step.
    """
    of_problems = {*GOLD_ANSWERS, *MEDIA, layout.fields.get("answer")}
    if "prompt" not in layout.fields:
        of_problems.update(PROBLEM_IDS)
    questions = frame["question"].where(frame["question"].notna(), frame["named_group"])
    columns = [column for name, column in parts.items() if name in of_problems]
    if not columns:
        return questions.fillna("").astype(object)
    return pandas.Series(joined_names([questions.tolist(), *columns], len(frame)), dtype=object)


def _origins(parts: Parts, size: int, id_of_problem: str | None) -> pandas.Series:
    """Of each row where its problem comes from, by field; rows of one origin share one object.

    Args:
        id_of_problem: the field of ids, where these name problems.
    """
    names = [name for name in parts if name in (*ENVIRONMENTS, *PROBLEM_IDS, id_of_problem)]
    if not names:
        return pandas.Series([None] * size, dtype=object)
    known: dict[tuple[str | None, ...], dict[str, str] | None] = {}
    for values_of_row in zip(*(parts[name] for name in names), strict=True):
        if values_of_row not in known:
            given = zip(names, values_of_row, strict=True)
            known[values_of_row] = {name: value for name, value in given if value is not None} or None
    rows = zip(*(parts[name] for name in names), strict=True)
    return pandas.Series([known[values_of_row] for values_of_row in rows], dtype=object)


def _grouping(path: Path, frame: pandas.DataFrame, parts: Parts, layout: DumpLayout) -> Grouping:
    """The groups of a file: the rows themselves where each holds the responses to one prompt."""
    asked = "group" in layout.asked
    group = layout.fields.get("group")
    if layout.format.lists:
        group = "row"
        frame = frame.assign(named_group=frame["row"].astype(str))
    elif group in layout.format.uid_fields and not asked and not frame.duplicated(["step", "named_group"]).any():
        group = None
    id_field = layout.fields.get("id")
    ids_name_groups = asked and id_field in layout.names("group")
    grouping = group_rows(
        frame,
        parts,
        group=group,
        id_field=None if ids_name_groups else id_field,
        prompt=layout.fields.get("prompt"),
        gold=layout.fields.get("answer"),
        gold_asked="answer" in layout.asked,
    )
    if not grouping.fields:
        raise InputError(
            f"{path}: group: nothing tells which rollouts are of one problem: there is no prompt, and "
            "ids name rollouts; name the field that they share by --field group=NAME"
        )
    return replace(grouping, ids_are_problems=True) if ids_name_groups else grouping


def _duplicates(
    path: Path, frame: pandas.DataFrame, grouping: Grouping, layout: DumpLayout, *, skip_bad: bool
) -> list[Skipped]:
    """The rows whose id came before, as skipped; InputError for the first of them unless bad rows are skipped."""
    skipped = []
    for row, earlier in grouping.duplicates.items():
        field = layout.fields["id"]
        line = int(frame["line"][row])
        identifier = quote(frame["id"][row], 60)
        first = row_name(path, int(frame["line"][earlier])).removeprefix(f"{path}, ")
        if not skip_bad:
            raise InputError(
                f"{row_name(path, line)}: {field}: duplicate id {identifier} (first on {first}); leave such rows out "
                f"with --skip-bad; ignore ids with --field id=; if they name problems, say --field group={field}"
            )
        reason = f"expected an id of its own, got {identifier} again (first on {first})"
        skipped.append(Skipped(str(path), line, field, reason))
    return skipped


def _numbers_as_ids(frame: pandas.DataFrame, layout: DumpLayout) -> pandas.Series:
    """Ids of rollouts where those of the file name problems: the row's number, and that of the response in it."""
    numbers = frame["row"].astype(str)
    if layout.format.lists:
        numbers += "/" + frame["id"].str.rsplit("/", n=1).str[-1]
    return numbers.astype(object)


def _as_read(layout: DumpLayout, frame: pandas.DataFrame, grouping: Grouping) -> DumpLayout:
    """The layout with the fields that make groups, and without a field of final answers that holds none."""
    fields = dict(layout.fields)
    if not layout.format.lists:
        fields["group"] = "+".join(grouping.fields)
    if "final_answer" in fields and frame["final_answer"].isna().all():
        del fields["final_answer"]
    return replace(layout, fields=fields)
