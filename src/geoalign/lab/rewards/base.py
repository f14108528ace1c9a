"""What every reward source shares: its interface, the texts that it reads, and the limit on unscored responses."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from geoalign.errors import InputError, UnscoredError

# Counters of a reward source that say how much it did; all others say why a response was not scored, or not read.
_NO_REASONS = ("scored", "correct", "compared")


class RewardSource(Protocol):
    """Scores responses; `binary` where every reward is 0 or 1. NaN is that of an unscored response."""

    @property
    def binary(self) -> bool: ...

    def score(
        self, responses: Sequence[str], answers: Sequence[str], *, prompts: Sequence[Any] | None = None
    ) -> list[float]:
        """One reward per response, from the gold answer or the prompt (chat messages) of its row."""


def response_text(completion: object) -> str:
    """The text of a completion as TRL hands it over: a string, or chat messages whose contents are joined."""
    if isinstance(completion, str):
        return completion
    if isinstance(completion, list | tuple) and all(isinstance(message, dict) for message in completion):
        contents = [
            message.get("content") or "" for message in completion if message.get("role", "assistant") == "assistant"
        ]
        if all(isinstance(content, str) for content in contents):
            return "".join(contents)
    raise InputError(f"completion: expected a text or a list of chat messages, got {type(completion).__name__}")


def dialogues(responses: Sequence[str], prompts: Sequence[Any] | None) -> list[list[dict[str, Any]]]:
    """What a reward model reads: each prompt's chat messages with the response as the assistant's last one.

    Halves of surrogate pairs, which a model's bytes can decode to and UTF-8 cannot write, become question marks.
    """
    if prompts is None:
        raise InputError("prompts: expected the chat messages of each prompt, got none")
    if len(prompts) != len(responses):
        raise InputError(f"prompts: expected {len(responses)} as responses, got {len(prompts)}")
    checked = []
    for row, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        if not isinstance(response, str):
            raise InputError(f"responses: expected str, got {type(response).__name__} in row {row}")
        if not isinstance(prompt, list | tuple) or not all(isinstance(message, Mapping) for message in prompt):
            raise InputError(f"prompts: expected a list of chat messages, got {type(prompt).__name__} in row {row}")
        messages = [*prompt, {"role": "assistant", "content": response}]
        checked.append([{key: _writable(value) for key, value in message.items()} for message in messages])
    return checked


def _writable(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else value


def reasons(source: object) -> dict[str, int]:
    """How many responses a reward has not scored or not read since its start, by reason; empty where it counts none."""
    counters: Mapping[str, int] = getattr(source, "counters", {})
    return {name: number for name, number in counters.items() if name not in _NO_REASONS}


def reasons_since(source: object, before: Mapping[str, int]) -> dict[str, int]:
    """How much `reasons` has grown since it gave `before`."""
    return {name: number - before.get(name, 0) for name, number in reasons(source).items()}


def check_scored(rewards: Sequence[float], most: float, *, why: Mapping[str, int], what: str) -> None:
    """Raises UnscoredError if more than the share `most` of a batch's rewards (all processes') is NaN.

    `why`: how many of the batch, by reason; `what`: the batch in words.
    """
    unscored = sum(map(math.isnan, rewards))
    if unscored <= most * len(rewards):
        return
    counted = ", ".join(f"{name} {number}" for name, number in why.items() if number) or "no reason counted"
    raise UnscoredError(
        f"reward: expected scores for all but {most:.0%} of {what} (reward.max_unscored), got none for {unscored} of "
        f"{len(rewards)} responses: {counted}. Once the cause is gone, go on with --resume"
    )
