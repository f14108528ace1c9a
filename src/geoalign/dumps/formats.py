"""The formats of rollout dumps, and which of them a file has, from its first rows."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from geoalign.dumps import engine_rows
from geoalign.dumps.field_names import FINAL_ANSWERS, GOLD_ANSWERS, GROUPS, IDS, LIKELY_GOLD_ANSWERS, PROBLEM_IDS
from geoalign.dumps.files import check_dump_name, dump_rows
from geoalign.dumps.guesses import guessed_fields, kinds_of_fields
from geoalign.dumps.row_files import CSV_SUFFIXES, CsvCell, RawRow
from geoalign.dumps.row_names import row_name
from geoalign.dumps.values import BadValueError, field_of, final_answer, is_conversation, typed, whole_number
from geoalign.errors import ConfigError, InputError
from geoalign.text import listed, one_line, quote

# What a rollout can have, by the names of `--field`: `true_reward` is the reward before corruption, `answer` the gold
# one, `final_answer` that of the response, `group` what rollouts of one prompt share.
ROLES = (
    "prompt", "system", "response", "reward", "true_reward", "correct", "answer", "final_answer", "group", "id", "step",
    "tokens", "truncated",
)  # fmt: skip
# Rows that a format is recognised by.
_FIRST_ROWS = 20
# Columns of TRL's table that are no reward: the engine's own, and what this package's trainer adds.
_NO_REWARDS = ("score", "anomalous", "source", "true_reward")
# Where prime-rl writes: by its own step.
_STEP_FOLDER = re.compile(r"/step_(\d{1,18})/(?:train|eval)/(?:all|effective)/[^/]+$")
# Without these a row is no rollout, where the file has them at all.
NEEDED = ("prompt", "response", "reward", "group")
# A file without prompts is of the format `plain` where one of these may name its problems.
_IDS_FOR_PROMPTS = (*PROBLEM_IDS, "id", "uid")
# Roles whose fields hold no part of a problem, and no answer.
_OF_RESPONSES = ("response", "reward", "true_reward", "correct", "final_answer", "step", "tokens", "truncated")


@dataclass(frozen=True)
class Format:
    """One kind of dump.

    Attributes:
        fields: where each role stands; of several names the first that a file has.
        columns: what tells the format from others: a row that has all of them is of this kind.
        lists: one row holds a prompt and the list of its responses.
        rendered: prompts are the text that the model read, not bare questions.
        reward_may_lack: a row without the reward's key could not be scored.
        unpack: the row as flat fields, where the engine nests them; `fields` are names of these.
        repeats: rollouts are written again, as another step, for every further update on them.
    """

    name: str
    title: str
    fields: Mapping[str, tuple[str, ...]]
    columns: tuple[str, ...] = ()
    lists: bool = False
    rendered: bool = False
    reward_may_lack: bool = False
    repeats: bool = False
    unpack: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict

    def flat(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The row unpacked; BadValueError where the engine would not have written it so."""
        try:
            return self.unpack(row)
        except (AttributeError, KeyError, TypeError) as error:
            raise BadValueError(
                None, f"expected {self.title}, got a field of another kind: {one_line(error)}"
            ) from None

    def fits(self, row: Mapping[str, Any], asked: Mapping[str, str]) -> bool:
        """Whether a row has all that tells this format from others; `asked` are fields that the user names by role."""
        if any(field_of(row, name) is None for name in self.columns):
            return False
        if self.name not in ("responses", "plain"):
            return True
        names = {role: self.names(role, asked) for role in NEEDED}
        present = {role: value for role in NEEDED if (value := first_value(row, names[role])) is not None}
        # A reward may be null: not scored.
        scored = "reward" in present or any(name in row for name in names["reward"])
        if "response" not in present or not scored:
            return False
        if not {"prompt", "group"} & set(present) and not any(name in row for name in _IDS_FOR_PROMPTS):
            return False
        return self.lists == (isinstance(present.get("reward"), list) and is_list_of_responses(present["response"]))

    def names(self, role: str, asked: Mapping[str, str]) -> tuple[str, ...]:
        """The fields that may hold a role: the user's, or the format's own."""
        if role not in asked:
            return self.fields.get(role, ())
        return split_names(asked[role])


def is_list_of_responses(value: Any) -> bool:
    """Whether a value is a list of responses; a list of chat messages is one response."""
    return isinstance(value, list) and not is_conversation(value)


