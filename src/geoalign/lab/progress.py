"""The progress bars of long work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

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


@contextmanager
def passing_progress(console: Console, title: str, total: int) -> Iterator[Callable[..., None]]:
    """A bar that vanishes at the end, and is none where there is no terminal; gives rich's `update` for it."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield partial(progress.update, progress.add_task(title, total=total))
