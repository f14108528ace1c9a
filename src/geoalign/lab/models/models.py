"""The model and tokenizer of a run: a tiny one made here, or a pretrained one."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from geoalign.errors import ConfigError
from geoalign.lab.config.run import PretrainedModelConfig, TinyModelConfig
from geoalign.lab.models.tiny_model import make_tiny_model, make_tokenizer
from geoalign.lab.store.files import beside, replace_folder
from geoalign.lab.store.seals import mark_complete
from geoalign.pretrained import OwnCodeError, from_pretrained

CODE_SETTING = "model.trust_remote_code"


def first_model(config: Any, *, alphabet: str | None, seed: int, words: Sequence[str] = ()) -> tuple[Any, Any]:
    """The model and tokenizer that a run starts from, on the CPU.

    Args:
        config: `TinyModelConfig` or `PretrainedModelConfig`.
        alphabet: the task's characters, for the tiny model's tokenizer; None: one token per byte.
        words: texts that are one token each beside the alphabet.

    Raises:
        ConfigError: a pretrained model that cannot be loaded, or whose tokenizer has no chat template.
    """
    tokenizer = first_tokenizer(config, alphabet=alphabet, words=words)
    if isinstance(config, TinyModelConfig):
        return make_tiny_model(config, tokenizer, seed=seed), tokenizer
    try:
        model = from_pretrained(
            AutoModelForCausalLM, config.path, dtype=getattr(torch, config.dtype), **_from_hub(config)
        )
    except OwnCodeError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(f"model.path: expected a causal language model, got {config.path!r}: {error}") from error
    return model, tokenizer


def first_tokenizer(config: Any, *, alphabet: str | None, words: Sequence[str] = ()) -> Any:
    """The tokenizer that a run starts from; of a pretrained model nothing else is loaded.

    Raises:
        ConfigError: it cannot be loaded, or has no chat template.
    """
    if isinstance(config, TinyModelConfig):
        return make_tokenizer(alphabet, max_length=config.max_length, words=words)
    if not isinstance(config, PretrainedModelConfig):
        raise ConfigError(f"model: expected settings of a known type, got {type(config).__name__}")
    tokenizer: Any
    try:
        tokenizer = from_pretrained(AutoTokenizer, config.path, padding_side="left", **_from_hub(config))
    except OwnCodeError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(f"model.path: expected a tokenizer, got {config.path!r}: {error}") from error
    if tokenizer.chat_template is None:
        raise ConfigError(f"model.path: expected a tokenizer with a chat template, got none in {config.path!r}")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def template_options(config: Any) -> dict[str, Any]:
    """What the chat template is told wherever it is applied; nothing for the tiny model, which has a plain one."""
    return dict(config.chat_template_kwargs) if isinstance(config, PretrainedModelConfig) else {}


def load_saved(folder: Path, config: Any) -> tuple[Any, Any]:
    """The model and tokenizer that `save` wrote: a run goes on from these bits, whether it was killed or not.

    Args:
        config: the model's settings in the run.
    """
    code: dict[str, Any] = {"trust_remote_code": trusts_code(config), "setting": CODE_SETTING}
    model = from_pretrained(AutoModelForCausalLM, folder, dtype=getattr(torch, weights_dtype(config)), **code)
    return model, from_pretrained(AutoTokenizer, folder, padding_side="left", **code)


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Writes model and tokenizer as `from_pretrained` reads them."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def save_complete(model: Any, tokenizer: Any, place: Path) -> None:
    """Writes model and tokenizer into a folder that exists only if complete, with its mark; an older one goes."""
    written = beside(place)
    if written.exists():
        shutil.rmtree(written)
    save(model, tokenizer, written)
    mark_complete(written)
    replace_folder(written, place)


def trusts_code(config: Any) -> bool:
    """Whether the Python code that comes with a run's model may run."""
    return isinstance(config, PretrainedModelConfig) and config.trust_remote_code


def _from_hub(config: PretrainedModelConfig) -> dict[str, Any]:
    code = {"trust_remote_code": config.trust_remote_code, "setting": CODE_SETTING}
    return {"revision": config.revision, **code}


def weights_dtype(config: Any) -> str:
    """Name of the type of a run's weights in memory."""
    return config.dtype if isinstance(config, PretrainedModelConfig) else "float32"
