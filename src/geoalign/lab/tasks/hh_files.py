"""Files of dialogue data: preference pairs in the format of HH-RLHF, prompts, and what was left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from geoalign.errors import InputError
from geoalign.lab.tasks.base import PreferencePair, Problem
from geoalign.lab.tasks.chat import Messages, read_messages
from geoalign.lab.tasks.decontaminate import exact
from geoalign.lab.tasks.sources import rows_of
from geoalign.shown import listed

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
        {"role": _ROLES[speaker], "content": text.strip()}
        for speaker, text in zip(parts[::2], parts[1::2], strict=True)
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


def _repeats_a_turn(turns: Messages) -> bool:
    return any(turn["role"] == following["role"] for turn, following in pairwise(turns))


@dataclass(frozen=True)
class DialogueReading:
    """Which rows are used: the first `limit` usable ones of each source, none longer than `max_characters`."""

    max_characters: int | None = None
    limit: int | None = None
    on_bad_row: Literal["skip", "error"] = "skip"


@dataclass(frozen=True)
class Item:
    """A usable row: its prompt, and the pair where it is one. `where` names it; `answer` is "" where none is known."""

    where: str
    prompt: Messages
    answer: str
    pair: PreferencePair | None


@dataclass
class DialogueFile:
    """The usable rows of one source in order, and the counts of the others."""

    source: str
    items: list[Item] = field(default_factory=list)
    rows: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    def note(self) -> str:
        """What was left out and why; empty where everything was used."""
        parts = ", ".join(f"{self.skipped[reason]} {reason}" for reason in REASONS if self.skipped[reason])
        return f"{self.source}: {self.skipped.total()} of {self.rows} rows left out: {parts}" if parts else ""


def read_files(
    sources: str | Sequence[str], how: DialogueReading | None = None, *, prompts: bool
) -> list[DialogueFile]:
    """The usable rows of local files or hub ids; `prompts`: rows that are prompts alone are taken beside pairs.

    Rows are named by their number in the source, and, of several sources, by the source's number.
    """
    given = (sources,) if isinstance(sources, str) else tuple(sources)
    return [
        _read(source, "" if len(given) == 1 else f"file {number}, ", how or DialogueReading(), prompts=prompts)
        for number, source in enumerate(given, start=1)
    ]


def _read(source: str, prefix: str, how: DialogueReading, *, prompts: bool) -> DialogueFile:
    wanted = "a usable pair of dialogues or prompt" if prompts else "a usable pair of dialogues"
    file, first = DialogueFile(source), ""
    for where, row in rows_of(source):
        if how.limit is not None and len(file.items) == how.limit:
            break
        file.rows += 1
        first = first or listed(row)
        item, reason = _item(prefix + where, row, how, prompts=prompts)
        if item is not None:
            file.items.append(item)
            continue
        if how.on_bad_row == "error" and reason != "too long":
            raise InputError(f"{source}, {where}: expected {wanted}, got one that is {reason}")
        file.skipped[reason] += 1
    if not file.items:
        columns = f" with the columns {first}" if first else ""
        raise InputError(f"{source}: expected at least one row that is {wanted}, got none in {file.rows} rows{columns}")
    return file


def _item(where: str, row: Mapping[str, Any], how: DialogueReading, *, prompts: bool) -> tuple[Item | None, str]:
    meant_as_prompt = "prompt" in row and "chosen" not in row and "rejected" not in row
    replies: tuple[str, ...] = ()
    if prompts and meant_as_prompt:
        prompt, reason = read_prompt(row)
        answer = row.get("answer")
        item = None if prompt is None else Item(where, prompt, answer if isinstance(answer, str) else "", None)
    else:
        pair, reason = read_pair(row)
        item = None if pair is None else Item(where, pair.prompt, pair.chosen, pair)
        replies = () if pair is None else (pair.chosen, pair.rejected)
    if item is None or how.max_characters is None:
        return item, reason
    length = sum(len(turn["content"]) for turn in item.prompt) + max(map(len, replies), default=0)
    return (None, "too long") if length > how.max_characters else (item, "")


def load_dialogue_prompts(
    sources: str | Sequence[str], how: DialogueReading | None = None
) -> tuple[list[Problem], list[str]]:
    """The different prompts of an evaluation set such as `helpful`, and notes on what was left out."""
    files = read_files(sources, how, prompts=True)
    problems = different_prompts([item for file in files for item in file.items])
    return problems, [note for file in files if (note := file.note())]


def different_prompts(items: Sequence[Item]) -> list[Problem]:
    """One problem for each different prompt, in the order of first appearance, named by the row that is."""
    problems: dict[object, Problem] = {}
    for item in items:
        problems.setdefault(exact(item.prompt), Problem(item.where, item.prompt, item.answer))
    return list(problems.values())
