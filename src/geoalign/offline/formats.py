"""The formats in which dumps of rollouts go round, and where each keeps what a rollout is made of."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from geoalign.errors import ConfigError
from geoalign.tasks.rows import field_of

# What a rollout can have, by the names of `--field`.
ROLES = {
    "prompt": "a text or chat messages",
    "system": "a system message before the prompt",
    "response": "a text or chat messages",
    "reward": "a number; a+b adds columns",
    "true_reward": "the reward before corruption",
    "correct": "whether the answer is right",
    "answer": "the gold answer",
    "final_answer": "the answer that the response gives",
    "group": "what rollouts of one prompt share",
    "id": "a name of the rollout",
    "step": "the training step",
    "tokens": "length of the response in tokens",
    "truncated": "whether it reached the length limit",
}
# Without these a row is no rollout, where the file has them at all.
NEEDED = ("prompt", "response", "reward", "group")


@dataclass(frozen=True)
class Format:
    """One kind of dump.

    Attributes:
        name: for `--format`.
        title: for people.
        fields: where each role stands; of several names the first that a file has.
        columns: what tells the format from others: a row that has all of them is of this kind.
        identity: what stays with a row's place when another rollout takes it.
        lists: one row holds a prompt and the list of its responses.
        rendered: prompts are the text that the model read, not bare questions.
        reward_may_lack: a row without the reward's key could not be scored.
        own_columns: the columns for source and weight are the format's own, `source` and `weight`.
    """

    name: str
    title: str
    fields: Mapping[str, tuple[str, ...]]
    columns: tuple[str, ...] = ()
    identity: tuple[str, ...] = ()
    lists: bool = False
    rendered: bool = False
    reward_may_lack: bool = False
    own_columns: bool = False

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Whether a row has all that tells this format from others."""
        if any(field_of(row, name) is None for name in self.columns):
            return False
        if self.name not in ("responses", "plain"):
            return True
        found = {role: value for role in NEEDED if (value := first_value(row, self.fields.get(role, ()))) is not None}
        if not {"response", "reward"} <= set(found) or not {"prompt", "group"} & set(found):
            return False
        return not self.lists or all(isinstance(found[role], list) for role in ("response", "reward"))


GEOALIGN = Format(
    "geoalign",
    "rollouts of a GeoAlign run",
    {
        "prompt": ("prompt",),
        "response": ("response",),
        "reward": ("reward",),
        "true_reward": ("true_reward",),
        "group": ("group",),
        "id": ("row",),
        "step": ("step",),
        "tokens": ("tokens",),
    },
    columns=("step", "row", "group", "sample", "prompt", "response", "anomalous", "source", "weight"),
    identity=("step", "row", "group", "sample"),
    own_columns=True,
)
TRL = Format(
    "trl",
    "completions table of TRL",
    {"prompt": ("prompt",), "response": ("completion",), "reward": (), "group": ("prompt",), "step": ("step",)},
    columns=("step", "prompt", "completion", "advantage"),
    identity=("step", "prompt"),
    rendered=True,
)
TRINITY = Format(
    "trinity",
    "experiences of Trinity-RFT",
    {
        "prompt": ("prompt_text",),
        "response": ("response_text",),
        "reward": ("reward",),
        "group": ("eid.task",),
        "id": ("eid.suffix",),
        "step": ("eid.batch",),
        "tokens": ("response_length",),
        "truncated": ("truncate_status",),
    },
    columns=("eid.batch", "eid.task", "prompt_text", "response_text"),
    identity=("eid",),
    rendered=True,
    reward_may_lack=True,
)
VERL = Format(
    "verl",
    "rollout dump of verl",
    {
        "prompt": ("input",),
        "response": ("output",),
        "reward": ("score",),
        "correct": ("acc",),
        "answer": ("gts",),
        "group": ("uid", "input"),
        "id": ("uid", "request_id"),
        "step": ("step",),
    },
    columns=("input", "output", "score", "step"),
    identity=("step", "input", "gts", "uid", "request_id"),
    rendered=True,
)
RESPONSES = Format(
    "responses",
    "lists of responses, one prompt a row",
    {
        "prompt": ("query", "question", "problem", "prompt"),
        "system": ("system",),
        "response": ("response", "responses", "generations", "completions", "outputs"),
        "reward": ("pred_score", "rewards", "reward", "scores", "score", "correctness_math_verify"),
        "correct": ("score", "correct", "correctness_math_verify"),
        "answer": ("answer", "gt", "ground_truth"),
        "final_answer": ("pred",),
        "step": ("step",),
    },
    lists=True,
)
PLAIN = Format(
    "plain",
    "one rollout a row",
    {
        "prompt": ("prompt", "query", "question", "problem", "input"),
        "system": ("system",),
        "response": ("response", "completion", "output"),
        "reward": ("reward", "score"),
        "true_reward": ("true_reward",),
        "correct": ("correct",),
        "answer": ("answer", "ground_truth"),
        "group": ("group", "group_id", "prompt_id", "prompt", "query", "question", "problem", "input"),
        "id": ("id",),
        "step": ("step",),
        "tokens": ("tokens",),
        "truncated": ("truncated",),
    },
    identity=(),
)
# The more particular first: of those that fit equally many rows the first is taken.
FORMATS: dict[str, Format] = {one.name: one for one in (GEOALIGN, TRL, TRINITY, VERL, RESPONSES, PLAIN)}
# Columns of TRL's table that are no reward: the engine's own, and what this package's trainer adds.
_NO_REWARDS = ("score", "anomalous", "source", "geoalign_source", "geoalign_weight", "geoalign_advantage")


