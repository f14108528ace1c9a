"""What a reward source is: whatever scores responses, be it a comparison with a gold answer or a learned model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from geoalign.errors import InputError


class RewardSource(Protocol):
    """Scores responses.

    Attributes:
        binary: True where every reward is 0 or 1; NaN stands for a response that could not be scored, in either kind.
    """

    @property
    def binary(self) -> bool: ...

    def score(
        self, responses: Sequence[str], answers: Sequence[str], *, prompts: Sequence[Any] | None = None
    ) -> list[float]:
        """One reward per response.

        Args:
            responses: the texts to score.
            answers: the gold answer of each row; a source that knows no gold answers ignores them.
            prompts: the chat messages of each row's prompt; a source that compares answers ignores them.
        """


def response_text(completion: object) -> str:
    """The text of a completion as TRL hands it over: a string, or chat messages whose contents are joined.

    Raises:
        InputError: anything else.
    """
    if isinstance(completion, str):
        return completion
    if isinstance(completion, list | tuple) and all(isinstance(message, dict) for message in completion):
        contents = [
            message.get("content") or "" for message in completion if message.get("role", "assistant") == "assistant"
        ]
        if all(isinstance(content, str) for content in contents):
            return "".join(contents)
    raise InputError(f"completion: expected a text or a list of chat messages, got {type(completion).__name__}")
