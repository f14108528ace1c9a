"""Anchors inside TRL: tokenised once as TRL tokenises its own rows, their states computed at every generation."""

from __future__ import annotations

from typing import Any

import torch

from geoalign.adapters.step import as_answers
from geoalign.adapters.trl.round import RolloutField, field_values
from geoalign.adapters.trl.states import RowTokens, StatePlace, TokenIds, own_hidden
from geoalign.curators.anchors import Anchors
from geoalign.errors import ConfigError, InputError, UnsupportedError
from geoalign.hidden.extract import response_token_ids
from geoalign.types import Rollouts, response_keys


class AnchorRows:
    """The anchors as rows of one trainer that is otherwise complete.

    `answers` is the user's field of answers, by which those of anchors without answers are found; None: no answers.
    """

    def __init__(self, trainer: Any, anchors: Anchors, answers: RolloutField | None) -> None:
        self._trainer = trainer
        self._tokens = RowTokens(*_token_ids(trainer, anchors))
        rewards = torch.tensor(list(anchors.rewards), dtype=torch.float64)
        self._rollouts: dict[str, Any] = {
            "rewards": rewards,
            "groups": anchors.group_numbers,
            "lengths": self._tokens.lengths,
            "true_rewards": rewards,
            "ids": [f"anchor:{row}" for row in range(len(anchors))],
            "response_keys": response_keys(self._tokens.responses),
        }
        if answers is not None:
            self._rollouts["answers"] = _answers(anchors, answers, self._tokens.responses)

    def rollouts(self, place: StatePlace | None) -> Rollouts:
        """The anchors under the current policy, with states from `place`; None: without. Draws no random number."""
        if place is None:
            return Rollouts(**self._rollouts)
        self._tokens.find_answers(self._trainer._tokenizer, place)
        return Rollouts(**self._rollouts, hidden=own_hidden(self._trainer, self._tokens, place))


def _token_ids(trainer: Any, anchors: Anchors) -> tuple[TokenIds, TokenIds]:
    tokenizer = trainer._tokenizer
    chats = [[dict(message) for message in prompt] for prompt in anchors.prompts if not isinstance(prompt, str)]
    if chats:
        if getattr(trainer, "_multi_environment", False):
            raise UnsupportedError("anchors with several environments: an anchor does not say which tools are its own")
        texts = tokenizer.apply_chat_template(
            chats,
            tools=getattr(trainer, "tools", None) or None,
            chat_template=getattr(trainer, "chat_template", None),
            tokenize=False,
            add_generation_prompt=True,
            **(trainer.args.chat_template_kwargs or {}),
        )
        prompts = tokenizer(texts, add_special_tokens=False)["input_ids"]
    else:
        prompts = tokenizer(text=list(anchors.prompts))["input_ids"]
    cut = anchors.truncated or [False] * len(anchors)
    responses = [
        response_token_ids(tokenizer, text, end=not truncated)
        for text, truncated in zip(anchors.responses, cut, strict=True)
    ]
    return prompts, responses


def _answers(anchors: Anchors, field: RolloutField, responses: TokenIds) -> list[str | None]:
    if anchors.answers is not None:
        return list(anchors.answers)
    rows = [
        {
            "prompt": prompt,
            "completion": text if isinstance(prompt, str) else [{"role": "assistant", "content": text}],
            "completion_ids": ids,
        }
        for prompt, text, ids in zip(anchors.prompts, anchors.responses, responses, strict=True)
    ]
    try:
        return as_answers(field_values("answers", field, rows))
    except (KeyError, InputError) as error:
        raise ConfigError(f"anchors: expected answers, as those of the data set are read from it ({error})") from error
