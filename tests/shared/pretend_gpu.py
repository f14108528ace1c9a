"""Tensors that compute on the CPU and behave as if they were on a GPU: what fails on a GPU alone fails here."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from geoalign.types import Rollouts

GPU = torch.device("cuda", 0)
PRETENDED = pytest.mark.skipif(torch.cuda.is_available(), reason="a real GPU")
_MOVES = ("to", "cpu", "cuda", "copy_", "type_as", "_has_compatible_shallow_copy_type")
_INDEXING = ("__getitem__", "__setitem__")


class OnGPU(Tensor):
    """A tensor that says `cuda:0`."""

    __torch_function__ = torch._C._disabled_torch_function_impl
    device = property(lambda self: GPU)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)

    def __deepcopy__(self, memo: Any) -> Tensor:
        return memo.setdefault(id(self), on_gpu(self).requires_grad_(self.requires_grad))


@contextmanager
def pretend_gpu() -> Iterator[torch.device]:
    """In the block `cuda:0` is a device: what is made there or moved there is `OnGPU`, and so is what comes of it.

    As on a GPU, tensors of two devices do not meet (but numbers of no dimension, and indices on the CPU), NumPy reads
    none, and a generator of the CPU draws none. Where torch has a GPU, it is that one.
    """
    if torch.cuda.is_available():
        yield GPU
        return
    drawn = torch.zeros(1, dtype=torch.uint8)
    overwrite = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        with (
            patch.object(torch.cuda, "get_rng_state", lambda device=None: drawn),
            patch.object(torch.cuda, "set_rng_state", lambda state, device=None: None),
            patch.object(torch.cuda, "synchronize", lambda device=None: None),
            _Pretence(),
        ):
            yield GPU
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(overwrite)


def on_gpu(value: Tensor) -> Tensor:
    """A copy of the tensor on the GPU."""
    copy = value.detach().clone()
    return copy.to(GPU) if torch.cuda.is_available() else copy.as_subclass(OnGPU)


def rollouts_on_gpu(rollouts: Rollouts, moved: str = "all") -> Rollouts:
    """The same rollouts with all of their tensors on the GPU, or with that one alone."""
    values = {item.name: getattr(rollouts, item.name) for item in fields(rollouts)}
    chosen = {name: on_gpu(value) for name, value in values.items() if isinstance(value, Tensor)}
    return replace(rollouts, **(chosen if moved == "all" else {moved: chosen[moved]}))


class _Pretence(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), dict(kwargs or {})
        given = list(_tensors((*args, *kwargs.values())))
        here = any(isinstance(value, OnGPU) for value in given)
        if not here and name not in _MOVES and kwargs.get("device") is None:
            return func(*args, **kwargs)
        if here and name in ("numpy", "__array__"):
            raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")
        _check_devices(name, given, args)
        asked, args, kwargs = _asked(name, args, kwargs)
        gpu = asked == "cuda" if asked is not None else here and name != "tensor"
        generator = kwargs.get("generator")
        if gpu and generator is not None and generator.device.type == "cpu":
            raise RuntimeError(f"{name}: expected a 'cuda' device type for generator but found 'cpu'")
        result = func(*args, **kwargs)
        if asked is not None and given and result is given[0]:
            return result if gpu == isinstance(result, OnGPU) else _placed(result.clone(), gpu)
        return tree_map(lambda value: value if any(value is one for one in given) else _placed(value, gpu), result)


def _tensors(values: Any) -> Iterator[Tensor]:
    for value in values:
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _check_devices(name: str, given: list[Tensor], args: Any) -> None:
    if name in _INDEXING and isinstance(args[0], OnGPU):
        given = [args[0], *(value for value in args[2:] if isinstance(value, Tensor))]
    gpu = any(isinstance(value, OnGPU) for value in given)
    cpu = [value for value in given if not isinstance(value, OnGPU) and value.device.type == "cpu"]
    if gpu and name not in _MOVES and any(value.dim() or name == "stack" for value in cpu):
        raise RuntimeError(f"{name}: expected all tensors to be on the same device, found cuda:0 and cpu")


def _asked(name: str, args: Any, kwargs: dict[str, Any]) -> tuple[str | None, Any, dict[str, Any]]:
    """The kind of the device that is asked for (None: none is), and the arguments with the CPU in the GPU's place."""
    asked: list[str] = [name] if name in ("cpu", "cuda") else []

    def on_cpu(value: Any) -> Any:
        if isinstance(value, Tensor):  # .to(other) takes over its device
            asked.append("cuda" if isinstance(value, OnGPU) else value.device.type)
            return value
        if isinstance(value, (str, torch.device)):
            asked.append(torch.device(value).type)
            return "cpu" if asked[-1] == "cuda" else value
        return value

    if name == "to":
        args = (args[0], *(on_cpu(value) for value in args[1:]))
    kwargs = {key: on_cpu(value) if key in ("device", "other") else value for key, value in kwargs.items()}
    return (asked[0] if asked else None), args, kwargs


def _placed(value: Any, gpu: bool) -> Any:
    if not isinstance(value, Tensor) or isinstance(value, OnGPU) == gpu:
        return value
    kind = OnGPU if gpu else Tensor
    if value.requires_grad and value.is_leaf:
        return value.detach().as_subclass(kind).requires_grad_()
    return value.as_subclass(kind)
