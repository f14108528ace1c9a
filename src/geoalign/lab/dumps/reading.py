"""From a file of rollouts to one frame of columns: every value checked, bad rows refused by name or skipped and listed.

The columns of a frame, one row a rollout in the order of the file:

    row, sample     row in the file, and number among the responses to its prompt, both from 0
    line            line, or row in a parquet file, from 1
    position        number among the rollouts of the file, skipped ones included: the row of its hidden state
    step, group     the step, and the number of its group, from 0 by first appearance within the step
    group_name, id  what the file calls them
    prompt          a text; `messages`: the same as chat messages, None where it was none
    response
    reward          NaN: could not be scored; `true_reward`, `label` (given by a person): NaN where unknown
    correct, answer, final_answer, tokens, truncated: None where the file does not say
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas

from geoalign.errors import InputError
from geoalign.lab.dumps import values
from geoalign.lab.dumps.formats import TRINITY, VERL, DumpLayout, step_of
from geoalign.lab.dumps.values import BadValueError
from geoalign.lab.store.columns import whole_text
from geoalign.lab.tasks.base import Messages
from geoalign.lab.tasks.sources import RawRow, dump_rows, field_of, row_name

# What each rollout of a row has of its own, and the check of its value; the reward has its own.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "response": values.response,
    "true_reward": values.number,
    "correct": values.truth,
    "final_answer": values.short_text,
    "tokens": values.count,
    "truncated": values.truth,
}
_Sample = tuple[dict[str, Any], dict[str, Any]]  # values by role, and the reward by field
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("row", "line", "position", "step"), "int64"),
    **dict.fromkeys(("group_name", "id", "prompt", "messages", "answer"), object),
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
    """The rollouts of one file in order, what was left out, and how many there are with it (None: not known)."""

    path: Path
    layout: DumpLayout
    frame: pandas.DataFrame
    skipped: tuple[Skipped, ...] = ()
    positions: int | None = None


def read_dump(
    path: Path, layout: DumpLayout, *, step: int = 1, skip_bad: bool = False, mixed_groups: bool = False
) -> Dump:
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
    by_step = frame.groupby("step", sort=False)
    frame["group"] = by_step["group_name"].transform(lambda names: pandas.factorize(names)[0]).astype("int64")
    frame["sample"] = frame.groupby(["step", "group"]).cumcount()
    frame["label"] = float("nan")
    if not (skip_bad or mixed_groups):
        _check_group_sizes(path, frame)
    return Dump(path, layout, frame, tuple(reader.skipped), reader.position)


def read_rewards(path: Path, layout: DumpLayout) -> list[float]:
    """The rewards alone, of the rows that can be read."""
    found: list[float] = []
    for raw in dump_rows(path):
        with suppress(BadValueError):
            row = {} if raw.value is None else layout.format.flat(raw.value)
            given = {role: field_of(row, name) for role, name in layout.fields.items()}
            found += [_reward(layout, rewards, "") for _, rewards in _samples(layout, row, given)]
    return found


def _check_group_sizes(path: Path, frame: pandas.DataFrame) -> None:
    sizes = frame.groupby(["step", "group"])["row"].transform("size")
    for _, step in frame.assign(size=sizes).groupby("step", sort=False):
        usual = Counter(step[~step.duplicated("group")]["size"]).most_common(1)[0][0]
        others = step[step["size"] != usual]
        if len(others):
            raise InputError(
                f"{row_name(path, others['line'].iloc[0])}: group: expected {usual} rollouts of its prompt as most "
                f"prompts have, got {others['size'].iloc[0]}; rows may be missing: --mixed-groups accepts groups of "
                "any size"
            )


class _Reader:
    """Collects the rollouts of one file, in the columns of `_KINDS`; texts that come again are kept once."""

    def __init__(self, path: Path, layout: DumpLayout, step: int, skip_bad: bool) -> None:
        self.path, self.layout, self.step, self.skip_bad = path, layout, step, skip_bad
        self.columns: list[list[Any]] = [[] for _ in _KINDS]
        self.skipped: list[Skipped] = []
        self.position: int | None = 0
        self._lines: dict[tuple[int, str], int] = {}
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
        for role in ("prompt", "response", "group"):
            if role in fields and given[role] is None:
                got = "null" if fields[role] in row else "no such field"
                raise BadValueError(fields[role], f"the {role} of the rollout", got)
        if fields.get("truncated") == "truncate_status" and given["truncated"] is not None:  # Trinity's word for it
            given["truncated"] = given["truncated"] == "response_truncated"
        prompt, messages = self._prompt(given)
        step = step_of(layout, row)
        step = self.step if step is None else step
        group = str(raw.number) if listed else _group(layout, row)
        name = _id(layout, row, raw.number)
        answer = values.short_text(fields["answer"], given["answer"]) if "answer" in fields else None
        made: list[tuple[Any, ...]] = []
        for sample, (cells, rewards) in enumerate(_samples(layout, row, given)):
            at = f".{sample}" if listed else ""
            own = name + at.replace(".", "/")
            if "id" in fields and (step, own) in self._lines:
                earlier = row_name(self.path, self._lines[step, own])
                raise BadValueError(fields["id"], "an id of its own", f"the id of {earlier} (--field id= reads none)")
            checked = {
                role: None if cells.get(role) is None else check(fields[role] + at, cells[role])
                for role, check in _CHECKS.items()
            }
            checked["response"] = checked["response"] or ""  # a dump may come without its texts
            made.append(
                (raw.number, raw.line, (self.position or 0) + sample, step, group, own, prompt, messages, answer,
                 _reward(layout, rewards, at), *checked.values())
            )  # fmt: skip
        self._lines.update(((step, record[5]), raw.line) for record in made if "id" in fields)
        return made

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
            raise BadValueError(name, "a list of responses", "an empty list")
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


def _group(layout: DumpLayout, value: Mapping[str, Any]) -> str:
    name = layout.fields["group"]
    group = field_of(value, name)
    if name == layout.fields.get("prompt") and "system" in layout.fields:
        # The same question under another system message is another prompt.
        system = field_of(value, layout.fields["system"])
        group = group if system is None else [system, group]
    if layout.format is VERL and name == "uid" and isinstance(group, str):
        # {uid of the prompt}_{session}_{index}, as verl's V1 trainer writes it.
        stem = group.rsplit("_", 2)
        return stem[0] if len(stem) == 3 and stem[1].isdecimal() and stem[2].isdecimal() else group
    if layout.format is TRINITY and name == "eid.task" and field_of(value, "eid.step") not in (0, None):
        got = values.described(field_of(value, "eid.step"))
        raise BadValueError("eid.step", "0: one experience for each run of a task", got)
    if isinstance(group, str):
        return group
    # Values that are different have different names.
    if isinstance(group, float) and not abs(group) <= 2**53:
        raise BadValueError(name, "a group that can be told from others", values.described(group))
    try:
        return json.dumps(group, sort_keys=True, default=str)
    except (TypeError, ValueError, RecursionError):
        raise BadValueError(name, "a group that can be told from others", values.described(group)) from None


def _id(layout: DumpLayout, value: Mapping[str, Any], number: int) -> str:
    if layout.format is TRINITY and layout.fields.get("id") == "eid.suffix":
        parts = [field_of(value, f"eid.{part}") for part in ("batch", "task", "run", "step", "suffix")]
        return whole_text("/".join(str(part) for part in parts))
    if "id" not in layout.fields:
        return str(number)
    if (identifier := values.short_text(layout.fields["id"], field_of(value, layout.fields["id"]))) is None:
        raise BadValueError(layout.fields["id"], "the id of the rollout", "none")
    return identifier
