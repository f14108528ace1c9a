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
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas

from geoalign.answers.messages import Messages
from geoalign.dumps import values
from geoalign.dumps.field_names import GOLD_ANSWERS, MEDIA, PROBLEM_IDS
from geoalign.dumps.files import dump_rows
from geoalign.dumps.formats import TRINITY, VERL, DumpLayout, step_of
from geoalign.dumps.groups import Grouping, group_rows, joined_names, name_of_group, name_of_part, present_parts
from geoalign.dumps.row_files import RawRow
from geoalign.dumps.row_names import row_name
from geoalign.dumps.values import BadValueError, field_of
from geoalign.errors import InputError
from geoalign.files.columns import whole_text
from geoalign.text import quote

# What each rollout of a row has of its own, and the check of its value; the reward has its own.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "response": values.response,
    "true_reward": values.number,
    "correct": values.truth,
    "final_answer": values.final_answer,
    "tokens": values.count,
    "truncated": values.truth,
}
_Sample = tuple[dict[str, Any], dict[str, Any]]  # values by role, and the reward by field
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("row", "line", "position", "step"), "int64"),
    **dict.fromkeys(("own", "asked", "id", "prompt", "messages", "answer"), object),
    "reward": "float64",
    **{role: "float64" if role == "true_reward" else object for role in _CHECKS},
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
        remark: what a reader should know of how groups were made; empty where there is nothing.
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
    """Reads a file of rollouts; `step` is that of rollouts that name none."""
    reader = _Reader(path, layout, step, skip_bad)
    for raw in dump_rows(path):
        reader.add(raw)
    if not reader.columns[0]:
        first = reader.skipped[0]
        name = f"{first.field}: " if first.field else ""
        raise InputError(
            f"{path}: expected at least one rollout, got none among {len(reader.skipped)} bad rows; the first: "
            f"{row_name(path, first.line)}: {name}{first.reason}"
        )
    frame = pandas.DataFrame({name: pandas.Series(reader.columns.pop(0), dtype=kind) for name, kind in _KINDS.items()})
    frame["problem"] = _problems(frame, reader.parts, layout)
    grouping = _grouping(path, frame, reader.parts, layout)
    frame["group_name"] = pandas.Series(grouping.names, dtype=object)
    skipped = [*reader.skipped, *_duplicates(path, frame, grouping, layout, skip_bad=skip_bad)]
    if grouping.ids_are_problems:
        numbers = frame["row"].astype(str)
        if layout.format.lists:
            numbers += "/" + frame["id"].str.rsplit("/", n=1).str[-1]
        frame["id"] = numbers.astype(object)
    frame = frame.drop(index=[*grouping.duplicates], columns=["own", "asked"]).reset_index(drop=True)
    by_step = frame.groupby("step", sort=False)
    frame["group"] = by_step["group_name"].transform(lambda names: pandas.factorize(names)[0]).astype("int64")
    frame["sample"] = frame.groupby(["step", "group"]).cumcount()
    frame["label"] = float("nan")
    return Dump(
        path=path,
        layout=_as_read(layout, frame, grouping),
        frame=frame,
        skipped=tuple(sorted(skipped, key=lambda row: row.line)),
        positions=reader.position,
        own_groups=grouping.own,
        remark=grouping.remark,
        own_answer=grouping.own_answer,
    )


def _grouping(
    path: Path, frame: pandas.DataFrame, parts: Mapping[str, Sequence[str | None]], layout: DumpLayout
) -> Grouping:
    """The groups of a file: the rows themselves where each holds the responses to one prompt."""
    fields = layout.fields
    group: str | None = fields.get("group")
    if layout.format.lists:
        frame = frame.assign(own=frame["row"].astype(str))
        group = "row"
    uid = layout.format is VERL and group == "uid" and "group" not in layout.asked
    if uid and not frame.duplicated(["step", "own"]).any():
        group = None  # the uid is that of the rollout
    ids = fields.get("id")
    named_by_ids = "group" in layout.asked and ids in layout.groups
    grouping = group_rows(
        frame,
        parts,
        group=group,
        id_field=None if named_by_ids else ids,
        prompt=fields.get("prompt"),
        gold=fields.get("answer"),
        gold_asked="answer" in layout.asked,
    )
    if not grouping.fields:
        raise InputError(
            f"{path}: group: expected a prompt, or ids that name problems, got ids that name rollouts; "
            "--field group=NAME names the field that rollouts of one problem share"
        )
    return replace(grouping, ids_are_problems=True) if named_by_ids else grouping


