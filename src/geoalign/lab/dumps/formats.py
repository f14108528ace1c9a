"""The formats of rollout dumps, and which of them a file has, from its first rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError, InputError
from geoalign.lab.dumps import engine_rows
from geoalign.lab.dumps.values import BadValueError, whole_number
from geoalign.lab.tasks.sources import TABLES, RawRow, check_dump_name, dump_rows, field_of, row_name
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
_HINT = "name the fields of another one by --field reward=NAME --field prompt=NAME --field response=NAME"
# Where prime-rl writes: by its own step.
_STEP_FOLDER = re.compile(r"/step_(\d{1,18})/(?:train|eval)/(?:all|effective)/[^/]+$")
# Without these a row is no rollout, where the file has them at all.
NEEDED = ("prompt", "response", "reward", "group")


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

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has all that tells this format from others."""
        if any(field_of(row, name) is None for name in self.columns):
            return False
        if self.name not in ("responses", "plain"):
            return True
        present = {role: value for role in NEEDED if (value := first_value(row, self.fields.get(role, ()))) is not None}
        # A reward may be null: not scored.
        scored = "reward" in present or any(name in row for name in self.fields["reward"])
        if "response" not in present or not scored or not {"prompt", "group"} & set(present):
            return False
        return self.lists == all(isinstance(value, list) for value in (present["response"], present.get("reward")))


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
    # `true_reward` stands in tables of `geoalign train`.
    {**_same("prompt", "true_reward", "step"), "response": ("completion",), "reward": (), "group": ("prompt",)},
    columns=("step", "prompt", "completion", "advantage"),
    rendered=True,
    repeats=True,
)
TRINITY = Format(
    "trinity",
    "experiences of Trinity-RFT",
    {
        "prompt": ("prompt_text",), "response": ("response_text",), "reward": ("reward",), "group": ("eid.task",),
        "id": ("eid.suffix",), "step": ("eid.batch",), "tokens": ("response_length",),
        "truncated": ("truncate_status",),
    },
    columns=("eid.batch", "eid.task", "prompt_text", "response_text"),
    rendered=True,
    reward_may_lack=True,
)  # fmt: skip
VERL = Format(
    "verl",
    "rollout dump of verl",
    {
        "prompt": ("input",), "response": ("output",), "reward": ("score",), "correct": ("acc",), "answer": ("gts",),
        "group": ("uid", "input"), "id": ("uid", "request_id"), "step": ("step",),
    },
    columns=("input", "output", "score", "step"),
    rendered=True,
)  # fmt: skip
NEMO_RL = Format(
    "nemo_rl", "training data of NeMo-RL", _same("prompt", "response", "reward", "group"),
    columns=("content", "rewards", "token_loss_mask"), rendered=True, unpack=engine_rows.nemo_rl,
)  # fmt: skip
VERIFIERS = Format(
    "verifiers", "episodes of verifiers or prime-rl",
    _same("prompt", "response", "reward", "group", "id", "answer", "step"),
    columns=("traces", "task", "id"), unpack=engine_rows.episode,
)  # fmt: skip
SLIME = Format(
    "slime", "samples of slime", _same("prompt", "response", "reward", "group", "answer", "tokens", "truncated"),
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
        "answer": ("answer", "gt", "ground_truth"),
        "final_answer": ("pred",),
    },
    lists=True,
)
PLAIN = Format(
    "plain",
    "one rollout a row",
    {
        **_same("system", "true_reward", "correct", "final_answer", "id", "step", "tokens", "truncated"),
        "prompt": ("prompt", *_PROMPTS, "input"),
        "response": ("response", "completion", "output"),
        "reward": ("reward", "score"),
        "answer": ("answer", "ground_truth"),
        "group": ("group", "group_id", "prompt_id", "prompt", *_PROMPTS, "input"),
    },
)
# The more particular first: of those that fit equally many rows the first is taken.
FORMATS: dict[str, Format] = {kind.name: kind for kind in (
    GEOALIGN, TRL, TRINITY, VERL, NEMO_RL, VERIFIERS, SLIME, RESPONSES, PLAIN,
)}  # fmt: skip


