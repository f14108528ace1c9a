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

from geoalign.text import DASH, Escapes, escape_terminal, escapes


class Console(rich.console.Console):
    """rich's console, on which text is text: no markup, no emoji codes, and nothing that a terminal would act on.

    Colours, tables and progress bars are rich's own. Every string and `Text` is made harmless before it is laid out,
    and every piece of what other renderables make before it is written; line feeds and tabs stay.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"markup": False, "emoji": False, **options})

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(text.translate(self._table), **options)

    def render(
        self, renderable: rich.console.RenderableType, options: rich.console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        if isinstance(renderable, Text):
            plain = renderable.plain.translate(self._table)
            if plain != renderable.plain:
                renderable = renderable.copy()
                renderable.plain, renderable.spans = plain, []  # styles of parts would stand elsewhere
        for segment in super().render(renderable, options):
            # Control segments move the cursor for live displays; only rich makes them.
            yield segment if segment.control else Segment(segment.text.translate(self._table), segment.style)

    @property
    def _table(self) -> Escapes:
        return escapes(self.encoding, "\n\t")


def say(console: rich.console.Console, text: object, style: str = "") -> None:
    """Prints a text as one line, whatever it holds: not wrapped, numbers and paths not coloured."""
    console.print(Text(escape_terminal(text, console.encoding, limit=None), style=style), soft_wrap=True)


def say_wrapped(console: rich.console.Console, text: str, indent: int = 0, style: str = "") -> None:
    """Prints a text broken between words, each line behind `indent` spaces."""
    harmless = Text(escape_terminal(text, console.encoding, limit=None), style=style)
    for line in harmless.wrap(console, max(console.width - indent, 1)):
        line.rstrip()
        console.print(Text(" " * indent) + line, soft_wrap=True)


def say_lines(console: rich.console.Console, text: str, style: str = "") -> None:
    """Prints a text of several lines, such as a traceback, otherwise as `say`."""
    console.print(Text(text.rstrip("\n").translate(escapes(console.encoding, "\n\t")), style=style), soft_wrap=True)


@contextmanager
def harmless_messages() -> Iterator[None]:
    """Makes warnings and log lines, this package's and those of all others, harmless while it lasts.

    What others write into their log records (vLLM the name of a process, which its format shows) stays there.
    """
    show, factory = warnings.showwarning, logging.getLogRecordFactory()

    def harmless_record(*args: Any, **options: Any) -> logging.LogRecord:
        record = factory(*args, **options)
        if type(record) is logging.LogRecord:
            record.__class__ = _HarmlessRecord
        if record.exc_info and record.exc_info[0] is not None:
            # A formatter takes the text that is there already.
            written = "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
            record.exc_text = written.translate(escapes("utf-8", "\n\t"))
        return record

    warnings.showwarning = _show_warning  # type: ignore[assignment]
    logging.setLogRecordFactory(harmless_record)
    try:
        yield
    finally:
        warnings.showwarning = show
        # One that was set meanwhile, around this one, writes what its log format needs to the end of the process.
        if logging.getLogRecordFactory() is harmless_record:
            logging.setLogRecordFactory(factory)


class _HarmlessRecord(logging.LogRecord):
    def getMessage(self) -> str:  # noqa: N802 - logging's name
        return super().getMessage().translate(escapes("utf-8", "\n\t"))


def _show_warning(*said: Any) -> None:
    """`warnings.showwarning`: message, category, file name, line number, then the file to write to."""
    console = Console(file=said[4]) if len(said) > 4 and said[4] is not None else Console(stderr=True)
    say_lines(console, warnings.formatwarning(*said[:4]))


def say_paragraph(console: rich.console.Console, text: object, style: str = "", bullet: str = "") -> None:
    """Prints a text wrapped between words to the width of the terminal; a longer word stays whole on its own line.

    Lines after the first are indented by the width of the bullet.
    """
    plain = escape_terminal(text, console.encoding, limit=None)
    lines = textwrap.wrap(
        plain,
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
    rows = [[escape_terminal(row[at], console.encoding) for at in filled] for row in rows]
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
    columns = list(zip(*rows, strict=True)) or [()] * len(heads)
    cells = [max(map(cell_len, column), default=0) for column in columns]
    words = [max(map(cell_len, head.split()), default=0) for head in heads]
    least = [max(sizes) for sizes in zip(cells, words, strict=True)]
    full = [max(sizes) for sizes in zip(cells, map(cell_len, heads), strict=True)]
    # Each column has a line and two spaces beside its cells, and the table a last line.
    frame = 3 * len(heads) + 1
    if sum(full) + frame <= room:
        return full
    return least if sum(least) + frame <= room else None


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
