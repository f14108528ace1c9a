"""The command `geoalign bench`, and what it may be asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from geoalign.console.command_line import option
from geoalign.console.terminal import Console


@dataclass(frozen=True)
class BenchRequest:
    shapes: Sequence[str] = option("A shape; may be repeated.", (), "GROUPSxKxHIDDEN", option="shape")
    repeats: int = option("Calls per figure; the median is shown.", 3, "N", min=1, max=1000)
    device: str = option("cpu or cuda.", "cpu", "NAME")
    json_file: Path | None = option("Also write the figures here.", None, "FILE", option="json")


def bench_command(request: BenchRequest) -> None:
    """Measure time and memory of curation on this machine, by shape."""
    from geoalign.lab.bench.bench import bench

    bench(request, Console())
