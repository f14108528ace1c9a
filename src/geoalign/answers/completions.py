"""The final answers of completions: plain texts, or conversations as trainers hand them over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from geoalign.answers.boxed import boxed_answer
from geoalign.answers.forms import normal_form
from geoalign.errors import InputError


def boxed_answers(completions: Sequence[Any]) -> list[str | None]:
    r"""The final answer of each completion in its normal form; None where it has none in a `\boxed{...}`.

    A completion is a text, or a list of chat messages, of which the assistant's count. The answer is the last complete
    box, or the list of boxes that it ends (`geoalign.answers.boxed.boxed_answer`); equal spellings are equal texts
    (`geoalign.answers.normal_form`).

    Raises:
        InputError: `completions` is a single text, or a completion is neither a text nor a list of messages.
    """
    if isinstance(completions, str):
        raise InputError("completions: expected a list of texts or conversations, got a single text: put it in a list")
    return [final_answer(completion_text(completion)) for completion in completions]


def final_answer(response: str) -> str | None:
    """The answer of one response in its normal form: its last box or list of boxes; None without, or an empty one."""
    return normal_form(boxed_answer(response) or "") or None


def completion_text(completion: object) -> str:
    """The text of a completion as TRL hands it over: a string, or chat messages, whose assistant contents are joined.

    A content may be a text, None, or a list of parts, of which those with a `text` count. InputError for anything else.
    """
    if isinstance(completion, str):
        return completion
    if isinstance(completion, list | tuple) and all(isinstance(message, dict) for message in completion):
        said = [message for message in completion if message.get("role", "assistant") == "assistant"]
        contents = [_content(message.get("content")) for message in said]
        if None not in contents:
            return "".join(content for content in contents if content)
    raise InputError(f"completion: expected a text or a list of chat messages, got {type(completion).__name__}")


def _content(content: object) -> str | None:
    """The text of one message; None where its content is of another kind."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list) and all(isinstance(part, dict) for part in content):
        texts = [part["text"] for part in content if part.get("text") is not None]
        if all(isinstance(text, str) for text in texts):
            return "".join(texts)
    return None