@dataclass(frozen=True)
class DumpLayout:
    """How one file is read: its format, and the name under which it has each role."""

    format: Format
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def rewards(self) -> tuple[str, ...]:
        """The names whose values add up to the reward."""
        return tuple(name.strip() for name in self.fields["reward"].split("+"))

    def __str__(self) -> str:
        said = {**dict(zip(NEEDED, NEEDED, strict=True)), "answer": "gold answer", "final_answer": "final answer"}
        named = ", ".join(f"{name} from {self.fields[role]}" for role, name in said.items() if role in self.fields)
        return f"{self.format.title} ({named})"


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
        hint = "" if path.name.endswith(TABLES) else ": a dump has one object a line"
        raise InputError(f"{row_name(path, first[0].line)}: {first[0].problem}{hint}")
    fields = fields or {}
    chosen = FORMATS[name] if name is not None else _fitting(path, rows, fields)
    rows = _unpacked(path, chosen, first)
    layout = DumpLayout(chosen, _resolved(path, chosen, rows, fields))
    _check(path, layout, rows)
    if chosen is VERIFIERS and "step" not in fields and (step := _STEP_FOLDER.search(path.resolve().as_posix())):
        # Some of its rollouts were begun in an earlier step.
        return DumpLayout(chosen, {role: name for role, name in layout.fields.items() if role != "step"}), int(step[1])
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
    known = [each for each in FORMATS.values() if path.name.endswith(TABLES) or each not in (GEOALIGN, TRL)]
    counts = [sum(candidate.fits(row) for row in rows) for candidate in known]
    best = max(range(len(known)), key=lambda number: counts[number])
    if counts[best]:
        return known[best]
    if fields.get("reward"):
        names = fields.get("response") or ""
        nested = any(isinstance(first_value(row, (names, *RESPONSES.fields["response"])), list) for row in rows)
        return RESPONSES if nested else PLAIN
    raise ConfigError(f"{path}: expected one of the known formats ({_known_formats()}), got {_columns(rows)}; {_HINT}")


def _resolved(
    path: Path, chosen: Format, rows: Sequence[Mapping[str, Any]], fields: Mapping[str, str]
) -> dict[str, str]:
    resolved: dict[str, str] = {}
    for role in ROLES:
        if role in fields:
            if fields[role]:
                resolved[role] = fields[role]
            continue
        names = [name for name in chosen.fields.get(role, ()) if any(field_of(row, name) is not None for row in rows)]
        if role == "reward" and not names:
            names = [name for name in chosen.fields.get(role, ()) if any(name in row for row in rows)]
        if role == "correct":
            names = [name for name in names if name != resolved.get("reward") and _are_truths(rows, name)]
        if names:
            resolved[role] = names[0]
    if chosen is TRL and "reward" not in fields and "response" in resolved:
        resolved["reward"] = _trl_reward(path, rows)
    if "group" not in resolved and not chosen.lists and "prompt" in resolved:
        resolved["group"] = resolved["prompt"]
    return resolved


def _check(path: Path, layout: DumpLayout, rows: Sequence[Mapping[str, Any]]) -> None:
    for role in (role for role in NEEDED if role in layout.fields):
        for name in layout.rewards if role == "reward" else (layout.fields[role],):
            there = any(name in row or field_of(row, name) is not None for row in rows)
            if not there and not (role == "reward" and layout.format.reward_may_lack):
                raise ConfigError(f"{path}: {role}: expected a field {name!r}, got {_columns(rows)}")
    wanted = ("reward",) if layout.format is PLAIN else ("reward", "response")
    missing = [role for role in wanted if role not in layout.fields]
    if not layout.format.lists and "group" not in layout.fields:
        missing.append("prompt")
    if missing:
        raise ConfigError(
            f"{path}: {', '.join(missing)}: expected in the format {layout.format.name}, got {_columns(rows)}; {_HINT}"
        )


def _are_truths(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    values = [value for row in rows if (value := field_of(row, name)) is not None]
    flat = [entry for value in values for entry in (value if isinstance(value, list) else [value])]
    return bool(flat) and all(
        entry is None or (isinstance(entry, (bool, int, float)) and entry in (0, 1)) for entry in flat
    )


def _trl_reward(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    """The one column of rewards in TRL's table; reward functions stand between `completion` and `advantage`."""
    ends, names = ("completion", "advantage"), list(rows[0])
    between = names[names.index(ends[0]) + 1 : names.index(ends[1])] if {*ends} <= {*names} else names
    columns = []
    for name in between:
        values = [row.get(name) for row in rows]
        numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        if numbers and len(numbers) + values.count(None) == len(values) and name not in _NO_REWARDS:
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


def _known_formats() -> str:
    return "; ".join(f"{kind.name}: {', '.join(kind.columns) or kind.title}" for kind in FORMATS.values())


def step_of(layout: DumpLayout, value: Mapping[str, Any]) -> int | None:
    """The step that a row names; None where its layout has none."""
    if "step" not in layout.fields:
        return None
    name = layout.fields["step"]
    step = field_of(value, name)
    # Trinity's batches may be texts: "12".
    if isinstance(step, str) and step.isascii() and step.isdecimal() and len(step) < 19:
        step = int(step)
    if step is None:
        raise BadValueError(name, "the step of the rollout", "none")
    return whole_number(name, step)