def _same(*roles: str) -> dict[str, tuple[str, ...]]:
    """Roles that are called as their fields."""
    return {role: (role,) for role in roles}


GEOALIGN = Format(
    "geoalign",
    "rollouts of a GeoAlign run",
    {**_same("prompt", "response", "reward", "true_reward", "group", "step", "tokens"), "id": ("row",)},
    columns=("step", "row", "group", "sample", "prompt", "response", "anomalous", "source", "weight"),
)
TRL = Format(
    "trl",
    "completions table of TRL",
    # `true_reward` stands in tables of `geoalign train`; what a reward function logs of a row beside its reward, too.
    {
        **_same("prompt", "true_reward", "step"), "response": ("completion",), "reward": (), "group": GROUPS,
        "answer": GOLD_ANSWERS, "final_answer": FINAL_ANSWERS,
    },
    columns=("step", "prompt", "completion", "advantage"),
    rendered=True,
    repeats=True,
)  # fmt: skip
TRINITY = Format(
    "trinity",
    "experiences of Trinity-RFT",
    {
        "prompt": ("prompt_text",), "response": ("response_text",), "reward": ("reward",), "group": ("eid.task",),
        "id": ("eid.suffix",), "step": ("eid.batch",), "tokens": ("response_length",),
        "truncated": ("truncate_status",),
        "final_answer": (*FINAL_ANSWERS, *(f"info.{name}" for name in FINAL_ANSWERS)),
    },
    columns=("eid.batch", "eid.task", "prompt_text", "response_text"),
    rendered=True,
    reward_may_lack=True,
)  # fmt: skip
VERL = Format(
    "verl",
    "rollout dump of verl",
    {
        "prompt": ("input",), "response": ("output",), "reward": ("score",), "correct": ("acc",),
        "answer": ("gts", *GOLD_ANSWERS), "final_answer": ("geoalign_answer", *FINAL_ANSWERS),
        "group": ("uid", *GROUPS),
        "id": ("uid", "request_id"), "step": ("step",),
    },
    columns=("input", "output", "score", "step"),
    rendered=True,
)  # fmt: skip
NEMO_RL = Format(
    "nemo_rl", "training data of NeMo-RL",
    {**_same("prompt", "response", "reward"), "group": GROUPS, "answer": GOLD_ANSWERS, "final_answer": FINAL_ANSWERS},
    columns=("content", "rewards", "token_loss_mask"), rendered=True, unpack=engine_rows.nemo_rl,
)  # fmt: skip
VERIFIERS = Format(
    "verifiers", "episodes of verifiers or prime-rl",
    _same("prompt", "response", "reward", "group", "id", "answer", "step"),
    columns=("traces", "task", "id"), unpack=engine_rows.episode,
)  # fmt: skip
SLIME = Format(
    "slime", "samples of slime",
    {
        **_same("prompt", "response", "reward", "group", "answer", "correct", "tokens", "truncated"),
        "final_answer": FINAL_ANSWERS,
    },
    columns=("group_index", "prompt", "response", "response_length", "status"),
    rendered=True, unpack=engine_rows.slime,
)  # fmt: skip
_PROMPTS = ("query", "question", "problem")
RESPONSES = Format(
    "responses",
    "lists of responses, one prompt a row",
    {
        **_same("system", "step"),
        "prompt": (*_PROMPTS, "prompt"),
        "response": ("response", "responses", "generations", "completions", "outputs"),
        "reward": ("pred_score", "rewards", "reward", "scores", "score", "correctness_math_verify"),
        "correct": ("score", "correct", "correctness_math_verify"),
        "answer": (*GOLD_ANSWERS, "answer"),
        "final_answer": (*FINAL_ANSWERS, *(f"{name}s" for name in FINAL_ANSWERS)),
    },
    lists=True,
)
PLAIN = Format(
    "plain",
    "one rollout a row",
    {
        **_same("system", "true_reward", "correct", "id", "step", "tokens", "truncated"),
        "prompt": ("prompt", *_PROMPTS, "input"),
        "response": ("response", "completion", "output"),
        "reward": ("reward", "score"),
        # Where a file has both, `answer` may be what the response answered.
        "answer": (*GOLD_ANSWERS, "answer"),
        "final_answer": FINAL_ANSWERS,
        "group": GROUPS,
    },
)
# The more particular first: of those that fit equally many rows the first is taken.
FORMATS: dict[str, Format] = {kind.name: kind for kind in (
    GEOALIGN, TRL, TRINITY, VERL, NEMO_RL, VERIFIERS, SLIME, RESPONSES, PLAIN,
)}  # fmt: skip


