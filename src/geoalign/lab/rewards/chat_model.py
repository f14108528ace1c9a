"""What every reward source shares: its interface, the texts that it reads, and the limit on unscored responses."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from jinja2 import TemplateError

from geoalign.endpoint.http_client import RefusedTextError, UnreachableError
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
        # Until the model is known nothing is sorted into batches.
        waiting: deque[list[tuple[int, Written]]] = deque()
        left = len(responses)
        try:
            self.open()
            # Neighbours in length share a batch, so that little is padded; ties stay in their order.
            rows = sorted(self._scorable(responses, prompts), key=lambda item: len(item[1].tokens))
            waiting.extend(rows[start : start + self.batch_size] for start in range(0, len(rows), self.batch_size))
            while waiting:
                left = sum(map(len, waiting))
                batch = waiting.popleft()
                try:
                    values = self.scores([written for _, written in batch])
                except RefusedTextError as error:
                    if len(batch) > 1:
                        waiting.extendleft([item] for item in reversed(batch))
                    else:
                        self._note_refusal(error)
                    continue
                for (row, _), value in zip(batch, values, strict=True):
                    rewards[row] = value if math.isfinite(value) else math.nan
                    self.counters["not_finite"] += not math.isfinite(value)
        except UnreachableError:
            self.counters["unreachable"] += left
        self.counters["scored"] += sum(not math.isnan(reward) for reward in rewards)
        return rewards

    def _note_refusal(self, error: RefusedTextError) -> None:
        """Counts a response that the server refuses, and says so the first time."""
        if not self.counters["refused"]:
            _LOG.warning(
                "%s; the response stays unscored, and so do others that are refused: `refused` counts them", error
            )
        self.counters["refused"] += 1

    def _scorable(self, responses: Sequence[str], prompts: Sequence[Any] | None) -> list[tuple[int, Written]]:
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
