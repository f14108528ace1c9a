"""From llama.cpp's file of four-bit weights to a folder that transformers loads: bfloat16, safetensors, tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from geoalign.lab.model.sources import ModelSource
from geoalign.pretrained import from_pretrained


def write_model(source: ModelSource, weights: Path, folder: Path) -> None:
    """Writes the model and its tokenizer into `folder`, an existing one.

    transformers does not save a model that counts as quantised, so the dequantised tensors go into a plain model of the
    same shape.
    """
    options: dict[str, Any] = {"gguf_file": weights.name, "trust_remote_code": False, "setting": "trust_remote_code"}
    tokenizer = from_pretrained(AutoTokenizer, weights.parent, **options)
    tokenizer.eos_token, tokenizer.pad_token = source.end, source.pad
    tokenizer.model_max_length = source.longest
    quantised = from_pretrained(AutoModelForCausalLM, weights.parent, dtype=torch.bfloat16, **options)
    values = {name: value for name, value in quantised.config.to_dict().items() if name != "quantization_config"}
    values |= {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    plain = type(quantised)(type(quantised.config).from_dict(values)).to(torch.bfloat16)
    plain.load_state_dict(quantised.state_dict())
    plain.tie_weights()
    plain.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
