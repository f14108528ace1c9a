"""How one file of rollouts is read: its format and the field of each role, found in its first rows."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from geoalign.dumps.field_names import GOLD_ANSWERS, LIKELY_GOLD_ANSWERS, PROBLEM_IDS
from geoalign.dumps.files import check_dump_name, dump_rows
from geoalign.dumps.formats import FORMATS
from geoalign.dumps.formats.format import ROLES, VERDICT, Format, Row
from geoalign.dumps.formats.plain import PLAIN, RESPONSES
from geoalign.dumps.guesses import guessed_fields, kinds_of_fields
from geoalign.dumps.raw_rows import CsvCell, RawRow
from geoalign.dumps.row_files import CSV_SUFFIXES
from geoalign.dumps.row_names import row_name
from geoalign.dumps.values import (
    BadValueError,
    as_said,
    described,
    field_of,
    final_answer,
    is_conversation,
    truth,
    whole_number,
)
from geoalign.errors import ConfigError, InputError
from geoalign.text import listed, one_line, quote

# Rows that a format is recognised by.
_FIRST_ROWS = 20
_TABLE_SUFFIXES = (".parquet", ".table.json", ".db", *CSV_SUFFIXES)
# Without these a row is no rollout, where the file has them at all.
_NEEDED = ("prompt", "response", "reward", "group")
# A file without prompts holds rollouts where one of these may name its problems.
_IDS_FOR_PROMPTS = (*PROBLEM_IDS, "id", "uid")
# Roles whose fields hold no part of a problem, and no gold answer.
_OF_RESPONSES = ("response", "reward", "true_reward", "correct", "final_answer", "step", "tokens", "truncated")


@dataclass(frozen=True)
class DumpLayout:
    """How one file is read.

    Attributes:
        format: its format.
        fields: by role the name of its field; of a reward or a group also several names joined by `+`.
        asked: the fields that the user named by role; an empty name leaves a role out.
    """

    format: Format
    fields: Mapping[str, str]
    asked: Mapping[str, str]

    def __str__(self) -> str:
        """What the terminal says: "rollout dump of verl (prompt from input, ...)"."""
        names = {**{role: role for role in _NEEDED}, "answer": "gold answer", "final_answer": "final answer"}
        parts = []
        for role, name in names.items():
            if role in self.fields:
                # A field that is called what it holds is named once.
                place = self.fields[role]
                parts.append(name if name == place else f"{name} from {place}")
        return f"{self.format.title} ({', '.join(parts)})"

    def names(self, role: str) -> tuple[str, ...]:
        """The fields that together give a role; none where the file does not have it."""
        return _split(self.fields.get(role, ""))

    @property
    def verdicts(self) -> dict[str, str]:
        """The fields with verdicts of further verifiers, by role `verdict.NAME`; only those that the user named."""
        return {role: name for role, name in self.fields.items() if role.startswith(VERDICT)}

    @property
    def of_responses(self) -> set[str]:
        """The fields that hold something of a response, and so tell nothing of its problem."""
        names = {name for role in (*_OF_RESPONSES, *self.verdicts) for name in self.names(role)}
        if self.asked.get("answer") == "":
            names |= {*GOLD_ANSWERS, *LIKELY_GOLD_ANSWERS}
        return names

    def flat(self, row: Row) -> Row:
        """The row with flat fields; BadValueError where the engine would not have written it so."""
        try:
            return self.format.flatten(row)
        except (AttributeError, KeyError, TypeError) as error:
            expected = self.format.title
            raise BadValueError(None, f"expected {expected}, got a field of another kind: {one_line(error)}") from None

    def value(self, row: Row, role: str, name: str | None = None) -> Any:
        """What a flat row has for a role, in the field `name` of several; None where row or file have nothing."""
        name = name or self.fields.get(role)
        if name is None:
            return None
        value = field_of(row, name)
        reader = self.format.readers.get((role, name))
        return value if reader is None else reader(row, value)

    def step(self, row: Row) -> int | None:
        """The step that a flat row names, also as a text; None where steps have no field."""
        if "step" not in self.fields:
            self._check_names_no_step(row)
            return None
        name = self.fields["step"]
        step = whole_number(name, as_said(self.value(row, "step")))
        if step is None:
            raise BadValueError(name, "the step of the rollout", "none")
        return step

    def _check_names_no_step(self, row: Row) -> None:
        """Raises BadValueError where a row has a step, though none of the file's first rows has any."""
        if "step" in self.asked or self.format.step_in_path is not None:
            return
        for name in self.format.fields.get("step", ()):
            if as_said(field_of(row, name)) is not None:
                raise BadValueError(name, "no step, as in the rows before", described(as_said(field_of(row, name))))

    @property
    def asked_beside_rollouts(self) -> dict[str, str]:
        """By role the fields that the user named for what a rollout may lack, further verdicts left out."""
        return {
            role: name
            for role, name in self.asked.items()
            if name and role not in _NEEDED and not role.startswith(VERDICT)
        }

    def optional_roles(self, field: str | None) -> list[str]:
        """The roles that a field alone gives and that may be left out; none where a needed role has it, too."""
        roles = [role for role in ROLES if field in self.names(role)]
        if field in self.format.fields.get("step", ()) and "step" not in roles:
            roles.append("step")
        return [] if set(roles) & {"prompt", "response", "reward"} else roles


