"""What the fields of an unknown file may be: their kinds in words, and guesses at the reward, response and prompt."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from geoalign.dumps.values import is_conversation, typed
from geoalign.text import listed

# The earlier a word stands here, the likelier a field whose name has it holds the role.
_WORDS = {
    "reward": (
        "reward", "score", "correct", "acc", "verdict", "pass", "success", "solved", "resolved", "grade", "rating",
        "judg", "label", "rm", "ok", "right", "return", "value",
    ),
    "response": (
        "response", "completion", "generat", "output", "reply", "traj", "conversation", "messages", "rollout",
        "assistant", "model", "text", "solution", "out",
    ),
    "prompt": ("prompt", "question", "query", "problem", "instruction", "input", "user", "task", "context"),
}  # fmt: skip
_TEXTS = ("text", "messages", "list of texts", "list of messages")
_KINDS = {
    "reward": ("true or false", "number", "list of numbers"),
    "response": _TEXTS,
    "prompt": ("text", "messages"),
}
# Numbers that count or number something are no rewards.
_NO_REWARD = re.compile(
    r"(^|[_.])(id|idx|index|step|seed|epoch|tokens?|length|len|time|seconds|latency|count|num|n|k|trial|turns?|level|"
    r"temperature|logprobs?|kl|entropy|year|size|rank|position|line|row|truncated)s?($|[_.])",
    re.IGNORECASE,
)


def kinds_of_fields(rows: Sequence[Mapping[str, Any]]) -> str:
    """The fields of rows with the kind of their values: "prompt (text), score2 (number)"."""
    return listed(f"{name} ({kind})" for name, kind in _kinds(rows).items()) or "none"


def guessed_fields(rows: Sequence[Mapping[str, Any]], roles: Sequence[str], taken: Collection[str]) -> dict[str, str]:
    """The likeliest field for each role, by kind and name; no guess where no field is of its kind."""
    kinds = _kinds(rows)
    guesses: dict[str, str] = {}
    for role in roles:
        fit = [name for name, kind in kinds.items() if kind in _KINDS[role]]
        fit = [name for name in fit if name not in taken and name not in guesses.values()]
        if role == "reward":
            fit = [name for name in fit if not _NO_REWARD.search(name)]
        if fit:
            guesses[role] = min(fit, key=lambda name: _rank(role, name, kinds[name], rows))
    return guesses


def _rank(role: str, name: str, kind: str, rows: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    """What orders the fields that may hold a role, the likeliest first."""
    lowered = name.lower()
    words = _WORDS[role]
    place = next((place for place, word in enumerate(words) if word in lowered), len(words))
    if role == "reward":
        return (place, _KINDS[role].index(kind))
    values = [str(_value(row, name)) for row in rows]
    different = len({*values}) / len(values)
    length = sum(map(len, values)) / len(values)
    # Responses are long and differ; prompts come again.
    return (place, -different, -length) if role == "response" else (place, different, -length)


def _kinds(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The kind of each field, and of the fields inside an object by their dotted names."""
    names = list(dict.fromkeys(name for row in rows for name in _names(row)))
    return {name: _kind([_value(row, name) for row in rows]) for name in names}


def _names(row: Mapping[str, Any]) -> Iterator[str]:
    for name, value in row.items():
        if isinstance(value, Mapping) and value:
            yield from (f"{name}.{inner}" for inner in value)
        else:
            yield str(name)


def _value(row: Mapping[str, Any], name: str) -> Any:
    if name in row:
        return row[name]
    outer, _, inner = name.partition(".")
    inside = row.get(outer)
    return inside.get(inner) if isinstance(inside, Mapping) else None


def _kind(values: Sequence[Any]) -> str:
    given = [value for value in map(typed, values) if value is not None]
    if not given:
        return "empty"
    if all(isinstance(value, bool) for value in given):
        return "true or false"
    if all(isinstance(value, (bool, int, float)) for value in given):
        return "number"
    if all(isinstance(value, str) for value in given):
        return "text"
    if all(is_conversation(value) for value in given):
        return "messages"
    if all(isinstance(value, list) for value in given):
        entries = [entry for value in given for entry in value]
        lists_of_lists = any(isinstance(entry, list) and not is_conversation(entry) for entry in entries)
        inner = "list" if lists_of_lists else _kind(entries)
        plural = {"text": "texts", "number": "numbers", "true or false": "numbers", "messages": "messages"}
        return f"list of {plural[inner]}" if inner in plural else "list"
    return "object" if all(isinstance(value, Mapping) for value in given) else "mixed"