@dataclass(frozen=True)
class DumpLayout:
    """How one file is read: its format, the name under which it has each role, and which roles the user named."""

    format: Format
    fields: Mapping[str, str] = field(default_factory=dict)
    asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def rewards(self) -> tuple[str, ...]:
        """The names whose values add up to the reward."""
        return split_names(self.fields["reward"])

    @property
    def groups(self) -> tuple[str, ...]:
        """The names whose values together name the group; none where the file names no group."""
        return split_names(self.fields.get("group", ""))

    @property
    def of_responses(self) -> set[str]:
        """The fields that hold something of a response, and so tell nothing of its problem."""
        taken = {name for role in _OF_RESPONSES for name in split_names(self.fields.get(role, ""))}
        if self.asked.get("answer") == "":
            taken |= {*GOLD_ANSWERS, *LIKELY_GOLD_ANSWERS}
        return taken

    def __str__(self) -> str:
        names = {**dict(zip(NEEDED, NEEDED, strict=True)), "answer": "gold answer", "final_answer": "final answer"}
        found = {name: self.fields[role] for role, name in names.items() if role in self.fields}
        # A field that is called what it holds is named once.
        named = [name if name == field else f"{name} from {field}" for name, field in found.items()]
        return f"{self.format.title} ({', '.join(named)})"


def split_names(text: str) -> tuple[str, ...]:
    """The names of `a+b`."""
    return tuple(name.strip() for name in text.split("+") if name.strip())


class MissingRolesError(ConfigError):
    """A file in which a rollout's parts were not found: what it has, and the options that would name them."""

    def __init__(self, what: str, options: Sequence[str]) -> None:
        super().__init__(f"{what} Name {'it' if len(options) == 2 else 'them'}: {' '.join(options)}")
        self.what = what
        self.options = tuple(options)


def parse_fields(texts: Sequence[str]) -> dict[str, str]:
    """`--field ROLE=NAME`, NAME dotted where values are nested; an empty NAME leaves a role out."""
    fields: dict[str, str] = {}
    for text in texts:
        role, equals, name = (part.strip() for part in text.partition("="))
        if not equals or role not in ROLES:
            raise ConfigError(f"--field: expected ROLE=NAME with a role of {', '.join(ROLES)}; got {quote(text)}")
        if role in fields:
            raise ConfigError(f"--field {role}: expected once, got {quote(fields[role])} and {quote(name)}")
        fields[role] = name
    return fields


