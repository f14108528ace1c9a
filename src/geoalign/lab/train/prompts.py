"""How long prompts are in tokens, and which are short enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from geoalign.errors import ConfigError
from geoalign.lab.tasks.base import Demonstration, Problem
from geoalign.lab.tasks.chat import rendered, token_ids

_Item = TypeVar("_Item", Problem, Demonstration)


def prompt_lengths(items: Sequence[_Item], tokenizer: Any, options: Mapping[str, Any]) -> list[int]:
    """Tokens of each item's prompt in the chat template."""
    if not items:
        return []
    texts = [rendered(item.prompt, tokenizer, options) for item in items]
    return [len(ids) for ids in token_ids(texts, tokenizer)]


def short_enough(
    items: Sequence[_Item], limit: int | None, tokenizer: Any, options: Mapping[str, Any], *, what: str
) -> tuple[list[_Item], str | None]:
    """The items whose prompts have at most `limit` tokens, in their order, and a line that says how many are left out.

    Raises:
        ConfigError: there were items, and none is left.
    """
    if limit is None or not items:
        return list(items), None
    lengths = prompt_lengths(items, tokenizer, options)
    kept = [item for item, length in zip(items, lengths, strict=True) if length <= limit]
    if not kept:
        raise ConfigError(
            f"max_prompt_length: expected a limit that some of the {len(items)} {what} keep, got {limit}: the shortest "
            f"has {min(lengths)} tokens"
        )
    left_out = len(items) - len(kept)
    if not left_out:
        return kept, None
    return kept, f"{left_out} of {len(items)} {what} left out: more than max_prompt_length = {limit} tokens"
