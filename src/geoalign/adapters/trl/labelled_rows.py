"""Labelled rollouts inside TRL: tokenised once as TRL tokenises its rows, their states computed at every generation."""

from __future__ import annotations

from typing import Any

import torch

from geoalign.adapters.decision import as_answers
from geoalign.adapters.grpo_trainer.generation_batch import RolloutField, answers_of_boxes, field_values
from geoalign.adapters.grpo_trainer.states import HiddenLocation, RowTokens, TokenIds, own_hidden
from geoalign.curators.labelled_rollouts import LabelledRollouts
from geoalign.errors import ConfigError, InputError, UnsupportedError
from geoalign.hidden.extract import response_token_ids
from geoalign.types import Rollouts, response_keys


class LabelledRows:
    """The labelled rollouts as rows of one trainer that is otherwise complete.

    `answers` is the user's field of answers, by which rollouts without answers get theirs; None: no answers.
    """

    def __init__(self, trainer: Any, labelled: LabelledRollouts, answers: RolloutField | None) -> None:
        self._trainer = trainer
        self._tokens = RowTokens(*_token_ids(trainer, labelled))
        rewards = torch.tensor(list(labelled.rewards), dtype=torch.float64)
        self._rollouts: dict[str, Any] = {
            "rewards": rewards,
            "groups": labelled.group_numbers,
            "lengths": self._tokens.lengths,
            "true_rewards": rewards,
            "ids": [f"labelled:{row}" for row in range(len(labelled))],
            "response_keys": response_keys(self._tokens.responses),
        }
        if answers is not None:
            found = _answers(labelled, answers, self._tokens.responses)
            if answers is not answers_of_boxes or any(found):
                self._rollouts["answers"] = found

    def rollouts(self, location: HiddenLocation | None) -> Rollouts:
        """The rollouts under the current policy, with states from `location`; None: without. Draws no random number."""
        if location is None:
            return Rollouts(**self._rollouts)
        self._tokens.find_answers(self._trainer._tokenizer, location)
        return Rollouts(**self._rollouts, hidden=own_hidden(self._trainer, self._tokens, location))


def _token_ids(trainer: Any, labelled: LabelledRollouts) -> tuple[TokenIds, TokenIds]:
    tokenizer = trainer._tokenizer
    chats = [[dict(message) for message in prompt] for prompt in labelled.prompts if not isinstance(prompt, str)]
    if chats:
        if getattr(trainer, "_multi_environment", False):
            raise UnsupportedError("labelled rollouts with several environments: none says which tools are its own")
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
        prompts = tokenizer(text=list(labelled.prompts))["input_ids"]
    cut = labelled.truncated or [False] * len(labelled)
    pairs = zip(labelled.responses, cut, strict=True)
    return prompts, [response_token_ids(tokenizer, text, end=not truncated) for text, truncated in pairs]


def _answers(labelled: LabelledRollouts, field: RolloutField, responses: TokenIds) -> list[str | None]:
    if labelled.answers is not None:
        return as_answers(labelled.answers)
    rows = [
        {
            "prompt": prompt,
            "completion": text if isinstance(prompt, str) else [{"role": "assistant", "content": text}],
            "completion_ids": ids,
        }
        for prompt, text, ids in zip(labelled.prompts, labelled.responses, responses, strict=True)
    ]
    try:
        return as_answers(field_values("answers", field, rows))
    except (KeyError, InputError) as error:
        raise ConfigError(f"labelled_rollouts: expected answers, as the data set has them ({error})") from error
