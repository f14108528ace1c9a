"""From the rows of a dump to rollouts: every value checked, bad rows refused by name or skipped and listed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, InputError
from geoalign.offline import values
from geoalign.offline.formats import TRINITY, VERL, Layout, recognise
from geoalign.offline.raw import RawRow, check_name, is_parquet, place, raw_rows
from geoalign.offline.values import BadValueError, Messages
from geoalign.tasks.rows import field_of

# Rows that a format is recognised by.
_FIRST_ROWS = 20


@dataclass(frozen=True, slots=True)
class Row:
    """One rollout of a dump.

    `row` is its row in the file and `sample` its place among the responses to its prompt, both from 0; `line` is the
    line or row in a parquet file, from 1. `position` counts the rollouts of the file, skipped rows included: the row of
    its hidden state. A reward of NaN could not be scored.
    """

    row: int
    sample: int
    line: int
    position: int
    step: int | None
    group: str
    id: str
    prompt: str
    messages: Messages | None
    response: str
    reward: float
    true_reward: float | None = None
    correct: bool | None = None
    answer: str | None = None
    final_answer: str | None = None
    tokens: int | None = None
    truncated: bool | None = None


@dataclass(frozen=True)
class Skipped:
    """A row that was left out under `--skip-bad`: where, which field (None: the row itself), and why."""

    file: str
    line: int
    field: str | None
    reason: str


@dataclass(frozen=True)
class Dump:
    """What was read from one file.

    Attributes:
        path: the file.
        layout: how it was read.
        rows: its rollouts, in order.
        skipped: the rows left out.
        positions: rollouts in the file, those left out included; None where their number is not known.
        list_fields: of lists of responses, the names whose values are lists with one entry a response in every row.
    """

    path: Path
    layout: Layout
    rows: tuple[Row, ...]
    skipped: tuple[Skipped, ...] = ()
    positions: int | None = None
    list_fields: tuple[str, ...] = ()
    batches: tuple[tuple[int | None, tuple[int, ...]], ...] = field(default=())


def find_layout(path: Path, *, name: str | None, fields: Mapping[str, str]) -> tuple[Layout, int | None]:
    """How a file is to be read, from its first rows, and the step that its first rollout names.

    Raises:
        ConfigError: no such file, or none of the formats fits.
        InputError: not one readable row at its beginning; the message has the line.
    """
    check_name(path)
    first = list(islice(raw_rows(path), _FIRST_ROWS))
    rows = [row.value for row in first if row.value is not None]
    if not rows:
        if not first:
            raise InputError(f"{path}: expected at least one rollout, got an empty file")
        raise InputError(f"{place(path, first[0].line)}: {first[0].problem}")
    layout = recognise(str(path), rows, name=name, fields=fields, parquet=is_parquet(path))
    try:
        return layout, _step(layout, rows[0])
    except BadValueError:
        return layout, None


def read_dump(path: Path, layout: Layout, *, skip_bad: bool = False, mixed_groups: bool = False) -> Dump:
    """Reads a file of rollouts.

    Args:
        skip_bad: leave bad rows out and list them; groups may then differ in size.
        mixed_groups: accept groups of different sizes.

    Raises:
        InputError: a row that is none, a field that is missing or of another kind, an id twice in one step, lists of
            different lengths, groups of different sizes, or no rollout at all; the message has file, line and field.
    """
    reader = _Reader(path, layout, skip_bad)
    for raw in raw_rows(path):
        reader.add(raw)
    rows = tuple(reader.rows)
    if not rows:
        raise InputError(f"{path}: expected at least one rollout, got none among {len(reader.skipped)} bad rows")
    batches = _batches(rows)
    if not (skip_bad or mixed_groups):
        _check_group_sizes(path, rows, batches)
    lists = tuple(sorted(reader.list_fields or ()))
    return Dump(path, layout, rows, tuple(reader.skipped), reader.position, lists, batches)


def group_sizes(rows: tuple[Row, ...], batches: tuple[tuple[int | None, tuple[int, ...]], ...]) -> dict[int, int]:
    """How many groups there are of each size."""
    sizes = Counter(
        size for _, members in batches for size in Counter(rows[member].group for member in members).values()
    )
    return dict(sorted(sizes.items()))


class _Reader:
    """Collects the rollouts of one file."""

    def __init__(self, path: Path, layout: Layout, skip_bad: bool) -> None:
        self.path, self.layout, self.skip_bad = path, layout, skip_bad
        self.rows: list[Row] = []
        self.skipped: list[Skipped] = []
        self.position: int | None = 0
        self.list_fields: set[str] | None = None
        self._ids: dict[tuple[int | None, str], int] = {}
        self._group_rows: Counter[tuple[int | None, str]] = Counter()
        self._texts: dict[str, str] = {}

    def add(self, raw: RawRow) -> None:
        """Takes one row of the file, or lists it as skipped."""
        problem: BadValueError | str | None = raw.problem
        found: list[Row] = []
        if raw.value is not None:
            try:
                found = list(self._rollouts(raw, raw.value))
                self._check_ids(found)
            except BadValueError as error:
                found, problem = [], error
        if problem is not None:
            self._refuse(raw, problem)
        if found and not self.layout.format.lists:
            found = [self._placed(found[0])]
        for row in found:
            self._ids[row.step, row.id] = row.line
        self.rows += found
        self._advance(raw, len(found))
        if found and self.layout.format.lists:
            assert raw.value is not None
            names = {name for name, value in raw.value.items() if _has_entries(value, len(found))}
            self.list_fields = names if self.list_fields is None else self.list_fields & names

    def _placed(self, row: Row) -> Row:
        """The row with its place among the responses to its prompt."""
        sample = self._group_rows[row.step, row.group]
        self._group_rows[row.step, row.group] += 1
        return replace(row, sample=sample)

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
            raise InputError(f"{place(self.path, raw.line)}: {problem}")
        name = problem.field if isinstance(problem, BadValueError) else None
        reason = f"expected {problem.expected}, got {problem.got}" if isinstance(problem, BadValueError) else problem
        self.skipped.append(Skipped(str(self.path), raw.line, name, reason))

    def _check_ids(self, found: list[Row]) -> None:
        if "id" not in self.layout.fields:
            return
        for row in found:
            if (row.step, row.id) in self._ids:
                line = self._ids[row.step, row.id]
                raise BadValueError(self.layout.fields["id"], "an id of its own", f"the id of {place(self.path, line)}")

    def _rollouts(self, raw: RawRow, value: Mapping[str, Any]) -> Iterator[Row]:
        return self._of_list(raw, value) if self.layout.format.lists else iter([self._of_row(raw, value)])

    def _of_row(self, raw: RawRow, value: Mapping[str, Any]) -> Row:
        fields = self.layout.fields
        for role in ("prompt", "response", "group"):
            if role in fields and field_of(value, fields[role]) is None:
                got = "null" if fields[role] in value else "no such field"
                raise BadValueError(fields[role], f"the {role} of the rollout", got)
        prompt, messages = self._prompt(value)
        response = (
            values.response(fields["response"], field_of(value, fields["response"])) if "response" in fields else ""
        )
        step = _step(self.layout, value)
        return Row(
            row=raw.number,
            sample=0,
            line=raw.line,
            position=raw.number,
            step=step,
            group=self._kept(_group(self.layout, value)),
            id=_id(self.layout, value, raw.number),
            prompt=prompt,
            messages=messages,
            response=response,
            reward=_reward(self.layout, value),
            true_reward=_optional(values.number, fields, "true_reward", value),
            correct=_optional(values.truth, fields, "correct", value),
            answer=_optional(values.short_text, fields, "answer", value),
            final_answer=_optional(values.short_text, fields, "final_answer", value),
            tokens=_optional(values.whole_number, fields, "tokens", value),
            truncated=_truncated(self.layout, value),
        )

    def _of_list(self, raw: RawRow, value: Mapping[str, Any]) -> Iterator[Row]:
        fields = self.layout.fields
        prompt, messages = self._prompt(value)
        responses = _list(fields["response"], value)
        if not responses:
            raise BadValueError(fields["response"], "a list of responses", "an empty list")
        rewards = _list(fields["reward"], value, len(responses))
        columns = {
            role: _list(fields[role], value, len(responses))
            for role in ("true_reward", "correct", "final_answer", "tokens", "truncated")
            if role in fields and field_of(value, fields[role]) is not None
        }
        step = _step(self.layout, value)
        answer = _optional(values.short_text, fields, "answer", value)
        name = _id(self.layout, value, raw.number)
        position = self.position if self.position is not None else 0
        for sample, text in enumerate(responses):
            where = f"{fields['response']}.{sample}"

            def one(role: str, check: Any, sample: int = sample) -> Any:
                return check(f"{fields[role]}.{sample}", columns[role][sample]) if role in columns else None

            yield Row(
                row=raw.number,
                sample=sample,
                line=raw.line,
                position=position + sample,
                step=step,
                group=str(raw.number),
                id=f"{name}/{sample}",
                prompt=prompt,
                messages=messages,
                response=values.response(where, text),
                reward=_listed_reward(f"{fields['reward']}.{sample}", rewards[sample]),
                true_reward=one("true_reward", values.number),
                correct=one("correct", values.truth),
                answer=answer,
                final_answer=one("final_answer", values.short_text),
                tokens=one("tokens", values.whole_number),
                truncated=one("truncated", values.truth),
            )

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
            messages = ({"role": "system", "content": system}, {"role": "user", "content": text})
        return self._kept(text), messages

    def _kept(self, text: str) -> str:
        """The same text, once in memory for all rollouts of a prompt."""
        return self._texts.setdefault(text, text)


def _reward(layout: Layout, value: Mapping[str, Any]) -> float:
    """The reward; of several columns those that are numbers add up, as TRL adds them."""
    parts = []
    for name in layout.rewards:
        found = field_of(value, name)
        if found is None and name not in value and not layout.format.reward_may_lack:
            raise BadValueError(name, "the reward of the rollout", "no such field")
        parts.append(values.number(name, found))
    scored = [part for part in parts if part == part]
    return sum(scored) if scored else float("nan")


def _listed_reward(name: str, value: Any) -> float:
    """A number, or a list of one, as reward models with one head give it."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return values.number(name, value)


