"""Rewards from a learned model: a sequence classifier with one output, or one that combines several objectives.

A ready one is loaded as the class it was trained as, with all its weights, its own code only if allowed. Where the head
alone was fitted, it reads the mean last-layer state of a reply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer
from transformers.models.llama import modeling_llama

from geoalign.errors import ConfigError, InputError
from geoalign.hidden.extract import padded
from geoalign.lab.rewards.chat_model import ChatRewardModel, Written
from geoalign.lab.rewards.settings import RewardModelConfig
from geoalign.pretrained.from_pretrained import from_pretrained, loading, own_code

_EXPECTED = "reward model: expected a sequence classifier with its tokenizer"
CODE_SETTING = "reward.model.trust_remote_code"
_CLASS = "AutoModelForSequenceClassification"
# In the config of a reward model whose head reads the mean over the reply's tokens, not the last token's state.
_MARK = "scores_mean_reply_state"


class RewardModelScorer(ChatRewardModel):
    """Scores by a model in this process.

    The reward is the logit of a classifier with one label; of a model whose output has a `score`, such as ArmoRM's
    gated sum of its objectives, that. The same call gives the same bits; in another batch a score may differ in its
    last digits.
    """

    def __init__(self, model: Any, tokenizer: Any, config: RewardModelConfig | None = None) -> None:
        config = config if config is not None else RewardModelConfig()
        super().__init__(config.batch_size)
        if not has_own_code(model) and model.config.num_labels != 1:
            raise InputError(f"reward model: expected one label, got {model.config.num_labels}")
        if tokenizer.chat_template is None:
            raise InputError("reward model: expected a tokenizer with a chat template, got none")
        text_config = model.config.get_text_config()
        self._pad = _padding_token(text_config, tokenizer)
        if self._pad == tokenizer.eos_token_id and (has_own_code(model) or text_config.pad_token_id is None):
            # A model may look for padding, which it was not told is the end token that ends every turn: pad nothing.
            self.batch_size = 1
        else:
            text_config.pad_token_id = self._pad
        try:
            self._model = model.to(device=config.device, dtype=getattr(torch, config.dtype)).eval()
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(
                f"reward.model.device: expected one of this machine, got {config.device!r}: {error}"
            ) from error
        self.tokenizer = tokenizer
        limits = [config.max_length, getattr(text_config, "max_position_embeddings", None)]
        self.longest = min((limit for limit in limits if limit is not None), default=None)

    @classmethod
    def load(cls, model_id: str | Path, config: RewardModelConfig | None = None) -> RewardModelScorer:
        """The scorer of a reward model that was saved in a folder, or of one on the hub."""
        config = config if config is not None else RewardModelConfig()
        model, tokenizer = load_ready_model(model_id, config)
        return cls(model, tokenizer, config)

    def close(self) -> None:
        self._model = None

    @torch.inference_mode()
    def scores(self, batch: Sequence[Written]) -> list[float]:
        """The model's output for each dialogue; InputError where it gives more than one number."""
        tokens = [written.tokens for written in batch]
        if reads_mean(self._model):
            starts = [reply_start(self.tokenizer, written.messages) for written in batch]
            values = self._model.score(mean_reply_states(self._model, tokens, starts))
        else:
            ids, mask = padded(tokens, self._pad, self._model.device)
            output = self._model(input_ids=ids, attention_mask=mask, use_cache=False)
            combined = getattr(output, "score", None)
            values = output.logits if combined is None else combined
        if values.numel() != len(batch):
            raise InputError(
                f"reward model: expected one number a response, got {tuple(values.shape)} for {len(batch)}"
            )
        rewards: list[float] = values.reshape(-1).float().tolist()
        return rewards


def _padding_token(text_config: Any, tokenizer: Any) -> int:
    """The model's own padding token, because it reads its score where that token says that the dialogue ends; without
    one the tokenizer's, then its end token."""
    for token in (text_config.pad_token_id, tokenizer.pad_token_id, tokenizer.eos_token_id):
        if token is not None:
            return int(token)
    raise InputError("reward model: expected a tokenizer with a padding or an end token, got none")


