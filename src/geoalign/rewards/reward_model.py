"""Rewards from a learned model: a sequence classifier with one output, as TRL's `RewardTrainer` makes it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from geoalign.config.reward_model import RewardModelConfig
from geoalign.errors import ConfigError, InputError, RunFolderError


class RewardModelScorer:
    """Scores responses by a reward model; a context manager that lets go of the model.

    The reward is the model's raw logit on prompt and response in the tokenizer's chat template, as in its training: of
    any scale and offset (GRPO's advantages depend on neither), larger is better. The same call gives the same bits;
    in another batch a score may differ in its last digits, through rounding.

    `counters` counts, since the start: responses scored, and those with NaN instead of a score: too_long (more tokens
    than `max_length` or than the model takes), empty (no token at all), not_finite (the model gave no number).

    Args:
        model: a sequence classifier of transformers with one label; moved to the device and type of `config`.
        tokenizer: its tokenizer, with a chat template and a padding or end token.

    Raises:
        InputError: more than one label, or a tokenizer without chat template or padding token.
    """

    __name__ = "reward_model"
    binary = False

    def __init__(self, model: Any, tokenizer: Any, config: RewardModelConfig | None = None) -> None:
        config = config if config is not None else RewardModelConfig()
        if model.config.num_labels != 1:
            raise InputError(f"reward model: expected one label, got {model.config.num_labels}")
        if tokenizer.chat_template is None:
            raise InputError("reward model: expected a tokenizer with a chat template, got none")
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        if pad is None:
            raise InputError("reward model: expected a tokenizer with a padding or an end token, got none")
        self._pad = int(pad)
        # The model reads its score off the last token that is no padding.
        model.config.get_text_config().pad_token_id = self._pad
        self._model = model.to(device=config.device, dtype=getattr(torch, config.dtype)).eval()
        self._tokenizer = tokenizer
        self._batch_size = config.batch_size
        limits = [config.max_length, getattr(model.config.get_text_config(), "max_position_embeddings", None)]
        self._longest = min((limit for limit in limits if limit is not None), default=None)
        self.counters = dict.fromkeys(("scored", "too_long", "empty", "not_finite"), 0)

    @classmethod
    def load(cls, folder: str | Path, config: RewardModelConfig | None = None) -> RewardModelScorer:
        """The scorer of a reward model that was saved in `folder`, or of one on the hub.

        Raises:
            ConfigError: there is no sequence classifier with its tokenizer.
        """
        try:
            model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
            tokenizer = AutoTokenizer.from_pretrained(folder)
        except (OSError, ValueError) as error:
            raise ConfigError(f"reward model: expected a sequence classifier, got {str(folder)!r}: {error}") from error
        return cls(model, tokenizer, config)

    def score(
        self, responses: Sequence[str], answers: Sequence[str], *, prompts: Sequence[Any] | None = None
    ) -> list[float]:
        """One reward per response; NaN for one that cannot be scored.

        Args:
            responses: the texts.
            answers: left unread.
            prompts: the chat messages of each response's prompt.

        Raises:
            InputError: no prompts, lengths differ, a response is no text or a prompt no list of messages.
            RunFolderError: the scorer has been closed.
        """
        if self._model is None:
            raise RunFolderError("reward model: expected an open scorer, got one that was closed")
        dialogues = _dialogues(responses, prompts)
        tokens = [self._encode(dialogue) for dialogue in dialogues]
        rewards = [math.nan] * len(tokens)
        scorable = []
        for row, ids in enumerate(tokens):
            if not ids:
                self.counters["empty"] += 1
            elif self._longest is not None and len(ids) > self._longest:
                self.counters["too_long"] += 1
            else:
                scorable.append(row)
        # Neighbours in length share a batch, so that little is padded; ties stay in their order.
        scorable.sort(key=lambda row: len(tokens[row]))
        for start in range(0, len(scorable), self._batch_size):
            batch = scorable[start : start + self._batch_size]
            for row, value in zip(batch, self._logits([tokens[row] for row in batch]), strict=True):
                if math.isfinite(value):
                    rewards[row] = value
                else:
                    self.counters["not_finite"] += 1
        self.counters["scored"] += sum(not math.isnan(reward) for reward in rewards)
        return rewards

    def close(self) -> None:
        """Lets go of the model and its memory; it cannot score any more."""
        self._model = None

    def __enter__(self) -> RewardModelScorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _encode(self, dialogue: list[dict[str, str]]) -> list[int]:
        # The very call by which TRL's RewardTrainer tokenizes its pairs.
        encoded = self._tokenizer.apply_chat_template(dialogue, tokenize=True, return_dict=True)
        return [int(token) for token in encoded["input_ids"]]

    @torch.inference_mode()
    def _logits(self, batch: Sequence[Sequence[int]]) -> list[float]:
        width = max(map(len, batch))
        ids = [[*row, *[self._pad] * (width - len(row))] for row in batch]
        mask = [[1] * len(row) + [0] * (width - len(row)) for row in batch]
        device = self._model.device
        output = self._model(
            input_ids=torch.tensor(ids, device=device),
            attention_mask=torch.tensor(mask, device=device),
            use_cache=False,
        )
        values: list[float] = output.logits.squeeze(-1).float().tolist()
        return values


def _dialogues(responses: Sequence[str], prompts: Sequence[Any] | None) -> list[list[dict[str, str]]]:
    if prompts is None:
        raise InputError("prompts: expected the chat messages of each prompt, got none")
    if len(prompts) != len(responses):
        raise InputError(f"prompts: expected {len(responses)} as responses, got {len(prompts)}")
    dialogues = []
    for row, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
        if not isinstance(response, str):
            raise InputError(f"responses: expected str, got {type(response).__name__} in row {row}")
        if not isinstance(prompt, list | tuple) or not all(isinstance(message, Mapping) for message in prompt):
            raise InputError(f"prompts: expected a list of chat messages, got {type(prompt).__name__} in row {row}")
        dialogues.append([*map(dict, prompt), {"role": "assistant", "content": response}])
    return dialogues
