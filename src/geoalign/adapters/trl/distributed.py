"""What goes between processes: rows to rank 0, the curation back from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from accelerate.utils import broadcast_object_list, gather_object
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


def curation_from_rank_0(decide: Callable[[], Curation], *, accelerator: Any) -> Curation:
    """Runs `decide` on rank 0 only and returns its curation on every process, bit for bit the same, on the device.

    Floats are float32 everywhere, however many processes there are. Metrics and details stay on rank 0. Where rank 0
    raised, so do all processes: rank 0 its own error, the others a GeoAlignError.
    """
    if accelerator.num_processes == 1:
        return _to(decide(), accelerator.device)
    decided: Curation | None = None
    failure: Exception | None = None
    if accelerator.is_main_process:
        try:
            decided = _to(decide(), accelerator.device)
        except Exception as error:  # raised again below, once the other processes know
            failure = error
    sent = None if decided is None else replace(_to(decided, torch.device("cpu")), metrics={}, details=None)
    received: Curation | None = broadcast_object_list([sent])[0]
    if failure is not None:
        raise failure
    if received is None:
        raise GeoAlignError("curation failed on rank 0; its error stands in that process's output")
    return _to(received, accelerator.device) if decided is None else decided


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