def _list(name: str, value: Mapping[str, Any], length: int | None = None) -> list[Any]:
    found = field_of(value, name)
    if not isinstance(found, list):
        got = values.described(found) if found is not None else "none"
        raise BadValueError(name, "a list, one entry for each response", got)
    if length is not None and len(found) != length:
        raise BadValueError(name, f"{length} entries as responses", str(len(found)))
    return found


def _has_entries(value: Any, count: int) -> bool:
    """Whether a value may hold one entry a response; a conversation of as many messages does not."""
    if not isinstance(value, list) or len(value) != count:
        return False
    return not any(isinstance(entry, Mapping) and "role" in entry for entry in value)


def _optional(check: Any, fields: Mapping[str, str], role: str, value: Mapping[str, Any]) -> Any:
    if role not in fields:
        return None
    found = check(fields[role], field_of(value, fields[role]))
    return None if isinstance(found, float) and found != found else found


def _step(layout: Layout, value: Mapping[str, Any]) -> int | None:
    if "step" not in layout.fields:
        return None
    name = layout.fields["step"]
    found = field_of(value, name)
    # Trinity's batches may be texts: "12".
    if isinstance(found, str) and found.isascii() and found.isdecimal() and len(found) < 19:
        found = int(found)
    if found is None:
        raise BadValueError(name, "the step of the rollout", "none")
    return values.whole_number(name, found)


