"""What every reward source shares: its interface, the texts that it reads, and the limit on unscored responses."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

from jinja2 import TemplateError

from geoalign.endpoint.client import RefusedTextError, UnreachableError
from geoalign.errors import InputError

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Written:
    """A dialogue in a chat template: its messages, its text and its tokens."""

    messages: list[dict[str, Any]]
    text: str
    tokens: list[int]


class ChatRewardModel(ABC):
    """Scores prompt and response in the tokenizer's chat template, as in the training of reward models, in batches.

    A context manager that frees what it holds. `counters` counts, since the start: responses scored, and those with NaN
    instead of a score: too_long (more tokens than `longest`; nothing is ever cut off), empty (no token at all),
    not_finite (the model gave no number), and, of a server, unreachable and refused (it does not take the text).
    """

    __name__ = "reward_model"
    binary = False
    tokenizer: Any = None
    longest: int | None = None

    def __init__(self, batch_size: int, *more_reasons: str) -> None:
        self.batch_size = batch_size
        self.counters = dict.fromkeys(("scored", "too_long", "empty", "not_finite", *more_reasons), 0)

    def score(
        self, responses: Sequence[str], answers: Sequence[str], *, prompts: Sequence[Any] | None = None
    ) -> list[float]:
        """One reward per response; NaN for one that cannot be scored. `answers` is left unread.

        A batch that is refused is asked for again, each of its responses alone: one text costs no other its score.
        """
        rewards = [math.nan] * len(responses)
        unanswered = len(responses)
        try:
            self.open()
            # Neighbours in length share a batch, so that little is padded; ties stay in their order.
            rows = sorted(self._scorable(responses, prompts), key=lambda item: len(item[1].tokens))
            unanswered = len(rows)
            for start in range(0, len(rows), self.batch_size):
                batch = rows[start : start + self.batch_size]
                values = self._scores_or_refusals([written for _, written in batch])
                for (row, _), value in zip(batch, values, strict=True):
                    unanswered -= 1
                    if value is None:
                        continue
                    if math.isfinite(value):
                        rewards[row] = value
                        self.counters["scored"] += 1
                    else:
                        self.counters["not_finite"] += 1
        except UnreachableError:
            self.counters["unreachable"] += unanswered
        return rewards

    def _scores_or_refusals(self, batch: Sequence[Written]) -> Iterator[float | None]:
        """The model's outputs one after another; None for a dialogue that a server refuses alone."""
        try:
            yield from self.scores(batch)
        except RefusedTextError as error:
            if len(batch) > 1:
                for written in batch:
                    yield from self._scores_or_refusals([written])
                return
            if not self.counters["refused"]:
                _LOG.warning(
                    "%s; the response stays unscored, and so do others that are refused: `refused` counts them", error
                )
            self.counters["refused"] += 1
            yield None

    def _scorable(self, responses: Sequence[str], prompts: Sequence[Any] | None) -> list[tuple[int, Written]]:
        """The rows that can be scored, each with its dialogue in the chat template; the others are counted."""
        if prompts is None:
            raise InputError("prompts: expected the chat messages of each prompt, got none")
        scorable = []
        for row, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
            messages = [*prompt, {"role": "assistant", "content": response}]
            try:
                text = str(self.tokenizer.apply_chat_template(messages, tokenize=False))
            except (TemplateError, TypeError, KeyError) as error:
                raise InputError(
                    f"prompts: expected messages that the reward model's chat template takes, got in row {row}: {error}"
                ) from error
            # Halves of surrogate pairs, which a model's bytes can decode to, are no text that can be sent or tokenized.
            text = text.encode("utf-8", "replace").decode("utf-8")
            # The template has written every special token.
            tokens = [int(token) for token in self.tokenizer(text, add_special_tokens=False)["input_ids"]]
            if not tokens:
                self.counters["empty"] += 1
            elif self.longest is not None and len(tokens) > self.longest:
                self.counters["too_long"] += 1
            else:
                scorable.append((row, Written(messages, text, tokens)))
        return scorable

    @abstractmethod
    def scores(self, batch: Sequence[Written]) -> list[float]:
        """The model's raw output for each dialogue; NaN where it is no number."""

    def open(self) -> None:  # noqa: B027 - a model that is here is open from the start
        """Makes tokenizer and limit known, where a server has to be asked for them."""

    @abstractmethod
    def close(self) -> None:
        """Frees the model, or the connections to it; it cannot score any more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
