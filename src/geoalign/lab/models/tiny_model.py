"""A small language model of the Qwen3 architecture and a character tokenizer, for runs that need no download."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from geoalign.errors import ConfigError
from geoalign.lab.config.run import TinyModelConfig

_PAD, _END, _UNKNOWN = "<|pad|>", "<|end|>", "<|unknown|>"
_USER, _ASSISTANT, _SYSTEM = "<|user|>", "<|reply|>", "<|rule|>"
_SPECIAL = (_PAD, _END, _UNKNOWN, _USER, _ASSISTANT, _SYSTEM)

_CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'assistant' %}" + _ASSISTANT + "{{ message['content'] }}" + _END + "{% else %}"
    "{% if message['role'] == 'system' %}" + _SYSTEM + "{% else %}" + _USER + "{% endif %}"
    "{{ message['content'] }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}" + _ASSISTANT + "{% endif %}"
)


def make_tokenizer(
    alphabet: Iterable[str] | None, *, max_length: int, words: Iterable[str] = ()
) -> PreTrainedTokenizerFast:
    """A tokenizer with one token per character of `alphabet`, and a chat template whose turns end in the end token.

    Each of `words` is one token too; from left to right the longest one that fits is taken, then single characters.
    A character outside the alphabet becomes the unknown token. Without an alphabet there is one token per byte of
    UTF-8, so that any text can be written. The template is prefix-preserving: prompt plus reply begins with the
    very tokens of the prompt.

    Raises:
        ConfigError: the alphabet is empty, or holds a string that is not one character.
    """
    tokenizer = _byte_tokenizer() if alphabet is None else _character_tokenizer(sorted(set(alphabet)), words)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=_PAD,
        eos_token=_END,
        unk_token=_UNKNOWN,
        additional_special_tokens=[_USER, _ASSISTANT, _SYSTEM],
        chat_template=_CHAT_TEMPLATE,
        padding_side="left",
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
    )


def _character_tokenizer(characters: list[str], words: Iterable[str]) -> Tokenizer:
    if not characters:
        raise ConfigError("alphabet: expected at least one character, got none")
    for character in characters:
        if len(character) != 1:
            raise ConfigError(f"alphabet: expected single characters, got {character!r}")
    longer = sorted({word for word in words if len(word) > 1}, key=lambda word: (-len(word), word))
    vocabulary = {token: number for number, token in enumerate([*_SPECIAL, *characters, *longer])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=_UNKNOWN))
    # [\s\S], not ".": a dot leaves line breaks out and would glue them to their neighbours. An alternation takes the
    # first part that fits, so the longest word stands first.
    pattern = "|".join([*map(re.escape, longer), r"[\s\S]"])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def _byte_tokenizer() -> Tokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*_SPECIAL, *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def make_tiny_model(config: TinyModelConfig, tokenizer: Any, *, seed: int) -> Qwen3ForCausalLM:
    """A Qwen3 model with weights drawn from `seed`, its vocabulary that of the tokenizer, input and output tied."""
    shape = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden_size,
        intermediate_size=3 * config.hidden_size,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.heads,
        head_dim=config.hidden_size // config.heads,
        max_position_embeddings=config.max_length,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        tie_word_embeddings=True,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Qwen3ForCausalLM(shape)
