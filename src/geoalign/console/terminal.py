"""The only way to the terminal: names, texts and errors of others cannot steer it, whatever they hold."""

from __future__ import annotations

import logging
import textwrap
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import rich.console
from rich.cells import cell_len
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from geoalign.text import DASH, LONGEST, one_line, printable

# Characters of a text of several lines that a terminal may act on.
_LAYOUT = "\n\t"


class Console(rich.console.Console):
    """rich's console, on which text is text: no markup, no emoji codes, and nothing that a terminal would act on.

    Colours, tables and progress bars are rich's own. Whatever is printed is made harmless piece by piece before it is
    written; line feeds and tabs stay.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"markup": False, "emoji": False, **options})

    def render(
        self, renderable: rich.console.RenderableType, options: rich.console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            # Control segments move the cursor for live displays; only rich makes them.
            if segment.control:
                yield segment
            else:
                yield Segment(printable(segment.text, self.encoding, kept=_LAYOUT), segment.style)


def say(console: rich.console.Console, text: object, style: str = "") -> None:
    """Prints a text as one line, whatever it holds: not wrapped, numbers and paths not coloured."""
    console.print(Text(printable(str(text), console.encoding), style=style), soft_wrap=True)


def say_lines(console: rich.console.Console, text: str, style: str = "") -> None:
    """Prints a text of several lines, such as a traceback, otherwise as `say`."""
    harmless = printable(text.rstrip("\n"), console.encoding, kept=_LAYOUT)
    console.print(Text(harmless, style=style), soft_wrap=True)


def say_paragraph(console: rich.console.Console, text: object, style: str = "", bullet: str = "") -> None:
    """Prints a text wrapped between words to the width of the terminal; a longer word stays whole on its own line.

    Lines after the first are indented by the width of the bullet.
    """
    lines = textwrap.wrap(
        printable(str(text), console.encoding),
        width=console.width,
        initial_indent=bullet,
        subsequent_indent=" " * len(bullet),
        break_long_words=False,
        break_on_hyphens=False,
    )
    for line in lines:
        console.print(Text(line, style=style), soft_wrap=True)


def print_rows(
    console: rich.console.Console, title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], names: int = 1
) -> None:
    """Prints a table in which no cell is broken; where it is wider than the terminal, each row as lines of its own.

    The first columns (`names` many) hold names, the others numbers. A column with dashes and empty cells alone is left
    out. Heads are broken between words where that is needed to fit.
    """
    filled = [at for at in range(len(heads)) if at == 0 or any(row[at] not in ("", DASH) for row in rows)]
    heads = [heads[at] for at in filled]
    names = sum(at < names for at in filled)
    rows = [[printable(one_line(row[at], LONGEST), console.encoding) for at in filled] for row in rows]
    say_paragraph(console, title, style="italic")
    widths = _column_widths(heads, rows, console.width)
    if widths is None:
        _print_row_by_row(console, heads, rows, names)
        return
    table = Table()
    for at, head in enumerate(heads):
        table.add_column(Text(head), justify="left" if at < names else "right", width=widths[at])
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def _column_widths(heads: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> list[int] | None:
    """The width of each column, its head on one line if there is room for that; None where the table does not fit."""
    full = []
    least = []
    for at, head in enumerate(heads):
        cells = max((cell_len(row[at]) for row in rows), default=0)
        longest_word = max(map(cell_len, head.split()), default=0)
        full.append(max(cells, cell_len(head)))
        least.append(max(cells, longest_word))
    # Each column has a line and two spaces beside its cells, and the table a last line.
    frame = 3 * len(heads) + 1
    for widths in (full, least):
        if sum(widths) + frame <= room:
            return widths
    return None


def _print_row_by_row(
    console: rich.console.Console, heads: Sequence[str], rows: Sequence[Sequence[str]], names: int
) -> None:
    """Prints each row as its names, and below them a line for every number."""
    longest = max(map(cell_len, heads[names:]), default=0)
    for row in rows:
        say(console, ", ".join(name for name in row[:names] if name), style="bold")
        for head, cell in zip(heads[names:], row[names:], strict=True):
            if cell not in ("", DASH):
                say(console, f"  {head:<{longest}}  {cell}")


@contextmanager
def harmless_messages() -> Iterator[None]:
    """Makes warnings and log lines, this package's and those of all others, harmless while it lasts."""
    written = warnings.formatwarning
    factory = logging.getLogRecordFactory()
    warnings.formatwarning = lambda *said, **more: printable(written(*said, **more), kept=_LAYOUT)
    logging.setLogRecordFactory(_HarmlessRecord)
    try:
        yield
    finally:
        warnings.formatwarning = written
        # vLLM wraps the factory in one of its own, which its log format needs to the end of the process.
        if logging.getLogRecordFactory() is _HarmlessRecord:
            logging.setLogRecordFactory(factory)


class _HarmlessRecord(logging.LogRecord):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.exc_info and self.exc_info[0] is not None:
            # A formatter takes the text that is there already.
            lines = "".join(traceback.format_exception(*self.exc_info))
            self.exc_text = printable(lines.rstrip("\n"), kept=_LAYOUT)

    def getMessage(self) -> str:  # noqa: N802 - logging's name
        return printable(super().getMessage(), kept=_LAYOUT)


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
    """A progress bar that vanishes at its end; yields rich's `update` for it. Without a terminal nothing is drawn."""
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        yield partial(progress.update, progress.add_task(title, total=total))
