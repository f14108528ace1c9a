"""Products and sums that come out alike whatever the process around them has set.

torch keeps the precision of float32 products and the choice of deterministic algorithms in flags of the whole process.
A curation runs in a thread beside an engine, so it may neither rely on these flags nor set them. What it needs stands
here: float32 products that are never reduced to TF32 or bfloat16, and sums by index in a fixed order of additions.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

_REDUCED = ("tf32", "bf16")


def products_are_reduced(device: torch.device) -> bool:
    """Whether the process lets matrix products of float32 numbers on this device be computed in fewer bits."""
    if device.type not in ("cpu", "cuda"):
        return False
    backends: Any = torch.backends
    operation = backends.cuda.matmul if device.type == "cuda" else backends.mkldnn.matmul
    if hasattr(operation, "fp32_precision"):
        return operation.fp32_precision in _REDUCED
    # Before torch 2.9 there is one setting for all devices.
    return torch.get_float32_matmul_precision() != "highest"


def full_product(left: Float[Tensor, " *l"], right: Float[Tensor, " *r"]) -> Tensor:
    """left @ right; through float64 where the process lets float32 products be reduced."""
    if left.dtype == torch.float32 and products_are_reduced(left.device):
        return (left.double() @ right.double()).to(left.dtype)
    return left @ right


def full_linear(
    values: Float[Tensor, "n i"], weight: Float[Tensor, "o i"], bias: Float[Tensor, " o"] | None = None
) -> Float[Tensor, "n o"]:
    """A linear layer, values @ weight.T + bias; through float64 where the process lets float32 products be reduced."""
    if values.dtype == torch.float32 and products_are_reduced(values.device):
        wide_bias = None if bias is None else bias.double()
        return torch.nn.functional.linear(values.double(), weight.double(), wide_bias).to(values.dtype)
    return torch.nn.functional.linear(values, weight, bias)


def add_product(target: Float[Tensor, "n m"], left: Float[Tensor, "n k"], right: Float[Tensor, "k m"]) -> None:
    """Adds left @ right to `target`, in place; through float64 where float32 products may be reduced."""
    if target.dtype == torch.float32 and products_are_reduced(target.device):
        target.add_(full_product(left, right))
    else:
        target.addmm_(left, right)


def add_rows(target: Tensor, index: Int[Tensor, " n"], values: Tensor) -> Tensor:
    """Adds row i of `values` to row index_i of `target`, in place and in the same order every time.

    On an accelerator `index_add_` adds in whatever order its threads arrive; `index_put_` sorts the index first. On a
    CPU it is the other way about.
    """
    if target.device.type == "cpu":
        return target.index_add_(0, index, values)
    return target.index_put_((index,), values, accumulate=True)


class _TakenRows(torch.autograd.Function):
    """`index_select` whose gradient is summed in a fixed order."""

    @staticmethod
    def forward(context: Any, values: Tensor, index: Tensor) -> Tensor:
        context.save_for_backward(index)
        context.shape = values.shape
        return values.index_select(0, index)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (index,) = context.saved_tensors
        (gradient,) = gradients
        return add_rows(gradient.new_zeros(context.shape), index, gradient), None


def take_rows(values: Float[Tensor, "b h"], index: Int[Tensor, " p"]) -> Float[Tensor, "p h"]:
    """The rows named by an index; in a backward pass their gradients meet on the rows in a fixed order."""
    taken: Tensor = _TakenRows.apply(values, index)
    return taken
