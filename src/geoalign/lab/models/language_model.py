"""The model and tokenizer of a run: a tiny one made here or a pretrained one, with low-rank adapters where it asks."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from geoalign.errors import ConfigError
from geoalign.files.durable import replace_folder, temporary_path
from geoalign.lab.models.settings import LoraConfig, ModelConfig, TinyModelConfig
from geoalign.lab.runs.folder import mark_complete
from geoalign.pretrained.from_pretrained import from_pretrained, loading

CODE_SETTING = "model.trust_remote_code"

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


def initial_model(
    config: ModelConfig, *, alphabet: str | None, seed: int, words: Sequence[str] = ()
) -> tuple[Any, Any]:
    """The model and tokenizer that a run starts from, on the CPU; `alphabet` and `words` as of `make_tokenizer`."""
    tokenizer = initial_tokenizer(config, alphabet=alphabet, words=words)
    if isinstance(config, TinyModelConfig):
        return make_tiny_model(config, tokenizer, seed=seed), tokenizer
    with loading("model.path: expected a causal language model", config.path):
        model = from_pretrained(
            AutoModelForCausalLM,
            config.path,
            revision=config.revision,
            dtype=getattr(torch, config.dtype),
            **_code(config),
        )
    return model, tokenizer


def initial_tokenizer(config: ModelConfig, *, alphabet: str | None, words: Sequence[str] = ()) -> Any:
    """The tokenizer that a run starts from; of a pretrained model nothing else is loaded."""
    if isinstance(config, TinyModelConfig):
        return make_tokenizer(alphabet, max_length=config.max_length, words=words)
    with loading("model.path: expected a tokenizer", config.path):
        tokenizer: Any = from_pretrained(
            AutoTokenizer, config.path, revision=config.revision, padding_side="left", **_code(config)
        )
    if tokenizer.chat_template is None:
        raise ConfigError(f"model.path: expected a tokenizer with a chat template, got none in {config.path!r}")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def load_saved(folder: Path, config: ModelConfig) -> tuple[Any, Any]:
    """The model and tokenizer that `save` wrote: a run goes on from these bits, whether it was killed or not."""
    model = from_pretrained(AutoModelForCausalLM, folder, dtype=getattr(torch, config.dtype), **_code(config))
    tokenizer = from_pretrained(AutoTokenizer, folder, padding_side="left", **_code(config))
    return model, tokenizer


def load_checkpoint(checkpoint: Path, config: ModelConfig, model: Any, tokenizer: Any) -> tuple[Any, Any]:
    """Model and tokenizer of a stage's last checkpoint; one of adapters holds only these, for the stage's `model`."""
    if config.lora is not None:
        return merged_from(model, checkpoint), tokenizer
    return load_saved(checkpoint, config)


def _code(config: ModelConfig) -> dict[str, Any]:
    """Whether code that comes with the model may run, as `from_pretrained` takes it."""
    return {"trust_remote_code": config.trust_remote_code, "setting": CODE_SETTING}


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def save_complete(model: Any, tokenizer: Any, folder: Path) -> None:
    """Writes model and tokenizer into a folder that exists only if complete, with its mark; an older one goes."""
    written = temporary_path(folder)
    if written.exists():
        shutil.rmtree(written)
    save(model, tokenizer, written)
    mark_complete(written)
    replace_folder(written, folder)


def make_tokenizer(
    alphabet: Iterable[str] | None, *, max_length: int, words: Iterable[str] = ()
) -> PreTrainedTokenizerFast:
    """A tokenizer with one token per character of `alphabet` (None: per byte of UTF-8) and for each of `words`, the
    longest first. Its chat template is prefix-preserving: prompt plus reply begins with the tokens of the prompt."""
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
    """One token for each character and for each word of at least two; another character is unknown."""
    longer = {word for word in words if len(word) > 1}
    longest_first = sorted(longer, key=lambda word: (-len(word), word))
    vocabulary = {token: number for number, token in enumerate([*_SPECIAL, *characters, *longest_first])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=_UNKNOWN))
    # [\s\S], not ".": a dot leaves line breaks out and would glue them to their neighbours. An alternation takes the
    # first part that fits, so the longest word stands first.
    pattern = "|".join([*map(re.escape, longest_first), r"[\s\S]"])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def _byte_tokenizer() -> Tokenizer:
    """One token for each byte of UTF-8."""
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


def with_adapters(model: Any, config: LoraConfig | None, *, seed: int, kind: str = "CAUSAL_LM") -> Any:
    """The model with fresh adapters, drawn from `seed`, and its own weights frozen; the model itself for None.

    An update B A starts at zero (Hu et al. 2022). The new head of a reward model (`kind` SEQ_CLS) is trained whole.
    """
    if config is None:
        return model
    import peft  # only where adapters are asked for

    targets = config.target_modules if isinstance(config.target_modules, str) else list(config.target_modules)
    # peft declares `lora_alpha` as an int, but works with any number.
    scale: Any = config.scale * config.rank
    options = peft.LoraConfig(task_type=kind, r=config.rank, lora_alpha=scale, target_modules=targets)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return peft.get_peft_model(model, options)


def merged(model: Any) -> Any:
    """The plain model with its adapters added to its weights; a model without adapters as it is."""
    return model.merge_and_unload() if hasattr(model, "merge_and_unload") else model


def merged_from(model: Any, checkpoint: Path) -> Any:
    """The plain model with the adapters of a checkpoint added to its weights."""
    import peft

    return merged(peft.PeftModel.from_pretrained(model, checkpoint))
