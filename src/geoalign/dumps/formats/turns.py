"""Conversations as texts: what a model wrote over several turns, tool calls and what they returned included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from geoalign.dumps.formats.format import Row


def as_one_text(turns: Sequence[tuple[str, str]]) -> str:
    """The text of the only turn, or of several turns (role, text) with the role before each."""
    if len(turns) == 1:
        return turns[0][1]
    return "\n".join(f"[{role}]\n{text}" for role, text in turns)


def text_of(content: Any) -> str:
    """The texts of a message's content, which is a text or a list of parts; pictures and reasoning are passed over."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "\n".join(str(text) for text in texts if text)


def as_messages(turns: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Turns (role, text) as chat messages."""
    return [{"role": role, "content": text} for role, text in turns]


def role_and_text(message: Row) -> tuple[str, str]:
    """The role and the text of a message, with calls of tools as `name(arguments)`."""
    content = text_of(message.get("content"))
    texts = [content] if content else []
    for call in message.get("tool_calls") or []:
        name = call.get("name") or call.get("function")
        texts.append(f"{name}({call.get('arguments')})")
    return str(message.get("role") or "user"), "\n".join(texts)