def first_value(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The first value that is there under one of the names; None where none is."""
    return next((value for name in names if (value := field_of(row, name)) is not None), None)


def find_layout(
    path: Path, *, name: str | None = None, fields: Mapping[str, str] | None = None
) -> tuple[DumpLayout, int | None]:
    """How a file is to be read, from its first rows, and the step that its first rollout names.

    `name` is the format where the user names it; `fields`, what the user says of roles, come before its own names.
    """
    check_dump_name(path)
    if name is not None and name not in FORMATS:
        raise ConfigError(f"--format: expected one of {', '.join(FORMATS)}; got {quote(name)}")
    first = list(islice(dump_rows(path), _FIRST_ROWS))
    rows: list[Mapping[str, Any]] = [row.value for row in first if row.value is not None]
    if not rows:
        if not first:
            raise InputError(f"{path}: expected at least one rollout, got an empty file")
        raise InputError(f"{row_name(path, first[0].line)}: {first[0].problem}")
    fields = fields or {}
    chosen = FORMATS[name] if name is not None else _fitting(path, rows, fields)
    rows = _unpacked(path, chosen, first)
    layout = DumpLayout(chosen, _resolved(path, chosen, rows, fields), fields)
    _check(path, layout, rows)
    if chosen is VERIFIERS and "step" not in fields and (step := _STEP_FOLDER.search(path.resolve().as_posix())):
        # Some of its rollouts were begun in an earlier step.
        others = {role: name for role, name in layout.fields.items() if role != "step"}
        return replace(layout, fields=others), int(step[1])
    try:
        return layout, step_of(layout, rows[0])
    except BadValueError:
        return layout, None


def _unpacked(path: Path, chosen: Format, first: Sequence[RawRow]) -> list[Mapping[str, Any]]:
    """The first rows as flat fields; one that is not of the format is an error only if all are."""
    rows, problem = [], ""
    for raw in first:
        try:
            rows += [] if raw.value is None else [chosen.flat(raw.value)]
        except BadValueError as error:
            problem = problem or f"{row_name(path, raw.line)}: {error}"
    if not rows:
        raise InputError(problem)
    return rows


def _fitting(path: Path, rows: Sequence[Mapping[str, Any]], fields: Mapping[str, str]) -> Format:
    # Only tables hold TRL's and the rollouts of runs.
    tables = path.name.endswith((".parquet", ".table.json", *CSV_SUFFIXES))
    known = [each for each in FORMATS.values() if tables or each not in (GEOALIGN, TRL)]
    counts = [sum(candidate.fits(row, fields) for row in rows) for candidate in known]
    best = max(range(len(known)), key=lambda number: counts[number])
    if counts[best]:
        return known[best]
    if fields.get("reward"):
        names = RESPONSES.names("response", fields)
        values = [value for row in rows if (value := first_value(row, names)) is not None]
        return RESPONSES if any(is_list_of_responses(value) for value in values if value != []) else PLAIN
    lists = RESPONSES.names("response", fields)
    nested = any(is_list_of_responses(first_value(row, lists)) for row in rows)
    kind = RESPONSES if nested else PLAIN
    missing = [role for role in ("reward", "response") if not _has_any(rows, kind.names(role, fields))]
    if not _has_any(rows, (*kind.names("prompt", fields), *kind.names("group", fields), *_IDS_FOR_PROMPTS)):
        missing.append("prompt")
    raise missing_roles(path, rows, missing or ["reward"], kind, fields)


def _has_any(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bool:
    return any(name in row or field_of(row, name) is not None for row in rows for name in names)


def _resolved(
    path: Path, chosen: Format, rows: Sequence[Mapping[str, Any]], fields: Mapping[str, str]
) -> dict[str, str]:
    """The field of each role that the rows have; those that the user names as they are."""
    resolved: dict[str, str] = {}
    for role in ROLES:
        if role in fields:
            if fields[role]:
                resolved[role] = fields[role]
            continue
        candidates = chosen.fields.get(role, ())
        names = [name for name in candidates if any(_is_there(field_of(row, name)) for row in rows)]
        if role == "reward" and not names:
            names = [name for name in candidates if any(name in row for row in rows)]
        if role == "correct":
            names = [name for name in names if name != resolved.get("reward") and _are_truths(rows, name)]
        if role in ("answer", "final_answer"):
            names = _answers(role, candidates, chosen, rows, resolved, fields)
        if names:
            resolved[role] = names[0]
    if chosen is TRL and "reward" not in fields and "response" in resolved:
        resolved["reward"] = _trl_reward(path, rows)
    return resolved


def _is_there(value: Any) -> bool:
    """Whether a field has a value; an empty cell of CSV is none."""
    return value is not None and not (isinstance(value, CsvCell) and not value.strip())


def _answers(
    role: str,
    candidates: Sequence[str],
    chosen: Format,
    rows: Sequence[Mapping[str, Any]],
    resolved: Mapping[str, str],
    fields: Mapping[str, str],
) -> list[str]:
    """Of fields that may hold gold or final answers those that do; a field that is filled comes before an empty one.

    A truth value is no answer. Where a row holds lists of responses, a list of as many answers is theirs; anything else
    is the gold answer.
    """
    others = [other for other in (*_OF_RESPONSES, "answer") if other != role]
    taken = {name for other in others for name in split_names(fields.get(other, ""))}
    taken |= {resolved.get("response", ""), resolved.get("reward", ""), resolved.get("answer", "")}
    filled = []
    empty = []
    for name in candidates:
        if name in taken or not any(name in row or field_of(row, name) is not None for row in rows):
            continue
        given = [(row, value) for row in rows if _is_there(value := field_of(row, name))]
        if given and all(isinstance(value, bool) for _, value in given):
            continue
        if chosen.lists and given:
            responses = resolved.get("response", "")
            theirs = all(
                isinstance(value, list)
                and isinstance(listed := field_of(row, responses), list)
                and len(value) == len(listed)
                for row, value in given
            )
            if theirs != (role == "final_answer"):
                continue
        if any(final_answer(name, value) is not None for _, value in given):
            filled.append(name)
        elif role == "final_answer" and not (chosen.lists and not given):
            # No answer was found in the first responses.
            empty.append(name)
    return filled or empty


def _check(path: Path, layout: DumpLayout, rows: Sequence[Mapping[str, Any]]) -> None:
    """Raises ConfigError where a field that the user named is not there, or a role has no field."""
    for role in (role for role in NEEDED if role in layout.fields):
        for name in split_names(layout.fields[role]) if role in ("reward", "group") else (layout.fields[role],):
            there = any(name in row or field_of(row, name) is not None for row in rows)
            if not there and not (role == "reward" and layout.format.reward_may_lack):
                names = sorted({str(each) for row in rows for each in row})
                near = difflib.get_close_matches(name, names, n=1)
                hint = f": did you mean {near[0]!r}?" if near else ""
                raise ConfigError(f"{path}: {role}: expected a field {name!r}, got {_columns(rows)}{hint}")
    wanted = ("reward",) if layout.format is PLAIN else ("reward", "response")
    missing = [role for role in wanted if role not in layout.fields]
    named = "group" in layout.fields or "prompt" in layout.fields
    if not layout.format.lists and not named and not _has_any(rows, _IDS_FOR_PROMPTS):
        missing.append("prompt")
    if missing:
        raise missing_roles(path, rows, missing, layout.format, layout.asked)


def _are_truths(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    values = [value for row in rows if (value := field_of(row, name)) is not None]
    flat = [typed(entry) for value in values for entry in (value if isinstance(value, list) else [value])]
    return bool(flat) and all(
        entry is None or (isinstance(entry, (bool, int, float)) and entry in (0, 1)) for entry in flat
    )


def _trl_reward(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """The one column of rewards in TRL's table; reward functions stand between `completion` and `advantage`."""
    ends, names = ("completion", "advantage"), list(rows[0])
    between = names[names.index(ends[0]) + 1 : names.index(ends[1])] if {*ends} <= {*names} else names
    # What a reward function logs beside its reward stands there, too.
    no_rewards = {*_NO_REWARDS, *GOLD_ANSWERS, *LIKELY_GOLD_ANSWERS, *FINAL_ANSWERS, *GROUPS, *PROBLEM_IDS, *IDS}
    columns = []
    for name in between:
        values = [typed(row.get(name)) for row in rows]
        numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        if numbers and len(numbers) + values.count(None) == len(values) and name not in no_rewards:
            columns.append(name)
    if len(columns) != 1:
        got = f"{listed(columns)}, which may be rewards or other numbers" if columns else _columns(rows)
        raise ConfigError(
            f"{path}: reward: expected one column of rewards between completion and advantage, got {got}: "
            f"name those that add up by --field reward={one_line('+'.join(columns[:2]), 80) or 'NAME'}"
        )
    return columns[0]


def _columns(rows: Sequence[Mapping[str, Any]]) -> str:
    names = sorted({str(name) for row in rows for name in row})
    return f"the fields {listed(names)}" if names else "no field"


def missing_roles(
    path: Path, rows: Sequence[Mapping[str, Any]], missing: Sequence[str], kind: Format, asked: Mapping[str, str]
) -> MissingRolesError:
    """The error for a file without a reward, response or prompt: what it has, and the likeliest fields for them."""
    taken = {name for text in asked.values() for name in split_names(text)}
    taken |= {name for role in NEEDED if role not in missing for name in kind.fields.get(role, ())}
    guesses = guessed_fields(rows, missing, taken)
    options = [word for role in missing for word in ("--field", f"{role}={guesses.get(role, 'NAME')}")]
    what = f"{path}: found no {' and no '.join(missing)}. Its fields: {kinds_of_fields(rows)}."
    return MissingRolesError(what, options)


def step_of(layout: DumpLayout, value: Mapping[str, Any]) -> int | None:
    """The step that a row names; None where its layout has none."""
    if "step" not in layout.fields:
        return None
    name = layout.fields["step"]
    step = typed(field_of(value, name))
    # Trinity's batches may be texts: "12".
    if isinstance(step, str) and step.isascii() and step.isdecimal() and len(step) < 19:
        step = int(step)
    if step is None:
        raise BadValueError(name, "the step of the rollout", "none")
    return whole_number(name, step)