def _group(layout: Layout, value: Mapping[str, Any]) -> str:
    name = layout.fields["group"]
    found = field_of(value, name)
    if layout.format is VERL and name == "uid" and isinstance(found, str):
        # {uid of the prompt}_{session}_{index}, as verl's V1 trainer writes it.
        stem = found.rsplit("_", 2)
        return stem[0] if len(stem) == 3 and stem[1].isdecimal() and stem[2].isdecimal() else found
    if layout.format is TRINITY and name == "eid.task" and field_of(value, "eid.step") not in (0, None):
        raise BadValueError("eid.step", "0: one experience for each run of a task", str(field_of(value, "eid.step")))
    return found if isinstance(found, str) else json.dumps(found, sort_keys=True, default=str)


def _id(layout: Layout, value: Mapping[str, Any], number: int) -> str:
    if layout.format is TRINITY and layout.fields.get("id") == "eid.suffix":
        parts = [field_of(value, f"eid.{part}") for part in ("batch", "task", "run", "step", "suffix")]
        return "/".join(str(part) for part in parts)
    if "id" not in layout.fields:
        return str(number)
    found = values.short_text(layout.fields["id"], field_of(value, layout.fields["id"]))
    if found is None:
        raise BadValueError(layout.fields["id"], "the id of the rollout", "none")
    return found


def _truncated(layout: Layout, value: Mapping[str, Any]) -> bool | None:
    if layout.format is TRINITY and layout.fields.get("truncated") == "truncate_status":
        status = field_of(value, "truncate_status")
        return None if status is None else status == "response_truncated"
    return _optional(values.truth, layout.fields, "truncated", value)


def _batches(rows: tuple[Row, ...]) -> tuple[tuple[int | None, tuple[int, ...]], ...]:
    """The rows of each step, steps as they first appear."""
    found: dict[int | None, list[int]] = {}
    for number, row in enumerate(rows):
        found.setdefault(row.step, []).append(number)
    return tuple((step, tuple(members)) for step, members in found.items())


def _check_group_sizes(
    path: Path, rows: tuple[Row, ...], batches: tuple[tuple[int | None, tuple[int, ...]], ...]
) -> None:
    for _, members in batches:
        sizes = Counter(rows[member].group for member in members)
        usual = Counter(sizes.values()).most_common(1)[0][0]
        for member in members:
            size = sizes[rows[member].group]
            if size != usual:
                raise InputError(
                    f"{place(path, rows[member].line)}: group: expected {usual} rollouts of its prompt as most prompts "
                    f"have, got {size}; rows may be missing: --mixed-groups accepts groups of any size"
                )


def check_steps(steps: Mapping[Path, int | None]) -> None:
    """Raises ConfigError unless every file names a step of its own, or none does."""
    named: dict[int, Path] = {}
    for path, step in steps.items():
        if step is not None and step in named:
            raise ConfigError(
                f"{path}: step: expected another step than {named[step]}, got {step} again; "
                "--field step= numbers the files instead"
            )
        if step is not None:
            named[step] = path
