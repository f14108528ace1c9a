"""What goes between processes: rows to rank 0, the curation back from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from accelerate.utils import broadcast, gather_object
from jaxtyping import Float
from torch import Tensor

from geoalign.errors import GeoAlignError
from geoalign.types import Curation


def gather_list(values: list[Any]) -> list[Any]:
    """The lists of all processes in order of rank, on every process."""
    return list(gather_object(values))


def gather_to_rank_0(values: Float[Tensor, "b d"], accelerator: Any) -> Float[Tensor, "n d"] | None:
    """The rows of all processes in order of rank on rank 0, and None elsewhere: no other process needs their memory.

    Every process gives equally many rows. `accelerator` may be a `PartialState`.
    """
    if accelerator.num_processes == 1:
        return values
    values = values.contiguous()
    if not accelerator.is_main_process:
        dist.gather(values)
        return None
    whole = values.new_empty(accelerator.num_processes * len(values), *values.shape[1:])
    dist.gather(values, list(whole.split(len(values))))
    return whole


def curation_from_rank_0(
    decide: Callable[[], Curation], *, rows: int, device: torch.device, accelerator: Any
) -> Curation:
    """Runs `decide` on rank 0 only and returns its curation on every process, bit for bit the same, on `device`.

    Floats are float32 everywhere, however many processes there are. Metrics and details stay on rank 0.

    Raises:
        GeoAlignError: on the other processes, where rank 0 raised (its own error is raised there).
    """
    if accelerator.num_processes == 1:
        return _to(decide(), device)
    decided: Curation | None = None
    failure: Exception | None = None
    if accelerator.is_main_process:
        try:
            decided = _to(decide(), device)
        except Exception as error:  # raised again below, once the other processes know
            failure = error
    header = torch.zeros(3, dtype=torch.int64, device=device)
    if decided is not None:
        header = torch.tensor([1, len(decided.source), decided.advantages is not None], device=device)
    ok, outputs, has_advantages = broadcast(header).tolist()
    if failure is not None:
        raise failure
    if not ok:
        raise GeoAlignError("curation failed on rank 0; its error stands in that process's output")
    shape = decided if decided is not None else _empty(outputs, rows, bool(has_advantages), device)
    return Curation(
        source=broadcast(shape.source),
        rewards=broadcast(shape.rewards),
        weights=broadcast(shape.weights),
        advantages=None if shape.advantages is None else broadcast(shape.advantages),
        scores=broadcast(shape.scores),
        anomalous=broadcast(shape.anomalous.to(torch.uint8)).to(torch.bool),
        metrics=shape.metrics,
        details=shape.details,
    )


def _to(curation: Curation, device: torch.device) -> Curation:
    def floats(values: Tensor) -> Tensor:
        return values.detach().to(device=device, dtype=torch.float32)

    return replace(
        curation,
        source=curation.source.to(device=device, dtype=torch.int64),
        rewards=floats(curation.rewards),
        weights=floats(curation.weights),
        advantages=None if curation.advantages is None else floats(curation.advantages),
        scores=floats(curation.scores),
        anomalous=curation.anomalous.to(device),
    )


def _empty(outputs: int, rows: int, has_advantages: bool, device: torch.device) -> Curation:
    """A curation of the right shapes for a broadcast to write into."""

    def zeros(count: int) -> Tensor:
        return torch.zeros(count, device=device)

    return Curation(
        source=torch.zeros(outputs, dtype=torch.int64, device=device),
        rewards=zeros(outputs),
        weights=zeros(outputs),
        advantages=zeros(outputs) if has_advantages else None,
        scores=zeros(rows),
        anomalous=torch.zeros(rows, dtype=torch.bool, device=device),
    )
