"""The last hidden states of a model that someone else calls: a forward hook on its backbone."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, cast

from torch import Tensor, nn

from geoalign.errors import InputError


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
    """Records what the backbone of `model` returns while the `with` block runs, one tensor per forward pass.

    `states` holds one tensor per pass: `select(last hidden states [b, t, d], rows seen before)`, or the last hidden
    states themselves; after the final norm, detached. Selecting at once spares the memory of all tokens of all rows.
    """

    def __init__(self, model: nn.Module, select: Callable[[Tensor, int], Tensor] | None = None) -> None:
        self._backbone = backbone_of(model)
        self._select = select
        self._rows = 0
        self._handle: Any = None
        self.states: list[Tensor] = []

    def __enter__(self) -> BackboneTap:
        self._handle = self._backbone.register_forward_hook(self._record)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._handle.remove()

    def _record(self, module: nn.Module, arguments: tuple[Any, ...], output: Any) -> None:
        states = last_hidden(output).detach()
        self.states.append(states if self._select is None else self._select(states, self._rows))
        self._rows += len(states)


def last_hidden(output: Any) -> Tensor:
    """The last hidden states in what a backbone returned: a tuple or one of transformers' output classes."""
    return output[0] if isinstance(output, tuple) else output.last_hidden_state
