"""The command of the gather benchmark: `python -m benchmarks.gather`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.gather.cluster import measure_together
from benchmarks.gather.network import Switch
from benchmarks.gather.options import Options, needed_bytes, state_bytes
from benchmarks.gather.worker import Seen
from geoalign.errors import ConfigError
from geoalign.lab.bench.curation import Shape
from geoalign.lab.bench.report import machine
from geoalign.lab.store.json_files import write_json
from geoalign.lab.terminal import Console

_ABOUT = """How long the hidden states of a batch take to the process that curates, and the curation back, with many
processes of torch.distributed (gloo) on this machine. "to one" is the TRL adapter's own call, which sends them to the
process that curates alone; "to all" is accelerate's gather, after which every process holds every state; "back" is the
curation, broadcast. With --megabits every process gets a network namespace and a cable of that speed, and bytes are
counted on the cables; without, all of them use the loopback. The processes share the cores: seconds without --megabits
are mostly copying."""

PARTS = ("to all", "to one", "back")


@dataclass(frozen=True)
class Row:
    """One part at one number of processes.

    Attributes:
        seconds: of each call, until the last process was done.
        joined: seconds until the processes had found each other; once in a training.
        received: bytes that came to process 0 in a call, frames and all; NaN without cables.
        received_elsewhere: the most that came to another process.
        sent: the most that a process sent.
        extra: peak of process 0 beyond what it held before, in bytes.
        extra_elsewhere: the most of another process.
        left_out: why it was not measured; "" where it was.
    """

    processes: int
    shape: Shape
    part: str
    seconds: tuple[float, ...] = ()
    joined: float = float("nan")
    received: float = float("nan")
    received_elsewhere: float = float("nan")
    sent: float = float("nan")
    extra: float = float("nan")
    extra_elsewhere: float = float("nan")
    left_out: str = ""

    @property
    def median(self) -> float:
        """Median of the seconds."""
        return sorted(self.seconds)[len(self.seconds) // 2] if self.seconds else float("nan")


def measure_gathers(options: Options, progress: Console | None = None) -> list[Row]:
    """Measures every part of every shape with every number of processes.

    Raises:
        UnsupportedError: no network namespaces here.
        GeoAlignError: a process failed.
    """
    if sys.platform != "linux":
        raise ConfigError(f"gather benchmark: expected Linux, got {sys.platform}")
    switch = None if options.megabits is None else Switch(options.megabits)
    rows = []
    for processes in options.processes:
        everything = [(shape, part) for shape in options.shapes for part in PARTS]
        fitting = [job for job in everything if needed_bytes(job[1], job[0], processes) <= options.gigabytes * 1e9]
        if progress is not None:
            progress.print(f"{processes} processes: {len(fitting)} of {len(everything)} parts", highlight=False)
        found = measure_together(fitting, processes=processes, repeats=options.repeats, switch=switch)
        seen = dict(zip(fitting, found.jobs, strict=True))
        for job in everything:
            rows.append(_row(processes, *job, seen.get(job), found.joined))
    return rows


def _row(processes: int, shape: Shape, part: str, seen: list[Seen] | None, joined: float) -> Row:
    if seen is None:
        needed = needed_bytes(part, shape, processes) / 1e9
        return Row(processes, shape, part, left_out=f"needs {needed:.1f} GB in all processes together")
    first, others = seen[0], seen[1:]
    return Row(
        processes,
        shape,
        part,
        seconds=tuple(max(calls) for calls in zip(*(one.seconds for one in seen), strict=True)),
        joined=joined,
        received=first.received,
        received_elsewhere=max(one.received for one in others),
        sent=max(one.sent for one in seen),
        extra=first.extra_bytes,
        extra_elsewhere=max(one.extra_bytes for one in others),
    )


def print_gathers(console: Console, options: Options, rows: Sequence[Row]) -> None:
    """A line for each part: size of the states, seconds, and megabytes.

    These are what comes in to process 0 and at most to another, what goes out of one at most, and the peak of extra
    memory of process 0 and at most of another.
    """
    network = "loopback" if options.megabits is None else f"a cable of {options.megabits} Mbit/s for each process"
    table = Table(title=f"Gathering states, {network}; MB = 10^6 bytes", title_justify="left")
    names = ("N", "batch", "MB", "part", "seconds", "in MB", "other", "out", "extra", "other")
    for name in names:
        table.add_column(name, justify="left" if name in ("batch", "part") else "right", no_wrap=name in names[:5])
    for row in rows:
        shape = f"{row.shape.groups}x{row.shape.size}x{row.shape.d}"
        start = (str(row.processes), shape, f"{state_bytes(row.shape) / 1e6:,.1f}", row.part)
        if row.left_out:
            table.add_row(*start, "-")
            continue
        traffic = (row.received, row.received_elsewhere, row.sent, row.extra, row.extra_elsewhere)
        table.add_row(*start, f"{row.median:.3f}", *(_megabytes(value) for value in traffic))
    console.print(table)
    for row in rows:
        if row.left_out:
            console.print(
                f"Left out: {row.part}, {row.shape}, {row.processes} processes: {row.left_out}", soft_wrap=True
            )
    joined = {row.processes: row.joined for row in rows if not row.left_out}
    said = ", ".join(f"{processes}: {seconds:.1f} s" for processes, seconds in joined.items())
    console.print(f"Until the processes had found each other: {said}", highlight=False)


def gathers_json(options: Options, rows: Sequence[Row]) -> dict[str, Any]:
    """Everything measured, with the machine; what was not counted is null."""
    records = [{**vars(row), "shape": vars(row.shape), "states": state_bytes(row.shape)} for row in rows]
    return {
        "schema_version": 1,
        "machine": machine(),
        "megabits": options.megabits,
        "repeats": options.repeats,
        "rows": records,
    }


def _megabytes(value: float) -> str:
    return "-" if value != value else f"{value / 1e6:,.1f}"


def options_of(arguments: Sequence[str] | None = None) -> tuple[Options, Path | None]:
    """The options of the command line, and the file to write to.

    Raises:
        ConfigError: as `Options`.
    """
    parser = argparse.ArgumentParser(description=_ABOUT)
    parser.add_argument("--shape", action="append", metavar="GROUPSxKxHIDDEN", help="a batch; may be repeated")
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 8, 16, 64], metavar="N", help="2 8 16 64")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="measured calls of each part (3)")
    parser.add_argument("--megabits", type=int, metavar="N", help="speed of every process's own cable; needs root")
    parser.add_argument(
        "--gigabytes", type=float, default=8.0, metavar="N", help="what the states of all may take together (8)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    given = vars(parser.parse_args(arguments))
    file = given.pop("json")
    shapes = tuple(Shape.parse(text) for text in given.pop("shape") or ["96x16x2048"])
    return Options(shapes=shapes, processes=tuple(given.pop("processes")), **given), file


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark as the command line says."""
    options, file = options_of(arguments)
    console = Console()
    rows = measure_gathers(options, console)
    print_gathers(console, options, rows)
    if file is not None:
        write_json(file, gathers_json(options, rows))
        console.print(f"Written to {file}", soft_wrap=True)