def _problems(frame: pandas.DataFrame, parts: Mapping[str, Sequence[str | None]], layout: DumpLayout) -> pandas.Series:
    """For each row a text of its problem: prompt, gold answer, images; what the file calls its group without a prompt.

    It depends on nothing but the row, so that it is the same in every step.
    """
    told = (*GOLD_ANSWERS, *MEDIA, layout.fields.get("answer"), *(() if "prompt" in layout.fields else PROBLEM_IDS))
    names = [name for name in parts if name in told]
    asked = frame["asked"].where(frame["asked"].notna(), frame["own"])
    if not names:
        return asked.fillna("").astype(object)
    columns = [asked.tolist(), *(parts[name] for name in names)]
    return pandas.Series(joined_names(columns, len(frame)), dtype=object)


def _duplicates(
    path: Path, frame: pandas.DataFrame, grouping: Grouping, layout: DumpLayout, *, skip_bad: bool
) -> list[Skipped]:
    """The rows whose id came before, as skipped; InputError for the first of them unless bad rows are skipped."""
    skipped = []
    for row, earlier in grouping.duplicates.items():
        line = int(frame["line"][row])
        field = layout.fields["id"]
        reason = (
            f"expected an id of its own, got a duplicate id {quote(frame['id'][row], 60)} "
            f"(first on {row_name(path, int(frame['line'][earlier])).removeprefix(f'{path}, ')})"
        )
        if not skip_bad:
            raise InputError(
                f"{row_name(path, line)}: {field}: {reason}; --skip-bad leaves such rows out; if ids name problems: "
                f"--field group={field}"
            )
        skipped.append(Skipped(str(path), line, field, reason))
    return skipped


def _as_read(layout: DumpLayout, frame: pandas.DataFrame, grouping: Grouping) -> DumpLayout:
    """The layout with the fields that make groups, and without a field of final answers that holds none."""
    fields = dict(layout.fields)
    if not layout.format.lists:
        fields["group"] = "+".join(grouping.fields)
    if "final_answer" in fields and frame["final_answer"].isna().all():
        del fields["final_answer"]
    return replace(layout, fields=fields)


def read_rewards(path: Path, layout: DumpLayout) -> list[float]:
    """The rewards alone, of the rows that can be read."""
    found: list[float] = []
    for raw in dump_rows(path):
        with suppress(BadValueError):
            row = {} if raw.value is None else layout.format.flat(raw.value)
            given = {role: field_of(row, name) for role, name in layout.fields.items()}
            found += [_reward(layout, rewards, "") for _, rewards in _samples(layout, row, given)]
    return found