class MissingRolesError(ConfigError):
    """A file in which a rollout's parts were not found.

    Attributes:
        what: what was not found, and what the file has.
        roles: the roles that were not found.
        options: the options that would name their fields, with `NAME` for one of which there is no guess.
        is_complete: whether there is a guess for each.
    """

    def __init__(self, what: str, guesses: Mapping[str, str | None]) -> None:
        options = []
        for role, name in guesses.items():
            options += ["--field", f"{role}={name or 'NAME'}"]
        super().__init__(f"{what} Say where they are: {' '.join(options)}")
        self.what = what
        self.roles = tuple(guesses)
        self.options = tuple(options)
        self.is_complete = None not in guesses.values()


def parse_fields(texts: Sequence[str]) -> dict[str, str]:
    """The fields by role of options `--field ROLE=NAME`; an empty NAME leaves a role out."""
    fields: dict[str, str] = {}
    for text in texts:
        role, equals, name = (part.strip() for part in text.partition("="))
        is_verdict = role.startswith(VERDICT) and role != VERDICT and name
        if not equals or not (role in ROLES or is_verdict):
            roles = ", ".join((*ROLES, f"{VERDICT}VERIFIER"))
            raise ConfigError(f"--field: expected ROLE=NAME with a role of {roles}; got {quote(text)}")
        if role in fields:
            raise ConfigError(f"--field {role}: expected once, got {quote(fields[role])} and {quote(name)}")
        fields[role] = name
    return fields


def find_layout(
    path: Path, *, name: str | None = None, fields: Mapping[str, str] | None = None
) -> tuple[DumpLayout, int | None]:
    """How a file is to be read, from its first rows, and the step that it, or its first rollout, names.

    Args:
        path: the file.
        name: its format where the user names it; None: the format that most of the rows fit.
        fields: the fields that the user names by role, which come before those of the format.

    Raises:
        ConfigError: there is no such file or format, a named field is not there, or a role has no field.
        InputError: the file is empty, or none of its first rows can be read.
    """
    check_dump_name(path)
    if name is not None and name not in FORMATS:
        raise ConfigError(f"--format: expected one of {', '.join(FORMATS)}; got {quote(name)}")
    raw_rows = list(islice(dump_rows(path), _FIRST_ROWS))
    rows = [raw.value for raw in raw_rows if raw.value is not None]
    if not raw_rows:
        raise InputError(f"{path}: expected at least one rollout, got an empty file")
    if not rows:
        raise InputError(f"{row_name(path, raw_rows[0].line)}: {raw_rows[0].problem}")

    asked = fields or {}
    kind = FORMATS[name] if name is not None else _recognised(path, rows, asked)
    layout = DumpLayout(kind, fields={}, asked=asked)
    head = _Head(path, kind, asked, _flat_rows(path, layout, raw_rows))
    found = head.fields()
    head.check_named_fields(found)
    # Rewards alone say something where the user named their field, or the format.
    rewards_are_enough = kind is PLAIN and (name is not None or bool(asked.get("reward")))
    head.check_all_found(found, texts_needed=not rewards_are_enough)

    if kind.step_in_path is not None and "step" not in asked:
        step = kind.step_in_path(path)
        if step is not None:
            found.pop("step", None)
            return replace(layout, fields=found), step
    layout = replace(layout, fields=found)
    try:
        return layout, layout.step(head.rows[0])
    except BadValueError:
        return layout, None


def _split(text: str) -> tuple[str, ...]:
    """The names of `a+b`."""
    return tuple(name.strip() for name in text.split("+") if name.strip())