@dataclass(frozen=True)
class Layout:
    """How one file is read: its format, and the name under which it has each role."""

    format: Format
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def rewards(self) -> tuple[str, ...]:
        """The names whose values add up to the reward."""
        return tuple(name.strip() for name in self.fields["reward"].split("+"))

    def identity(self) -> tuple[str, ...]:
        """The top-level names that stay with a row's place when another rollout takes it."""
        if self.format.identity:
            return self.format.identity
        kept = [self.fields[role] for role in ("id", "group", "step", "prompt", "system") if role in self.fields]
        return tuple(dict.fromkeys(name.partition(".")[0] for name in kept))

    def __str__(self) -> str:
        named = ", ".join(f"{role} from {self.fields[role]}" for role in NEEDED if role in self.fields)
        return f"{self.format.title} ({named})"


def parse_fields(texts: Sequence[str]) -> dict[str, str]:
    """`--field ROLE=NAME`, NAME dotted where values are nested; an empty NAME leaves a role out.

    Raises:
        ConfigError: an unknown role (with the nearest known one), or one given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        role, equals, name = text.partition("=")
        role = role.strip()
        if not equals or role not in ROLES:
            near = difflib.get_close_matches(role, ROLES, n=1)
            hint = f"{near[0]}, the nearest" if near else f"one of {', '.join(ROLES)}"
            raise ConfigError(f"--field: expected ROLE=NAME with a known role: {hint}; got {text!r}")
        if role in found:
            raise ConfigError(f"--field {role}: expected once, got {found[role]!r} and {name.strip()!r}")
        found[role] = name.strip()
    return found


def recognise(
    where: str, rows: Sequence[Mapping[str, Any]], *, name: str | None, fields: Mapping[str, str], parquet: bool
) -> Layout:
    """How to read a file, from its first rows.

    Args:
        where: the file, for errors.
        rows: its first rows.
        name: the format, where the user names it; None: the one that fits most rows.
        fields: what the user says of roles; they come before the format's own names.
        parquet: only parquet files hold TRL's tables and the rollouts of runs.

    Raises:
        ConfigError: an unknown name, no format fits, or the file lacks a field that a curation needs.
    """
    if name is not None and name not in FORMATS:
        near = difflib.get_close_matches(name, FORMATS, n=1)
        hint = f" (nearest: {near[0]})" if near else ""
        raise ConfigError(f"--format: expected one of {', '.join(FORMATS)}{hint}; got {name!r}")
    chosen = FORMATS[name] if name is not None else _fitting(where, rows, fields, parquet)
    layout = Layout(chosen, _resolved(where, chosen, rows, fields))
    _check(where, layout, rows)
    return layout


def first_value(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    """The first value that is there under one of the names; None where none is."""
    return next((value for name in names if (value := field_of(row, name)) is not None), None)


def _fitting(where: str, rows: Sequence[Mapping[str, Any]], fields: Mapping[str, str], parquet: bool) -> Format:
    known = [one for one in FORMATS.values() if parquet or one not in (GEOALIGN, TRL)]
    counts = [sum(one.fits(row) for row in rows) for one in known]
    best = max(range(len(known)), key=lambda place: counts[place])
    if counts[best]:
        return known[best]
    if fields.get("reward"):
        names = fields.get("response") or ""
        nested = any(isinstance(first_value(row, (names, *RESPONSES.fields["response"])), list) for row in rows)
        return RESPONSES if nested else PLAIN
    raise ConfigError(f"{where}: expected one of the known formats ({_described()}), got {_columns(rows)}; {_HINT}")


_HINT = "name the fields of another one by --field reward=NAME --field prompt=NAME --field response=NAME"


def _resolved(
    where: str, chosen: Format, rows: Sequence[Mapping[str, Any]], fields: Mapping[str, str]
) -> dict[str, str]:
    found: dict[str, str] = {}
    for role in ROLES:
        if role in fields:
            if fields[role]:
                found[role] = fields[role]
            continue
        names = [one for one in chosen.fields.get(role, ()) if any(field_of(row, one) is not None for row in rows)]
        if role == "correct":
            names = [one for one in names if one != found.get("reward") and _are_truths(rows, one)]
        if names:
            found[role] = names[0]
    if chosen is TRL and "reward" not in fields:
        found["reward"] = _trl_reward(where, rows)
    if "group" not in found and not chosen.lists and "prompt" in found:
        found["group"] = found["prompt"]
    return found


def _check(where: str, layout: Layout, rows: Sequence[Mapping[str, Any]]) -> None:
    missing = [role for role in ("reward", "response") if role not in layout.fields]
    if layout.format is PLAIN:
        missing = [role for role in missing if role == "reward"]
    if not layout.format.lists and "group" not in layout.fields:
        missing.append("prompt")
    named = {role: name for role, name in layout.fields.items() if role in NEEDED}
    absent = {
        role: part
        for role, name in named.items()
        for part in (name.split("+") if role == "reward" else [name])
        if not any(_has(row, part.strip()) for row in rows)
    }
    if layout.format.reward_may_lack:
        absent.pop("reward", None)
    for role, name in absent.items():
        raise ConfigError(f"{where}: {role}: expected a field {name.strip()!r}, got {_columns(rows)}")
    if missing:
        raise ConfigError(
            f"{where}: {', '.join(missing)}: expected in the format {layout.format.name}, got {_columns(rows)}; {_HINT}"
        )


def _has(row: Mapping[str, Any], name: str) -> bool:
    return name in row or field_of(row, name) is not None


def _are_truths(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    values = [value for row in rows if (value := field_of(row, name)) is not None]
    flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
    return bool(flat) and all(one is None or (isinstance(one, (bool, int, float)) and one in (0, 1)) for one in flat)


def _trl_reward(where: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The one column of rewards in TRL's table; reward functions stand between `completion` and `advantage`."""
    names = list(rows[0])
    between = names[names.index("completion") + 1 : names.index("advantage")] if "advantage" in names else names
    found = []
    for name in between:
        values = [row.get(name) for row in rows]
        numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        if numbers and len(numbers) + values.count(None) == len(values) and name not in _NO_REWARDS:
            found.append(name)
    if len(found) == 1:
        return found[0]
    expected = "expected one column of rewards between completion and advantage"
    if not found:
        raise ConfigError(f"{where}: reward: {expected}, got {_columns(rows)}; name it by --field reward=NAME")
    raise ConfigError(
        f"{where}: reward: {expected}, got {', '.join(found)}, which may be rewards or other numbers: "
        f"name those that add up by --field reward={'+'.join(found[:2])}"
    )


def _columns(rows: Sequence[Mapping[str, Any]]) -> str:
    names = sorted({str(name) for row in rows for name in row})
    shown = ", ".join(names[:30]) + (", ..." if len(names) > 30 else "")
    return f"the fields {shown}" if names else "no field"


def _described() -> str:
    return "; ".join(f"{one.name}: {', '.join(one.columns) or one.title}" for one in FORMATS.values())
