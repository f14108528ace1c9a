"""Chat messages as files hold them: a text, a list of messages, or such a list as JSON in a text."""

from __future__ import annotations

from collections.abc import Mapping

from geoalign.lab.store.strict_json import strict_json

Messages = tuple[dict[str, str], ...]

_ROLES = ("system", "user", "assistant")


def read_messages(value: object) -> Messages | None:
    """The messages of a prompt; None where it is none. A plain text is one message of the user.

    A list ends with the user's message, and every message has a known role and a text that is not blank.
    """
    given = _decoded(value) if isinstance(value, str) else value
    if isinstance(given, str):
        return ({"role": "user", "content": given},) if given.strip() else None
    if not isinstance(given, list) or not given:
        return None
    messages = []
    for message in given:
        role = message.get("role") if isinstance(message, Mapping) else None
        content = message.get("content") if isinstance(message, Mapping) else None
        if role not in _ROLES or not isinstance(content, str) or not content.strip():
            return None
        messages.append({"role": str(role), "content": content})
    return tuple(messages) if messages[-1]["role"] == "user" else None


def _decoded(text: str) -> object:
    # ROLL's `messages`; any other text, also one that happens to begin like JSON, stays what it is.
    if not text.startswith("[{"):
        return text
    try:
        value = strict_json(text)
    except (ValueError, RecursionError):
        return text
    is_chat = isinstance(value, list) and all(isinstance(one, dict) and {"role", "content"} <= {*one} for one in value)
    return value if is_chat else text
