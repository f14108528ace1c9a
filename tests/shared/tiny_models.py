from pathlib import Path
from typing import Any

import torch
from transformers import Qwen3Config, Qwen3ForSequenceClassification

from geoalign.lab.models.language_model import make_tiny_model, make_tokenizer, save
from geoalign.lab.models.settings import TinyModelConfig


def random_model(kind: Any, config: Any, tokenizer: Any, **values: Any) -> Any:
    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    sizes = {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return kind(config(**{**small, **sizes, **values}))


def random_classifier(tokenizer: Any, **values: Any) -> Any:
    """A reward model whose scores differ visibly, for as many tokens as its tokenizer."""
    # The range is far from the usual 0.02, so that scores differ visibly.
    own = {"num_key_value_heads": 2, "head_dim": 8, "num_labels": 1, "initializer_range": 0.5}
    values = {**own, "max_position_embeddings": tokenizer.model_max_length, **values}
    return random_model(Qwen3ForSequenceClassification, Qwen3Config, tokenizer, **values)


def saved_classifier(folder: Path, alphabet: str, *, max_length: int) -> Path:
    """A random reward model that reads these characters, in a folder."""
    tokenizer = make_tokenizer(alphabet, max_length=max_length)
    random_classifier(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def saved_model(folder: Path, *, max_length: int, seed: int = 0, **values: Any) -> Path:
    """A random model that reads any text byte by byte, in a folder."""
    tokenizer = make_tokenizer(None, max_length=max_length)
    config = TinyModelConfig(**{"hidden_size": 16, "layers": 1, "heads": 1, "max_length": max_length, **values})
    save(make_tiny_model(config, tokenizer, seed=seed), tokenizer, folder)
    return folder
