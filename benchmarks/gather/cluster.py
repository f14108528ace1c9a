"""Many processes on one machine that measure the same jobs together."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from typing import Any

from benchmarks.gather.network import Switch, address
from benchmarks.gather.worker import Jobs, Place, Seen, work
from geoalign.errors import GeoAlignError

# Processes are forked from one that has imported everything, so that they share what they import.
_CONTEXT = get_context("forkserver")
_PORT = 29500


@dataclass(frozen=True)
class Together:
    """What all processes saw: seconds until they had found each other, and for each job one `Seen` per process."""

    joined: float
    jobs: list[list[Seen]]


def measure_together(jobs: Jobs, *, processes: int, repeats: int, switch: Switch | None) -> Together:
    """Starts the processes, connects them, measures the jobs in order and ends the processes.

    Raises:
        GeoAlignError: a process failed or died; the message says which and why.
    """
    _CONTEXT.set_forkserver_preload(["benchmarks.gather.worker"])
    # No name server knows the simulated addresses; torch says so for every one of them.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    host, port = ("127.0.0.1", _free_port()) if switch is None else (address(0), _PORT)
    megabits = None if switch is None else switch.megabits
    links: list[Connection] = []
    started: list[ForkServerProcess] = []
    try:
        for rank in range(processes):
            mine, theirs = _CONTEXT.Pipe()
            process = _CONTEXT.Process(
                target=work, args=(theirs, Place(rank, processes, host, port, megabits), jobs, repeats), daemon=True
            )
            process.start()
            theirs.close()
            links.append(mine)
            started.append(process)
        if switch is not None:
            _connect(switch, links)
        answers = _answers(links)
        return Together(
            joined=max(joined for joined, _ in answers),
            jobs=[[found[job] for _, found in answers] for job in range(len(jobs))],
        )
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.join()
        for link in links:
            link.close()
        if switch is not None:
            switch.disconnect_all()


def _connect(switch: Switch, links: list[Connection]) -> None:
    for rank, link in enumerate(links):
        process = _received(rank, link)
        if not isinstance(process, int):
            raise GeoAlignError(f"process {rank}: {process[1]}")
        switch.connect(process)
    for link in links:
        link.send("connected")


def _answers(links: list[Connection]) -> list[tuple[float, list[Seen]]]:
    """Each process's answer in order of rank; the first failure ends the waiting."""
    answers: dict[int, tuple[float, list[Seen]]] = {}
    waiting = {id(link): rank for rank, link in enumerate(links)}
    while waiting:
        for ready in wait([links[rank] for rank in waiting.values()]):
            rank = waiting.pop(id(ready))
            kind, *rest = _received(rank, links[rank])
            if kind == "failed":
                raise GeoAlignError(f"process {rank}: {rest[0]}")
            answers[rank] = (rest[0], rest[1])
    return [answers[rank] for rank in range(len(links))]


def _received(rank: int, link: Connection) -> Any:
    try:
        return link.recv()
    except EOFError as error:
        raise GeoAlignError(f"process {rank}: expected an answer, got none (it died; out of memory?)") from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