def _recognised(path: Path, rows: Sequence[Row], asked: Mapping[str, str]) -> Format:
    """The format whose columns most rows have; where no row has those of any, `responses` or `plain`."""
    is_table = path.name.endswith(_TABLE_SUFFIXES)
    best = None
    most = 0
    for kind in FORMATS.values():
        if kind.columns and (is_table or not kind.tables_only):
            fitting = sum(all(field_of(row, name) is not None for name in kind.columns) for row in rows)
            if fitting > most:
                best = kind
                most = fitting
    if best is not None:
        return best
    with_lists = sum(_has_lists(row, asked) for row in rows)
    return RESPONSES if 2 * with_lists > len(rows) else PLAIN


def _has_lists(row: Row, asked: Mapping[str, str]) -> bool:
    """Whether a row holds a list of responses, and of their rewards if it has any."""
    values: dict[str, Any] = {}
    for role in ("response", "reward"):
        names = _split(asked[role]) if role in asked else RESPONSES.fields[role]
        values[role] = next((value for name in names if (value := field_of(row, name)) is not None), None)
    # A list of chat messages is one response; an empty list may be either.
    response = values["response"]
    is_list = isinstance(response, list) and response != [] and not is_conversation(response)
    return is_list and (values["reward"] is None or isinstance(values["reward"], list))


def _flat_rows(path: Path, layout: DumpLayout, raw_rows: Sequence[RawRow]) -> list[Row]:
    """The first rows with flat fields; one that is not of the format is an error only if all are."""
    rows = []
    problems = []
    for raw in raw_rows:
        if raw.value is not None:
            try:
                rows.append(layout.flat(raw.value))
            except BadValueError as error:
                problems.append(f"{row_name(path, raw.line)}: {error}")
    if not rows:
        raise InputError(problems[0])
    return rows


