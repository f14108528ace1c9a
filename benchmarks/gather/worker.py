"""One process that stands for a node: holds its share of the states and takes part in every gather."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch
import torch.distributed as dist
from accelerate.state import PartialState
from accelerate.utils import gather
from torch import Tensor

from benchmarks.gather.network import interface, leave_network, plug_in, traffic
from geoalign.adapters.trl.distributed import curation_from_rank_0, gather_to_rank_0
from geoalign.curators.base import identity
from geoalign.errors import GeoAlignError
from geoalign.lab.bench.curation import Shape
from geoalign.lab.bench.memory import peak_bytes, reset_peak
from geoalign.types import Rollouts


@dataclass(frozen=True)
class Place:
    """Which of how many processes this is, where process 0 listens, and the speed of its cable, if it has one."""

    rank: int
    processes: int
    host: str
    port: int
    megabits: int | None


@dataclass(frozen=True)
class Seen:
    """What one process saw of one part: seconds of each call, bytes of a call through its cable, peak extra bytes."""

    seconds: tuple[float, ...]
    received: float
    sent: float
    extra_bytes: float


Jobs = Sequence[tuple[Shape, str]]


def work(link: Connection, place: Place, jobs: Jobs, repeats: int) -> None:
    """Joins the others, measures every job and sends `("done", seconds to join, list of Seen)` through the link.

    A failure is sent as `("failed", text)`. With a cable it first sends its process id and waits until it is connected.
    """
    try:
        torch.set_num_threads(1)
        if place.megabits is not None:
            leave_network()
            link.send(os.getpid())
            link.recv()
            plug_in(place.rank, place.processes, place.megabits)
        started = time.perf_counter()
        state = _join(place)
        joined = time.perf_counter() - started
        found = [_measure(shape, part, place, state, repeats) for shape, part in jobs]
        dist.destroy_process_group()
    except Exception as error:  # told to the process that started this one, which raises it
        link.send(("failed", f"{type(error).__name__}: {error}"))
        return
    link.send(("done", joined, found))


def _join(place: Place) -> PartialState:
    own_network = place.megabits is not None
    os.environ.update(
        MASTER_ADDR=place.host,
        MASTER_PORT=str(place.port),
        WORLD_SIZE=str(place.processes),
        RANK=str(place.rank),
        LOCAL_RANK=str(place.rank),
        LOCAL_WORLD_SIZE=str(place.processes),
        OMP_NUM_THREADS="1",
        GLOO_SOCKET_IFNAME=interface(own_network),
    )
    state = PartialState(cpu=True)
    dist.barrier()
    return state


def _measure(shape: Shape, part: str, place: Place, state: PartialState, repeats: int) -> Seen:
    rows = shape.groups * shape.size
    share = torch.full((rows // place.processes, shape.d), 1.0)
    share[:, 0] = torch.arange(place.rank * len(share), (place.rank + 1) * len(share))
    calls: dict[str, Callable[[], Tensor | None]] = {
        "to all": lambda: _to_all(share),
        "to one": lambda: gather_to_rank_0(share, state),
        "back": lambda: _back(rows, state),
    }
    call, own_network = calls[part], place.megabits is not None
    seconds = []
    reset_peak()
    held, before = peak_bytes(), traffic(own_network)
    for _ in range(repeats):
        dist.barrier()
        started = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - started)
        _check(result, rows)
        del result
    extra = peak_bytes() - held
    dist.barrier()
    received, sent = ((later - earlier) / repeats for later, earlier in zip(traffic(own_network), before, strict=True))
    return Seen(tuple(seconds), received, sent, extra)


def _to_all(share: Tensor) -> Tensor:
    """`accelerator.gather`, which is this function: every process receives every state. To compare."""
    gathered = gather(share)
    assert isinstance(gathered, Tensor)
    return gathered


def _back(rows: int, state: PartialState) -> Tensor:
    """The TRL adapter's way back: a curation of all rows, decided on process 0, broadcast to the others."""
    rollouts = Rollouts(rewards=torch.arange(float(rows)), groups=torch.zeros(rows, dtype=torch.int64))
    curation = curation_from_rank_0(
        lambda: identity(rollouts), rows=rows, device=torch.device("cpu"), accelerator=state
    )
    return curation.rewards[:, None]


def _check(result: Tensor | None, rows: int) -> None:
    """Every row must have come to its place: its first number is its own number, exact in float32 below 2^24."""
    if result is not None and not torch.equal(result[:, 0], torch.arange(float(rows))):
        raise GeoAlignError(f"gather: expected {rows} rows in order, got others")
