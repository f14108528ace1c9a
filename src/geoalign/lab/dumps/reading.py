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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas

from geoalign.errors import InputError
from geoalign.lab.dumps import values
from geoalign.lab.dumps.formats import TRINITY, VERL, Layout, step_of
from geoalign.lab.dumps.values import BadValueError, Messages
from geoalign.lab.store.columns import whole_text
from geoalign.lab.tasks.rows import RawRow, dump_rows, field_of, row_name

# What each rollout has of its own, and the check of its value; the reward has its own.
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "true_reward": values.number,
    "correct": values.truth,
    "final_answer": values.short_text,
    "tokens": values.count,
    "truncated": values.truth,
}
# Trinity's word for it.
_CUT_OFF = "response_truncated"
_KINDS: dict[str, Any] = {
    **dict.fromkeys(("row", "line", "position", "step"), "int64"),
    **dict.fromkeys(("group_name", "id", "prompt", "messages", "response"), object),
    **dict.fromkeys(("reward", "true_reward"), "float64"),
    **dict.fromkeys(("correct", "answer", "final_answer", "tokens", "truncated"), object),
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
    """What was read from one file.

    Attributes:
        frame: its rollouts, in order.
        positions: rollouts in the file, those left out included; None where their number is not known.
    """

    path: Path
    layout: Layout
    frame: pandas.DataFrame
    skipped: tuple[Skipped, ...] = ()
    positions: int | None = None

    def group_sizes(self) -> dict[int, int]:
        """How many groups there are of each size."""
        sizes = Counter(self.frame.groupby(["step", "group"]).size().tolist())
        return dict(sorted(sizes.items()))


def read_dump(path: Path, layout: Layout, *, step: int = 1, skip_bad: bool = False, mixed_groups: bool = False) -> Dump:
    """Reads a file of rollouts.

    Args:
        step: that of rollouts that name none.
        skip_bad: leave bad rows out and list them; groups may then differ in size.
        mixed_groups: accept groups of different sizes.
    """
    reader = _Reader(path, layout, step, skip_bad)
    for raw in dump_rows(path):
        reader.add(raw)
    if not reader.records:
        first = reader.skipped[0]
        name = f"{first.field}: " if first.field else ""
        raise InputError(
            f"{path}: expected at least one rollout, got none among {len(reader.skipped)} bad rows; the first: "
            f"{row_name(path, first.line)}: {name}{first.reason}"
        )
    columns = zip(_KINDS.items(), zip(*reader.records, strict=True), strict=True)
    frame = pandas.DataFrame({name: pandas.Series(cells, dtype=kind) for (name, kind), cells in columns})
    by_step = frame.groupby("step", sort=False)
    frame["group"] = by_step["group_name"].transform(lambda names: pandas.factorize(names)[0]).astype("int64")
    frame["sample"] = frame.groupby(["step", "group"]).cumcount()
    frame["label"] = float("nan")
    if not (skip_bad or mixed_groups):
        _check_group_sizes(path, frame)
    return Dump(path, layout, frame, tuple(reader.skipped), reader.position)


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
    """Collects the rollouts of one file, as tuples of the columns of `_KINDS`; texts that come again are kept once."""

    def __init__(self, path: Path, layout: Layout, step: int, skip_bad: bool) -> None:
        self.path, self.layout, self.step, self.skip_bad = path, layout, step, skip_bad
        self.records: list[tuple[Any, ...]] = []
        self.skipped: list[Skipped] = []
        self.position: int | None = 0
        self._ids: dict[tuple[int, str], int] = {}
        self._texts: dict[str, str] = {}

    def add(self, raw: RawRow) -> None:
        """Takes one row of the file, or lists it as skipped."""
        problem: BadValueError | str | None = raw.problem
        rollouts: list[tuple[Any, ...]] = []
        if raw.value is not None:
            try:
                rollouts = self._rollouts(raw, raw.value)
            except BadValueError as error:
                problem = error
        if problem is not None:
            self._refuse(raw, problem)
        self.records += rollouts
        self._advance(raw, len(rollouts))

    def _advance(self, raw: RawRow, count: int) -> None:
        if self.position is None:
            return
        if raw.rest_lost:
            self.position = None
        elif not self.layout.format.lists:
            self.position += 1
        elif count:
            self.position += count
        else:
            # How many responses a bad row has is only known where its list could be read.
            given = field_of(raw.value, self.layout.fields["response"]) if raw.value is not None else None
            self.position = self.position + len(given) if isinstance(given, list) else None

    def _refuse(self, raw: RawRow, problem: BadValueError | str) -> None:
        if not self.skip_bad:
            raise InputError(f"{row_name(self.path, raw.line)}: {problem}")
        name = problem.field if isinstance(problem, BadValueError) else None
        reason = f"expected {problem.expected}, got {problem.got}" if isinstance(problem, BadValueError) else problem
        if raw.rest_lost:
            reason += "; nothing behind it was read"
        self.skipped.append(Skipped(str(self.path), raw.line, name, reason))

    def _rollouts(self, raw: RawRow, value: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The rollouts of a row: one, or those of its list."""
        fields, listed = self.layout.fields, self.layout.format.lists
        if not listed:
            for role in ("prompt", "response", "group"):
                if role in fields and field_of(value, fields[role]) is None:
                    got = "null" if fields[role] in value else "no such field"
                    raise BadValueError(fields[role], f"the {role} of the rollout", got)
        prompt, messages = self._prompt(value)
        if listed:
            cells = self._lists(value)
        else:
            roles = ("response", *_CHECKS)
            cells = {role: [field_of(value, fields[role])] for role in roles if role in fields}
            if self.layout.format is TRINITY and fields.get("truncated") == "truncate_status":
                cells["truncated"] = [None if (status := cells["truncated"][0]) is None else status == _CUT_OFF]
        step = step_of(self.layout, value)
        step = self.step if step is None else step
        group = str(raw.number) if listed else _group(self.layout, value)
        name = _id(self.layout, value, raw.number)
        answer = values.short_text(fields["answer"], field_of(value, fields["answer"])) if "answer" in fields else None
        made = []
        for sample in range(len(cells["response"]) if "response" in cells else 1):
            at = f".{sample}" if listed else ""
            own = name + at.replace(".", "/")
            if "id" in fields:
                self._check_id(step, own)
            response = (
                values.response(fields["response"] + at, cells["response"][sample]) if "response" in cells else ""
            )
            reward = _listed_reward(self.layout, at, cells["reward"][sample]) if listed else _reward(self.layout, value)
            more = {
                role: _checked(role, check, fields, cells[role][sample], at) if role in cells else None
                for role, check in _CHECKS.items()
            }
            made.append(
                (raw.number, raw.line, (self.position or 0) + sample, step, group, own, prompt, messages, response,
                 reward, more["true_reward"], more["correct"], answer, more["final_answer"], more["tokens"],
                 more["truncated"])
            )  # fmt: skip
        if "id" in fields:
            self._ids.update(((step, record[5]), raw.line) for record in made)
        return made

    def _lists(self, value: Mapping[str, Any]) -> dict[str, list[Any]]:
        fields = self.layout.fields
        cells = {"response": _list(fields["response"], value)}
        length = len(cells["response"])
        if not length:
            raise BadValueError(fields["response"], "a list of responses", "an empty list")
        cells["reward"] = _list(fields["reward"], value, length)
        there = [role for role in _CHECKS if role in fields and field_of(value, fields[role]) is not None]
        return cells | {role: _list(fields[role], value, length) for role in there}

    def _check_id(self, step: int, name: str) -> None:
        if (step, name) in self._ids:
            earlier = row_name(self.path, self._ids[step, name])
            raise BadValueError(self.layout.fields["id"], "an id of its own", f"the id of {earlier}")

    def _prompt(self, value: Mapping[str, Any]) -> tuple[str, Messages | None]:
        fields = self.layout.fields
        if "prompt" not in fields:
            return "", None
        given = field_of(value, fields["prompt"])
        if given is None:
            raise BadValueError(fields["prompt"], "the prompt of the rollout", "none")
        text, messages = values.prompt(fields["prompt"], given)
        system = field_of(value, fields["system"]) if "system" in fields else None
        if isinstance(system, str) and system and messages is None:
            messages = ({"role": "system", "content": whole_text(system)}, {"role": "user", "content": text})
        return self._texts.setdefault(text, text), messages


def _checked(role: str, check: Callable[[str, Any], Any], fields: Mapping[str, str], value: Any, at: str = "") -> Any:
    """A value that may lack; None for NaN."""
    if value is None:
        return None
    checked = check(fields[role] + at, value)
    return None if isinstance(checked, float) and checked != checked else checked


def _reward(layout: Layout, value: Mapping[str, Any]) -> float:
    """The reward; of several columns those that are numbers add up, as TRL adds them."""
    parts = []
    for name in layout.rewards:
        reward = field_of(value, name)
        if reward is None and name not in value and not layout.format.reward_may_lack:
            raise BadValueError(name, "the reward of the rollout", "no such field")
        parts.append(_number(layout, name, reward))
    scored = [part for part in parts if part == part]
    return values.number("+".join(layout.rewards), sum(scored)) if scored else float("nan")


def _listed_reward(layout: Layout, at: str, value: Any) -> float:
    """A number, or a list of one, as reward models with one head give it."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return _number(layout, layout.fields["reward"], value, at)


def _number(layout: Layout, name: str, value: Any, at: str = "") -> float:
    """A truth value is a reward only in a field of verdicts, such as `correct`."""
    verdicts = name in layout.format.fields.get("correct", ())
    return (values.number_or_truth if verdicts else values.number)(name + at, value)


def _list(name: str, value: Mapping[str, Any], length: int | None = None) -> list[Any]:
    entries = field_of(value, name)
    if not isinstance(entries, list):
        got = values.described(entries) if entries is not None else "none"
        raise BadValueError(name, "a list, one entry for each response", got)
    if length is not None and len(entries) != length:
        raise BadValueError(name, f"{length} entries as responses", str(len(entries)))
    return entries


def _group(layout: Layout, value: Mapping[str, Any]) -> str:
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


def _id(layout: Layout, value: Mapping[str, Any], number: int) -> str:
    if layout.format is TRINITY and layout.fields.get("id") == "eid.suffix":
        parts = [field_of(value, f"eid.{part}") for part in ("batch", "task", "run", "step", "suffix")]
        return whole_text("/".join(str(part) for part in parts))
    if "id" not in layout.fields:
        return str(number)
    identifier = values.short_text(layout.fields["id"], field_of(value, layout.fields["id"]))
    if identifier is None:
        raise BadValueError(layout.fields["id"], "the id of the rollout", "none")
    return identifier
