"""The hidden states of a model that someone else calls: forward hooks on its backbone and its decoder layers."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, cast

import torch
from torch import Tensor, nn

from geoalign.errors import InputError
from geoalign.hidden.layers import backbone_layers, wanted_layers
from geoalign.settings.hidden import LAST, HiddenLayer


def backbone_of(model: nn.Module) -> nn.Module:
    """The transformer without its language-model head, seen through torch.compile, DDP and PEFT.

    Raises:
        InputError: the model names no backbone (`base_model_prefix`), as Hugging Face's models with a head do.
    """
    inner = unwrap(model)
    backbone = getattr(inner, getattr(inner, "base_model_prefix", "") or "", None)
    if not isinstance(backbone, nn.Module):
        raise InputError(
            f"model: expected a Hugging Face model with a language-model head and a `base_model_prefix`, "
            f"got {type(inner).__name__}"
        )
    return backbone


def unwrap(model: nn.Module) -> nn.Module:
    """The Hugging Face model inside torch.compile, DDP (or DeepSpeed) and PEFT wrappers."""
    while True:
        wrapped = getattr(model, "_orig_mod", None) or getattr(model, "module", None)
        if isinstance(wrapped, nn.Module):
            model = wrapped
        elif hasattr(model, "get_base_model"):
            model = cast(Any, model).get_base_model()
        else:
            return model


class BackboneTap:
    """Records the hidden states of the backbone of `model` while the `with` block runs, one tensor per forward pass.

    `states` holds one tensor per pass: `select(states [b, t, d], rows seen before)`, or the states themselves,
    detached. Those after the last layer are what the backbone returns, after its final norm; those of other layers come
    from hooks on the decoder layers and are not normalised. Several layers stand side by side in the last dimension, in
    the order given: equal widths, as `denoise` reads its setting `states`. Selecting at once spares the memory of all
    tokens of all rows, layer by layer.

    Raises:
        InputError: no such layer, a model whose decoder layers cannot be found, a layer of which a pass shows no state,
            or `states` where no pass called the hooks (a compiled model may not).
    """

    def __init__(
        self, model: nn.Module, select: Callable[[Tensor, int], Tensor] | None = None, *, layer: HiddenLayer = LAST
    ) -> None:
        self._backbone = backbone_of(model)
        self._select = select
        self._layers = wanted_layers(self._backbone, layer)
        self._rows = 0
        self._handles: list[Any] = []
        self._found: dict[int | None, Tensor] = {}
        self._states: list[Tensor] = []

    def __enter__(self) -> BackboneTap:
        self._handles = [self._backbone.register_forward_hook(self._record)]
        for number in self._layers:
            if number is not None:
                self._handles.append(self._listen(number))
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for handle in self._handles:
            handle.remove()

    @property
    def states(self) -> list[Tensor]:
        """What was recorded, pass by pass."""
        if not self._states:
            kind = type(self._backbone).__name__
            raise InputError(f"model: expected passes that call the hooks of {kind}, got none (compiled, it may not)")
        return self._states

    def _listen(self, number: int) -> Any:
        """A hook for the state after a decoder layer; for number 0 before the first."""
        layers = backbone_layers(self._backbone)
        if number == 0:

            def before(module: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> None:
                self._keep(0, arguments[0] if arguments else keywords["hidden_states"])

            return layers[0].register_forward_pre_hook(before, with_kwargs=True)

        def after(module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
            self._keep(number, output[0] if isinstance(output, tuple) else output)

        return layers[number - 1].register_forward_hook(after)

    def _keep(self, number: int | None, states: Tensor) -> None:
        states = states.detach()
        self._found[number] = states if self._select is None else self._select(states, self._rows)

    def _record(self, module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        # A tuple, or one of transformers' output classes.
        last = output[0] if isinstance(output, tuple) else output.last_hidden_state
        if None in self._layers:
            self._keep(None, last)
        missing = [number for number in self._layers if number not in self._found]
        if missing:
            raise InputError(f"hidden_layer: expected a state after layer {missing[0]} in every pass, got none")
        pieces = [self._found[number] for number in self._layers]
        self._states.append(pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=-1))
        self._found = {}
        self._rows += len(last)