class _Reader:
    """Collects the rollouts of one file, in the columns of `_KINDS`; texts that come again are kept once."""

    def __init__(self, path: Path, layout: DumpLayout, step: int, skip_bad: bool) -> None:
        self.path, self.layout, self.step, self.skip_bad = path, layout, step, skip_bad
        self.columns: list[list[Any]] = [[] for _ in _KINDS]
        self.skipped: list[Skipped] = []
        self.position: int | None = 0
        # By field what may tell the problem of a row from another.
        self.parts: dict[str, list[str | None]] = {}
        self._not_parts = layout.of_responses
        self._texts: dict[str, str] = {}

    def add(self, raw: RawRow) -> None:
        rollouts: list[tuple[Any, ...]] = []
        try:
            rollouts = self._rollouts(raw)
        except BadValueError as error:
            if not self.skip_bad:
                raise InputError(f"{row_name(self.path, raw.line)}: {error}") from None
            reason = f"{error.reason}; nothing behind it was read" if raw.rest_lost else error.reason
            self.skipped.append(Skipped(str(self.path), raw.line, error.field, reason))
        for rollout in rollouts:
            for column, cell in zip(self.columns, rollout, strict=True):
                column.append(cell)
        if self.position is None or raw.rest_lost:
            self.position = None
        elif rollouts or not self.layout.format.lists:
            self.position += len(rollouts) or 1
        else:
            # How many responses a bad row has is only known where its list could be read.
            given = None if raw.value is None else field_of(raw.value, self.layout.fields["response"])
            self.position = self.position + len(given) if isinstance(given, list) else None

    def _rollouts(self, raw: RawRow) -> list[tuple[Any, ...]]:
        if raw.value is None:
            raise BadValueError(None, raw.problem or "")
        layout, fields, listed = self.layout, self.layout.fields, self.layout.format.lists
        row = layout.format.flat(raw.value)
        given = {role: field_of(row, name) for role, name in fields.items()}
        for role in ("prompt", "response"):
            if role in fields and given[role] is None:
                got = "null" if fields[role] in row else "no such field"
                raise BadValueError(fields[role], f"the {role} of the rollout", got)
        if fields.get("truncated") == "truncate_status" and given["truncated"] is not None:  # Trinity's word for it
            given["truncated"] = given["truncated"] == "response_truncated"
        prompt, messages = self._prompt(given)
        step = step_of(layout, row)
        step = self.step if step is None else step
        own = None if listed else _own_group(layout, row)
        asked = _asked(layout, given) if "prompt" in fields else None
        name = _id(layout, row, raw.number)
        answer = (values.short_text(fields["answer"], given["answer"]) or None) if "answer" in fields else None
        parts = {} if listed else self._parts_of(row)
        made: list[tuple[Any, ...]] = []
        for sample, (cells, rewards) in enumerate(_samples(layout, row, given)):
            at = f".{sample}" if listed else ""
            checked = {
                role: None if cells.get(role) is None else check(fields[role] + at, cells[role])
                for role, check in _CHECKS.items()
            }
            checked["response"] = checked["response"] or ""  # a dump may come without its texts
            made.append(
                (raw.number, raw.line, (self.position or 0) + sample, step, self._kept(own), self._kept(asked),
                 name + at.replace(".", "/"), prompt, messages, answer, _reward(layout, rewards, at), *checked.values())
            )  # fmt: skip
        self._keep_parts(parts, len(made))
        return made

    def _parts_of(self, row: Mapping[str, Any]) -> dict[str, str]:
        """What may tell the problem of a row from another, by field."""
        names = [name for name in present_parts(row) if name not in self._not_parts]
        gold = self.layout.fields.get("answer")
        if gold is not None and gold not in names and field_of(row, gold) is not None:
            names.append(gold)
        try:
            return {name: name_of_part(name, field_of(row, name)) for name in names}
        except (TypeError, ValueError, RecursionError):
            raise BadValueError(None, "expected values that can be compared, got ones nested too deeply") from None

    def _keep_parts(self, parts: Mapping[str, str], rows: int) -> None:
        """Appends the parts of a row, that holds so many rollouts, to their columns."""
        for name in parts:
            if name not in self.parts:
                self.parts[name] = [None] * len(self.columns[0])
        for name, column in self.parts.items():
            value = parts.get(name)
            column.extend([self._kept(value)] * rows)

    def _kept(self, text: str | None) -> str | None:
        """The text itself, one object for equal texts."""
        return None if text is None else self._texts.setdefault(text, text)

    def _prompt(self, given: Mapping[str, Any]) -> tuple[str, Messages | None]:
        if "prompt" not in given:
            return "", None
        text, messages = values.prompt(self.layout.fields["prompt"], given["prompt"])
        system = given.get("system")
        if isinstance(system, str) and system and messages is None:
            messages = ({"role": "system", "content": whole_text(system)}, {"role": "user", "content": text})
        return self._texts.setdefault(text, text), messages