class _Head:
    """The first rows of a file with flat fields, in which the fields of its roles are found."""

    def __init__(self, path: Path, kind: Format, asked: Mapping[str, str], rows: list[Row]) -> None:
        self.path = path
        self.kind = kind
        self.asked = asked
        self.rows = rows

    def fields(self) -> dict[str, str]:
        """By role its field: the one that the user names, else the first of the format's that the rows have."""
        found: dict[str, str] = {}
        for role in ROLES:
            name = self.asked[role] if role in self.asked else self._own_field(role, found)
            if name:
                found[role] = name
        found.update({role: name for role, name in self.asked.items() if role.startswith(VERDICT)})
        return found

    def _own_field(self, role: str, found: Mapping[str, str]) -> str | None:
        """The first of the format's fields for a role that the rows have; those of the roles before it are `found`."""
        if role == "reward" and self.kind.reward_columns is not None and "response" in found:
            return self._only_reward(self.kind.reward_columns(self.rows))
        if role in ("answer", "final_answer"):
            return self._field_of_answers(role, found)
        candidates = self.kind.fields.get(role, ())
        filled = [name for name in candidates if self._values(name)]
        if role == "step":
            # A step that is an empty text or NaN in all rows is none.
            filled = [name for name in filled if any(as_said(value) is not None for value in self._values(name))]
        if role == "correct":
            filled = [name for name in filled if name != found.get("reward") and _are_truths(self._values(name))]
        if role == "reward" and not filled:
            filled = [name for name in candidates if any(name in row for row in self.rows)]
        return filled[0] if filled else None

    def _only_reward(self, columns: Sequence[str]) -> str:
        """The one column that may be the reward; ConfigError where there is another number of them."""
        if len(columns) == 1:
            return columns[0]
        got = f"{listed(columns)}, which may be rewards or other numbers" if columns else self._columns()
        example = one_line("+".join(columns[:2]), 80) or "NAME"
        raise ConfigError(
            f"{self.path}: reward: expected one column of rewards, got {got}: name those that add up by "
            f"--field reward={example}"
        )

    def _field_of_answers(self, role: str, found: Mapping[str, str]) -> str | None:
        """The field of gold or final answers; one with an answer in it comes before an empty one.

        A truth value is no answer. Where a row holds lists of responses, a list of as many answers is theirs; anything
        else is the gold answer.
        """
        taken = {found.get("response"), found.get("reward"), found.get("answer")}
        for other in (*_OF_RESPONSES, "answer"):
            if other != role:
                taken.update(_split(self.asked.get(other, "")))
        empty = None
        for name in self.kind.fields.get(role, ()):
            values = self._values(name)
            if name in taken or not self._has(name) or (values and all(isinstance(value, bool) for value in values)):
                continue
            if self.kind.lists and values and self._one_for_each_response(name, found) != (role == "final_answer"):
                continue
            if any(_may_be_answer(name, value) for value in values):
                return name
            # No answer was found in the first responses; a field of final answers that stays empty is left out later.
            if role == "final_answer" and empty is None and (values or not self.kind.lists):
                empty = name
        return empty

    def _one_for_each_response(self, name: str, found: Mapping[str, str]) -> bool:
        """Whether a field holds a list, as long as that of the responses, in each row that has it."""
        for row in self.rows:
            value = field_of(row, name)
            responses = field_of(row, found.get("response", ""))
            both_lists = isinstance(value, list) and isinstance(responses, list)
            if is_filled(value) and not (both_lists and len(value) == len(responses)):
                return False
        return True

    def check_named_fields(self, found: Mapping[str, str]) -> None:
        """Raises ConfigError where a field of the needed roles, which the user has named, is not there; of other roles
        where a field of nearly that name is, for a later row may have what the first ones lack."""
        for role in (*_NEEDED, *(role for role in found if role.startswith(VERDICT))):
            place = found.get(role, "")
            for name in _split(place) if role in ("reward", "group") else [place]:
                if place and not self._has(name) and not (role == "reward" and self.kind.reward_may_lack):
                    raise self._no_such_field(role, name)
        for role, name in self.asked.items():
            if name and role not in _NEEDED and not self._has(name) and self._nearest(name) is not None:
                raise self._no_such_field(role, name)

    def _no_such_field(self, role: str, name: str) -> ConfigError:
        """The error for a field that no row has, with the nearest name that one has."""
        nearest = self._nearest(name)
        hint = "" if nearest is None else f": did you mean {nearest!r}?"
        return ConfigError(f"{self.path}: {role}: expected a field {name!r}, got {self._columns()}{hint}")

    def _nearest(self, name: str) -> str | None:
        """The field whose name is most like this one; None where none is."""
        return next(iter(difflib.get_close_matches(name, self._names(), n=1)), None)

    def check_all_found(self, found: Mapping[str, str], *, texts_needed: bool) -> None:
        """Raises MissingRolesError where a reward, a response or what tells problems apart was not found."""
        wanted = ("reward", "response") if texts_needed else ("reward",)
        missing = [role for role in wanted if role not in found]
        tells_problems = "group" in found or "prompt" in found or self.kind.lists
        if not tells_problems and not any(self._has(name) for name in _IDS_FOR_PROMPTS):
            missing.append("prompt")
        if not missing:
            return
        taken = {name for place in self.asked.values() for name in _split(place)}
        for role in _NEEDED:
            if role not in missing:
                taken.update(self.kind.fields.get(role, ()))
        guesses = guessed_fields(self.rows, missing, taken, found.get("prompt"))
        what = f"{self.path}: found no {' and no '.join(missing)}. Its fields: {kinds_of_fields(self.rows)}."
        raise MissingRolesError(what, {role: guesses.get(role) for role in missing})

    def _has(self, name: str) -> bool:
        """Whether any row has a field, if only with null in it."""
        return any(name in row or field_of(row, name) is not None for row in self.rows)

    def _values(self, name: str) -> list[Any]:
        """What rows have in a field, without those that have nothing."""
        return [value for row in self.rows if is_filled(value := field_of(row, name))]

    def _names(self) -> list[str]:
        """The names of all fields."""
        return sorted({str(name) for row in self.rows for name in row})

    def _columns(self) -> str:
        names = self._names()
        return f"the fields {listed(names)}" if names else "no field"


def is_filled(value: Any) -> bool:
    """Whether a field has a value; an empty cell of CSV is none."""
    return value is not None and not (isinstance(value, CsvCell) and not value.strip())


def _may_be_answer(name: str, value: Any) -> bool:
    """Whether something stands in a field of answers; what is no answer, as a date, is refused when it is read."""
    try:
        return final_answer(name, value) is not None
    except BadValueError:
        return True


def _are_truths(values: Sequence[Any]) -> bool:
    """Whether values, or the entries of lists of them, are truth values or 0 and 1."""
    entries = [entry for value in values for entry in (value if isinstance(value, list) else [value])]
    try:
        for entry in entries:
            truth("", entry)
    except BadValueError:
        return False
    return bool(entries)
