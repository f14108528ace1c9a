"""What the fields of an unknown file may be: their kinds in words, and guesses at the reward, response and prompt."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from geoalign.dumps.values import field_of, kind_of
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
        fitting = {}
        for name, kind in kinds.items():
            no_reward = role == "reward" and _NO_REWARD.search(name)
            if kind in _KINDS[role] and not no_reward and name not in taken and name not in guesses.values():
                fitting[name] = (_place_of_word(name, _WORDS[role]), _KINDS[role].index(kind))
        if fitting:
            guesses[role] = min(fitting, key=lambda name: fitting[name])
    return guesses


def _place_of_word(name: str, words: Sequence[str]) -> int:
    """The place of the first of these words that a name has in it; their number where it has none."""
    return next((place for place, word in enumerate(words) if word in name.lower()), len(words))


def _kinds(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The kind of each field, and of the fields inside an object by their dotted names."""
    names: list[str] = []
    for row in rows:
        for name, value in row.items():
            names += [f"{name}.{inner}" for inner in value] if isinstance(value, Mapping) and value else [str(name)]
    return {name: _kind([field_of(row, name) for row in rows]) for name in dict.fromkeys(names)}


def _kind(values: Sequence[Any]) -> str:
    """The kind of all values, or "mixed"."""
    kinds = {kind_of(value) for value in values} - {"null", "empty list"}
    if kinds == {"true or false", "number"}:
        return "number"
    if len(kinds) > 1:
        return "mixed"
    return kinds.pop() if kinds else "empty"
