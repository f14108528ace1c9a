"""The decoder layers of a model: which there are, and in which of its modules they are."""

from __future__ import annotations

from typing import Any

from torch import nn

from geoalign.errors import InputError
from geoalign.settings.hidden import LAST, HiddenLayer, check_layer, is_last_layer, layer_numbers


def backbone_layers(backbone: nn.Module) -> nn.ModuleList:
    """The decoder layers: the outermost list of as many modules as the text model's configuration has layers.

    Raises:
        InputError: there is no such list, or there are several (the towers of a multimodal model, for example).
    """
    depth = _depth(backbone)
    found: dict[str, nn.ModuleList] = {}
    for name, module in backbone.named_modules():
        inside = any(name.startswith(f"{outer}.") for outer in found)
        if isinstance(module, nn.ModuleList) and len(module) == depth and not inside:
            found[name] = module
    if len(found) != 1:
        raise InputError(
            f"hidden_layer: expected one list of {depth} decoder layers in {type(backbone).__name__}, got "
            f"{', '.join(found) or 'none'}; only hidden_layer: {LAST} needs none"
        )
    return next(iter(found.values()))


def wanted_layers(backbone: nn.Module, layer: HiddenLayer) -> tuple[int | None, ...]:
    """The layers' numbers in this model, in the order given; None for the last one.

    Raises:
        InputError: no such layer, or a model whose decoder layers cannot be found.
    """
    check_layer(layer)
    if is_last_layer(layer):
        return (None,)  # what a backbone returns is the last state whatever it is made of
    depth = len(backbone_layers(backbone))
    return tuple(None if number == depth else number for number in layer_numbers(layer, depth))


def _depth(backbone: nn.Module) -> int:
    config: Any = getattr(backbone, "config", None)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    depth = getattr(text, "num_hidden_layers", None)
    if not isinstance(depth, int):
        raise InputError(
            f"hidden_layer: expected a model whose configuration has num_hidden_layers, got {type(backbone).__name__}"
        )
    return depth
