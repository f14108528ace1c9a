"""What a reward model reads: the prompt's messages and the response, checked and in a form that every encoder takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from geoalign.errors import InputError


def dialogues(responses: Sequence[str], prompts: Sequence[Any] | None) -> list[list[dict[str, Any]]]:
    """Each prompt's chat messages with the response as the assistant's last one.

    Halves of surrogate pairs, which a model's bytes can decode to and UTF-8 cannot write, become question marks.

    Raises:
        InputError: no prompts, lengths differ, a response is no text or a prompt no list of messages; with the row.
    """
    if prompts is None:
        raise InputError("prompts: expected the chat messages of each prompt, got none")
    if len(prompts) != len(responses):
        raise InputError(f"prompts: expected {len(responses)} as responses, got {len(prompts)}")
    found = []
    for row, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        if not isinstance(response, str):
            raise InputError(f"responses: expected str, got {type(response).__name__} in row {row}")
        if not isinstance(prompt, list | tuple) or not all(isinstance(message, Mapping) for message in prompt):
            raise InputError(f"prompts: expected a list of chat messages, got {type(prompt).__name__} in row {row}")
        messages = [*prompt, {"role": "assistant", "content": response}]
        found.append([{key: _writable(value) for key, value in message.items()} for message in messages])
    return found


def _writable(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value
