"""Which hidden state stands for a response: where in the response, and after which layers. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator

from geoalign.errors import InputError

HiddenPosition = Literal["predicting", "final", "mean", "answer_start"]
"""Where in a response its state is read: "predicting", "final", "mean" or "answer_start", as `response_states` says."""

HIDDEN_POSITIONS: tuple[HiddenPosition, ...] = get_args(HiddenPosition)
"""Every `HiddenPosition`."""

HiddenLayer = int | float | Sequence[int | float]
"""A layer's number as Hugging Face's `output_hidden_states` counts, a share of the depth, or several of either."""

# The share of the depth that is the last layer: its state is that after the final norm.
LAST = 1.0


def is_last_layer(layer: HiddenLayer) -> bool:
    """Whether the last layer of any model is meant: the share 1.0, which needs no depth."""
    return isinstance(layer, float) and layer == LAST


def check_position(position: str) -> None:
    """Raises InputError unless `position` is one of HIDDEN_POSITIONS."""
    if position not in HIDDEN_POSITIONS:
        raise InputError(f"hidden_position: expected one of {', '.join(HIDDEN_POSITIONS)}; got {position!r}")


_EXPECTED = "expected a layer's number from 0 or a share of the depth in (0, 1], or a list of these"


def check_layer(layer: Any) -> None:
    """Raises InputError unless `layer` could be one or several layers of some model."""
    if not _is_layer_or_several(layer):
        raise InputError(f"hidden_layer: {_EXPECTED}, got {layer!r}")


def _is_layer_or_several(layer: Any) -> bool:
    if isinstance(layer, (list, tuple)):
        return len(layer) > 0 and all(map(_is_layer, layer))
    return _is_layer(layer)


def _is_layer(layer: Any) -> bool:
    if isinstance(layer, float):
        return 0 < layer <= 1
    return isinstance(layer, int) and not isinstance(layer, bool) and layer >= 0


def layer_numbers(layer: HiddenLayer, depth: int) -> tuple[int, ...]:
    """The layers' numbers in a model of `depth` layers, in the order given: 0 the embeddings, `depth` the last.

    A share s of the depth is the layer round(s x depth), at least 1: so 1 is the first layer and 1.0 the last.
    """
    check_layer(layer)
    numbers = []
    for one in as_list(layer):
        number = max(1, round(one * depth)) if isinstance(one, float) else one
        if number > depth:
            raise InputError(f"hidden_layer: expected at most {depth}, the model's depth, got {one}")
        if number in numbers:
            raise InputError(f"hidden_layer: expected different layers, got layer {number} twice in {layer!r}")
        numbers.append(number)
    return tuple(numbers)


def as_list(layer: HiddenLayer) -> list[int | float]:
    return [layer] if isinstance(layer, (int, float)) else list(layer)


def _checked(layer: Any) -> Any:
    if not _is_layer_or_several(layer):
        raise ValueError(_EXPECTED)
    return layer


# The same as a setting.
HiddenLayerSetting = Annotated[int | float | list[int | float], BeforeValidator(_checked)]
