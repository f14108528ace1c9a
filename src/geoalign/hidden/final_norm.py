"""A model's final norm by itself: what turns the state after the last layer into the one that a backbone returns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn
from transformers import AutoConfig, AutoModel

from geoalign.errors import InputError
from geoalign.hidden.layers import backbone_layers


def final_norm(backbone: nn.Module) -> nn.Module:
    """The norm beside the decoder layers; of several (one of the embeddings, say) the last one.

    Raises:
        InputError: there is none, or the model's decoder layers cannot be found.
    """
    return backbone.get_submodule(_norm_name(backbone))


def load_final_norm(folder: str | Path) -> nn.Module:
    """The final norm of a Hugging Face model in safetensors files, without loading the model or running its code.

    Raises:
        InputError: the files hold no weights of it, or config.json names no architecture of transformers.
    """
    folder = Path(folder)
    try:
        settings = json.loads((folder / "config.json").read_text("utf-8"))
        config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    except (OSError, ValueError, KeyError) as error:
        raise InputError(f"{folder / 'config.json'}: expected an architecture of transformers ({error})") from None
    with torch.device("meta"):
        backbone: Any = AutoModel.from_config(config)
    name = _norm_name(backbone)
    norm: nn.Module = backbone.get_submodule(name)
    found = {own: _tensor(folder, f"{name}.{own}") for own in norm.state_dict()}
    norm.load_state_dict(found, assign=True)
    return norm.requires_grad_(False)


def _norm_name(backbone: nn.Module) -> str:
    layers = backbone_layers(backbone)
    owner = next(
        name for name, module in backbone.named_modules() if any(child is layers for child in module.children())
    )
    names = [
        f"{owner}.{name}".lstrip(".")
        for name, child in backbone.get_submodule(owner).named_children()
        if "norm" in type(child).__name__.lower() and list(child.parameters())
    ]
    if not names:
        raise InputError(f"model: expected a norm beside the decoder layers of {type(backbone).__name__}, got none")
    return names[-1]


def _tensor(folder: Path, name: str) -> torch.Tensor:
    """The tensor of this name in a checkpoint, which may call the backbone by a prefix."""
    index = folder / "model.safetensors.index.json"
    files = (
        set(json.loads(index.read_text("utf-8"))["weight_map"].values()) if index.is_file() else {"model.safetensors"}
    )
    for file in sorted(files):
        if not (folder / file).is_file():
            raise InputError(f"{folder}: expected the weights {file}, got none")
        with safe_open(folder / file, framework="pt") as weights:
            for key in weights.keys():  # noqa: SIM118 (not a mapping)
                if key == name or key.endswith(f".{name}"):
                    return weights.get_tensor(key)
    raise InputError(f"{folder}: expected the weights of {name}, got none in {', '.join(sorted(files))}")