def _samples(layout: DumpLayout, row: Mapping[str, Any], given: dict[str, Any]) -> list[_Sample]:
    """The values of each response of a row by role, and its reward by field."""
    if layout.format.lists:
        return _lists(layout, given)
    for name in layout.rewards:
        if field_of(row, name) is None and name not in row and not layout.format.reward_may_lack:
            raise BadValueError(name, "the reward of the rollout", "no such field")
    return [(given, {name: field_of(row, name) for name in layout.rewards})]


def _lists(layout: DumpLayout, given: Mapping[str, Any]) -> list[_Sample]:
    """The values of each response of a row by role, and its reward: a number, or a list of one, as of one head."""
    lists = {role: given[role] for role in _CHECKS if given.get(role) is not None} | {"reward": given["reward"]}
    for role, entries in lists.items():
        name = layout.fields[role]
        if not isinstance(entries, list):
            raise BadValueError(name, "a list, one entry for each response", values.described(entries))
        if not entries and role == "response":
            raise BadValueError(name, "a list of responses with at least one in it", "an empty list")
        if len(entries) != (length := len(lists.get("response", ()))):
            raise BadValueError(name, f"{length} entries as responses", str(len(entries)))
    made = [dict(zip(lists, entry, strict=True)) for entry in zip(*lists.values(), strict=True)]
    heads = [cells["reward"] for cells in made]
    heads = [head[0] if isinstance(head, list) and len(head) == 1 else head for head in heads]
    return [(cells, {layout.fields["reward"]: head}) for cells, head in zip(made, heads, strict=True)]


def _reward(layout: DumpLayout, given: Mapping[str, Any], at: str) -> float:
    """The reward; of several columns those that are numbers add up, as TRL adds them."""
    parts = [values.number_or_truth(name + at, value) for name, value in given.items()]
    scored = [part for part in parts if part == part]
    return values.number("+".join(given), sum(scored)) if scored else float("nan")


def _own_group(layout: DumpLayout, row: Mapping[str, Any]) -> str | None:
    """The name of a row's group as the file gives it; None where it gives none."""
    names = layout.groups
    if not names:
        return None
    found = []
    for name in names:
        value = field_of(row, name)
        if value is None:
            raise BadValueError(name, "the group of the rollout", "null" if name in row else "no such field")
        found.append(value)
    if len(names) > 1:
        return json.dumps([name_of_group(name, value) for name, value in zip(names, found, strict=True)])
    name, value = names[0], found[0]
    if layout.format is VERL and name == "uid" and isinstance(value, str):
        # {uid of the prompt}_{session}_{index}, as verl's V1 trainer writes it.
        stem = value.rsplit("_", 2)
        return stem[0] if len(stem) == 3 and stem[1].isdecimal() and stem[2].isdecimal() else value
    if layout.format is TRINITY and name == "eid.task" and field_of(row, "eid.step") not in (0, None):
        got = values.described(field_of(row, "eid.step"))
        raise BadValueError("eid.step", "0: one experience for each run of a task", got)
    return name_of_group(name, value)


def _asked(layout: DumpLayout, given: Mapping[str, Any]) -> str:
    """What a row asks, as a text: the prompt whole, its images too, and the system message where it stands apart."""
    asked = given["prompt"]
    system = given.get("system")
    return name_of_group(layout.fields["prompt"], asked if system is None else [system, asked])


def _id(layout: DumpLayout, value: Mapping[str, Any], number: int) -> str:
    if layout.format is TRINITY and layout.fields.get("id") == "eid.suffix":
        parts = [field_of(value, f"eid.{part}") for part in ("batch", "task", "run", "step", "suffix")]
        return whole_text("/".join(str(part) for part in parts))
    if "id" not in layout.fields:
        return str(number)
    if (identifier := values.short_text(layout.fields["id"], field_of(value, layout.fields["id"]))) is None:
        raise BadValueError(layout.fields["id"], "the id of the rollout", "none")
    return identifier
