"""What the fields of an unknown file may be: their kinds in words, and guesses at the reward, response and prompt."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from geoalign.dumps.field_names import (
    ENVIRONMENTS,
    FINAL_ANSWERS,
    GOLD_ANSWERS,
    GROUPS,
    IDS,
    LIKELY_GOLD_ANSWERS,
    MEDIA,
    PROBLEM_IDS,
)
from geoalign.dumps.values import field_of, is_conversation, kind_of, name_of_content, role_of
from geoalign.text import listed

# The earlier a word stands here, the likelier a field whose name has it holds the role. They are regular expressions:
# the text of "context" is none of a response.
_WORDS = {
    "reward": (
        "reward", "score", "correct", "acc", "verdict", "pass", "success", "solved", "resolved", "grade", "rating",
        "judg", "label", "rm", "ok", "right", "return", "value",
    ),
    "response": (
        "response", "completion", "generat", "output", "reply", "traj", "conversation", "messages", "rollout",
        "assistant", "model", "answer", "(?<!con)text", "out",
    ),
    "prompt": ("prompt", "question", "query", "problem", "instruction", "input", "user", "task", "context"),
}  # fmt: skip
_TEXTS = ("text", "messages", "list of texts", "list of messages")
_KINDS = {
    "reward": ("true or false", "number", "list of numbers"),
    "response": _TEXTS,
    "prompt": ("text", "messages"),
}
# Fields of gold answers by a word of their name.
_OF_ANSWERS = re.compile(r"(^|[_.])(gold|golden|truth|reference|ref|expected|gt|gts|target)($|[_.])", re.IGNORECASE)
# Fields of texts that are neither prompt nor response; `task` may be the text of a task.
_NO_TEXTS = {*ENVIRONMENTS, *MEDIA, *PROBLEM_IDS, *IDS, *GROUPS} - {"task"}
# Numbers that count or number something are no rewards.
_NO_REWARD = re.compile(
    r"(^|[_.])(id|idx|index|step|seed|epoch|tokens?|length|len|time|seconds|latency|count|num|n|k|trial|turns?|level|"
    r"temperature|logprobs?|kl|entropy|year|size|rank|position|line|row|truncated)s?($|[_.])",
    re.IGNORECASE,
)


def kinds_of_fields(rows: Sequence[Mapping[str, Any]]) -> str:
    """The fields of rows with the kind of their values: "prompt (text), score2 (number)"."""
    return listed(f"{name} ({kind})" for name, kind in _kinds(rows).items()) or "none"


def guessed_fields(
    rows: Sequence[Mapping[str, Any]], roles: Sequence[str], taken: Collection[str], prompt: str | None = None
) -> dict[str, str]:
    """The likeliest field for each role, by kind and name; no guess where no field is plausible.

    Args:
        rows: the first rows of a file.
        roles: of `reward`, `response` and `prompt` those that are looked for.
        taken: fields that hold something else.
        prompt: the field of the prompt where it is known.
    """
    kinds = _kinds(rows)
    guesses: dict[str, str] = {}
    for role in roles:
        fitting = {}
        for name, kind in kinds.items():
            is_free = name not in taken and name not in guesses.values()
            if is_free and kind in _KINDS[role] and _is_plausible(role, name, [field_of(row, name) for row in rows]):
                fitting[name] = (_place_of_word(name, _WORDS[role]), _KINDS[role].index(kind))
        best = min(fitting, key=lambda name: fitting[name], default=None)
        if role == "prompt" and (best is None or fitting[best][0] == len(_WORDS[role])):
            # A conversation holds the prompt as well, unless a field is called after it.
            best = _first_turn(rows, kinds) or best
        if best is not None:
            guesses[role] = best
    if "response" in roles and "response" not in guesses:
        own_answer = _own_answer(rows, prompt or guesses.get("prompt"), {*taken, *guesses.values()})
        if own_answer is not None:
            guesses["response"] = own_answer
    return guesses


def _is_plausible(role: str, name: str, values: Sequence[Any]) -> bool:
    """Whether a field of the right kind may hold a role by its name, and a conversation by who speaks in it."""
    last_part = name.rpartition(".")[2]
    if _OF_ANSWERS.search(name) or last_part in (*GOLD_ANSWERS, *LIKELY_GOLD_ANSWERS, *FINAL_ANSWERS):
        return False
    if role == "reward":
        return not _NO_REWARD.search(name)
    if name in _NO_TEXTS:
        return False
    conversations = [value for value in values if is_conversation(value)]
    if not conversations:
        return True
    if role == "prompt":
        return not _end_with_responses(conversations)
    return any(role_of(message) == "assistant" for messages in conversations for message in messages)


def _end_with_responses(conversations: Sequence[Sequence[Mapping[str, Any]]]) -> bool:
    """Whether the assistant has the last word in all conversations, so that they are more than prompts."""
    return all(role_of(messages[-1]) == "assistant" for messages in conversations)


def _first_turn(rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str]) -> str | None:
    """The dotted name of the user's first message where a conversation ends with the response: `messages.0.content`,
    or `conversations.0.value`.

    None where there is no such field, or the message has another place or no text in some rows.
    """
    for name, kind in kinds.items():
        conversations = [field_of(row, name) for row in rows if field_of(row, name)]
        if kind != "messages" or not _end_with_responses(conversations):
            continue
        roles = [role_of(message) for message in conversations[0]]
        if "user" not in roles:
            continue
        place = roles.index("user")
        message = f"{name}.{place}"
        content = f"{message}.{name_of_content(conversations[0][place])}"
        # The content may be a list of parts.
        for turn in (content, f"{content}.0.text"):
            if all(_is_said_by_user(row, message, turn) for row in rows):
                return turn
    return None


def _is_said_by_user(row: Mapping[str, Any], message: str, turn: str) -> bool:
    """Whether a dotted name is that of a text in a message of the user."""
    return role_of(field_of(row, message)) == "user" and isinstance(field_of(row, turn), str)


def _own_answer(rows: Sequence[Mapping[str, Any]], prompt: str | None, taken: Collection[str]) -> str | None:
    """A field such as `answer` that holds the responses: its texts differ within prompts, as no gold answer does."""
    if prompt is None:
        return None
    for name in LIKELY_GOLD_ANSWERS:
        pairs = {(kind_of(field_of(row, name)), str(field_of(row, prompt)), str(field_of(row, name))) for row in rows}
        prompts = {asked for _, asked, _ in pairs}
        if name not in taken and {kind for kind, _, _ in pairs} == {"text"} and len(pairs) > len(prompts):
            return name
    return None


def _place_of_word(name: str, words: Sequence[str]) -> int:
    """The place of the first of these words that a name has in it; their number where it has none."""
    return next((place for place, word in enumerate(words) if re.search(word, name.lower())), len(words))


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
