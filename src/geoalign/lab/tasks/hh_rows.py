"""Rows of dialogue data: preference pairs in the format of HH-RLHF, and prompts as chat messages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from geoalign.lab.tasks.base import PreferencePair
from geoalign.lab.tasks.chat import Messages, read_messages

_TURN = re.compile(r"\n\n(Human|Assistant):")
_ROLES = {"Human": "user", "Assistant": "assistant"}

# Why a row is left out, in the order in which it is looked at.
REASONS = ("malformed", "identical", "empty", "different history", "repeated turn", "too long")


def read_dialogue(text: str) -> Messages | None:
    """The turns of a text that begins `\\n\\nHuman:`, as chat messages without outer spaces; None where it does not.

    The last turn has to be the assistant's; an earlier turn without text is None too.
    """
    before, *parts = _TURN.split(text)
    turns = tuple(
        {"role": _ROLES[speaker], "content": said.strip()}
        for speaker, said in zip(parts[::2], parts[1::2], strict=True)
    )
    if before or not turns or turns[0]["role"] != "user" or turns[-1]["role"] != "assistant":
        return None
    return turns if all(turn["content"] for turn in turns[:-1]) else None


def read_pair(row: Mapping[str, Any]) -> tuple[PreferencePair | None, str]:
    """The pair of a row, and "" or why it is none.

    "malformed": `chosen` or `rejected` is absent or no dialogue (`read_dialogue`); "identical": both say the same;
    "empty": a final reply without text; "different history": they part before the last turn; "repeated turn": one
    speaker twice in a row, which chat templates refuse.
    """
    texts = [row.get(name) for name in ("chosen", "rejected")]
    dialogues = [read_dialogue(text) if isinstance(text, str) else None for text in texts]
    if dialogues[0] is None or dialogues[1] is None:
        return None, "malformed"
    (*history, chosen), (*other, rejected) = dialogues[0], dialogues[1]
    if dialogues[0] == dialogues[1]:
        return None, "identical"
    if not chosen["content"] or not rejected["content"]:
        return None, "empty"
    if history != other:
        return None, "different history"
    if _repeats_a_turn(dialogues[0]):
        return None, "repeated turn"
    return PreferencePair(tuple(history), chosen["content"], rejected["content"]), ""


def read_prompt(row: Mapping[str, Any]) -> tuple[Messages | None, str]:
    """The prompt of a row (`prompt`: chat messages, or a text that begins `\\n\\nHuman:`), and "" or why it is none.

    "malformed": no such prompt, or one that begins with the assistant; "repeated turn": one speaker twice in a row. A
    text in the format of HH-RLHF ends `\\n\\nAssistant:`; any other text is one turn of the user.
    """
    value = row.get("prompt")
    if isinstance(value, str) and _TURN.match(value):
        dialogue = read_dialogue(value)
        if dialogue is None or dialogue[-1]["content"]:
            return None, "malformed"
        prompt: Messages | None = dialogue[:-1]
    else:
        prompt = read_messages(value)
    if prompt is None:
        return None, "malformed"
    turns = prompt[1:] if prompt[0]["role"] == "system" else prompt
    if not turns or turns[0]["role"] != "user" or any(turn["role"] == "system" for turn in turns):
        return None, "malformed"
    return (None, "repeated turn") if _repeats_a_turn(turns) else (prompt, "")


def is_pair(row: Mapping[str, Any]) -> bool:
    """Whether a row is meant as a pair rather than as a prompt."""
    return "chosen" in row or "rejected" in row or "prompt" not in row


def length(prompt: Messages, *replies: str) -> int:
    """The characters of a prompt and the longest of its replies."""
    return sum(len(turn["content"]) for turn in prompt) + max(map(len, replies), default=0)


def _repeats_a_turn(turns: Messages) -> bool:
    return any(one["role"] == two["role"] for one, two in pairwise(turns))