def load_ready_model(model_id: str | Path, config: RewardModelConfig) -> tuple[Any, Any]:
    """Model and tokenizer from a folder or the hub, the weights in `config.dtype`, on the CPU."""
    settings, tokenizer = _settings(model_id, config)
    _supply_names_of_older_transformers()
    with loading(_EXPECTED, model_id):
        options = {"config": settings, "dtype": getattr(torch, config.dtype), **_options(config)}
        model, report = from_pretrained(
            AutoModelForSequenceClassification, model_id, output_loading_info=True, **options
        )
    missing = sorted(report["missing_keys"])
    if missing:
        raise ConfigError(
            f"reward model: expected all weights of {type(model).__name__} in {str(model_id)!r}, got no {missing[0]!r} "
            f"({len(missing)} missing): is it a language model without a trained head?"
        )
    return model, tokenizer


def check_ready_model(model_id: str | Path, config: RewardModelConfig) -> None:
    """Finds what is wrong with a reward model without reading its weights."""
    settings, tokenizer = _settings(model_id, config)
    labels = 1 if _own_code(settings) else settings.num_labels
    if labels != 1:
        raise ConfigError(f"reward.model.path: expected a model with one label, got {labels} in {model_id!r}")
    if tokenizer.chat_template is None:
        raise ConfigError(f"reward.model.path: expected a tokenizer with a chat template, got none in {model_id!r}")


def has_own_code(model: Any) -> bool:
    """Whether a model's class is defined outside transformers, by code that came with its weights."""
    return not type(model).__module__.startswith("transformers.")


def _settings(model_id: str | Path, config: RewardModelConfig) -> tuple[Any, Any]:
    with loading(_EXPECTED, model_id):
        settings = from_pretrained(AutoConfig, model_id, **_options(config))
        if not config.trust_remote_code and _own_code(settings):
            # Without its code transformers would take the plain classifier of that architecture, with a random head.
            raise own_code(model_id, CODE_SETTING)
        return settings, from_pretrained(AutoTokenizer, model_id, **_options(config))


def _options(config: RewardModelConfig) -> dict[str, Any]:
    return {"revision": config.revision, "trust_remote_code": config.trust_remote_code, "setting": CODE_SETTING}


def _own_code(settings: Any) -> bool:
    return _CLASS in (getattr(settings, "auto_map", None) or {})


def _supply_names_of_older_transformers() -> None:
    # ArmoRM's code imports this docstring, which transformers has dropped and which means nothing to the model.
    if not hasattr(modeling_llama, "LLAMA_INPUTS_DOCSTRING"):
        setattr(modeling_llama, "LLAMA_INPUTS_DOCSTRING", "")  # noqa: B010 - mypy knows that the name is not there


def mark_mean(model: Any) -> None:
    """Notes in the model's config, which is saved with it, that its head reads mean states."""
    setattr(model.config, _MARK, True)


def reads_mean(model: Any) -> bool:
    """Whether a reward model's head reads mean states; of any other model it reads what the model's class says."""
    return bool(getattr(model.config, _MARK, False))


def reply_start(tokenizer: Any, dialogue: Sequence[Mapping[str, Any]]) -> int:
    """The number of tokens before the last message's own, which the chat template writes in front of a reply."""
    prompt = list(dialogue[:-1])
    encoded = tokenizer.apply_chat_template(prompt, tokenize=True, return_dict=True, add_generation_prompt=True)
    return len(encoded["input_ids"])


@torch.no_grad()
def mean_reply_states(model: Any, rows: Sequence[Sequence[int]], starts: Sequence[int]) -> Float[Tensor, "rows width"]:
    """The mean of each dialogue's states from the start of its reply on; of an empty reply the last token's.

    `rows` are the dialogues' tokens, `starts` the number of tokens before each reply.
    """
    ids, mask = padded(rows, 0, model.device)
    last_tokens = mask.sum(dim=1) - 1
    first_tokens = torch.minimum(torch.tensor(starts, device=model.device), last_tokens)
    positions = torch.arange(ids.shape[1], device=model.device)
    is_reply = mask * (positions >= first_tokens[:, None])
    states = model.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    counted = is_reply.to(states.dtype)
    sums = torch.einsum("rt,rtw->rw", counted, states)
    means: Tensor = sums / counted.sum(dim=1, keepdim=True)
    return means
