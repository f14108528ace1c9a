"""The progress bar of long work."""

from __future__ import annotations

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from geoalign.lab.terminal import Console


def stage_progress(console: Console) -> Progress:
    """The look of every bar: title, bar, count, elapsed and remaining time, a few values."""
    return Progress(
        TextColumn("{task.description:<12}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[values]}", markup=False),
        console=console,
    )
