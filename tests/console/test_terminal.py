"""What reaches the terminal: text of others is made harmless in one place."""

import io
import logging
import re
import sys
import warnings
from typing import Any

import pytest
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from geoalign.console.terminal import Console, harmless_messages, say, say_lines

HOSTILE = "a\x1b[2J\x1b]0;title\x07b\x9b31m\u202ec\x00\ud800"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def printed(renderable: object, **options: object) -> str:
    file = io.StringIO()
    Console(file=file, width=200, **options).print(renderable)
    return file.getvalue()


def table() -> Table:
    made = Table(title=HOSTILE, caption=HOSTILE)
    made.add_column(HOSTILE)
    made.add_row(HOSTILE)
    return made


@pytest.mark.parametrize(
    "renderable",
    [HOSTILE, Text(HOSTILE), Text(HOSTILE, style="red"), table(), Panel(HOSTILE, title=Text(HOSTILE)), Group(HOSTILE)],
    ids=["string", "text", "styled", "table", "panel", "group"],
)
@pytest.mark.parametrize("options", [{}, {"force_terminal": True, "color_system": "truecolor"}], ids=["file", "screen"])
def test_no_control_character_of_the_text_is_written(renderable: object, options: dict[str, object]) -> None:
    found = _COLOURS.sub("", printed(renderable, **options))
    assert all(char.isprintable() or char == "\n" for char in found)
    assert "<U+001B>[2J" in found.replace("\n", "")


def test_text_stays_as_it_is() -> None:
    text = "[red]no markup[/red] :smile: 你好 – ünï “quotes”\u00a0kept"
    assert printed(text) == text + "\n"
    # A closing tag that closes nothing is an error of rich's markup.
    assert printed("[/nowhere]/a") == "[/nowhere]/a\n"


def test_boxes_and_colours_stay() -> None:
    assert "┏" in printed(table())
    assert "\x1b[1;31mred" in printed(Text("red", style="bold red"), force_terminal=True, color_system="standard")


def test_an_encoding_that_lacks_characters() -> None:
    file = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Console(file=file, width=80).print("ä", Text("ö"))
    file.seek(0)
    assert file.read() == "<U+00E4> <U+00F6>\n"


def test_one_line_stays_one_line() -> None:
    file = io.StringIO()
    say(Console(file=file, width=20), "x" * 50 + "\ny")
    say_lines(Console(file=file, width=20), "y" * 50 + "\n\x1bz\n")
    assert file.getvalue() == "x" * 50 + "<U+000A>y\n" + "y" * 50 + "\n<U+001B>z\n"


def test_warnings_and_log_lines_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("somebody.else")
    handler = logging.StreamHandler()
    log.addHandler(handler)
    try:
        with harmless_messages():
            # What Python writes of a warning; pytest keeps warnings to itself.
            sys.stderr.write(warnings.formatwarning("\x1b[2J", UserWarning, "file", 1))
            try:
                raise ValueError("\x1b[3J")
            except ValueError:
                log.exception("%s", "\x1b[4J")
    finally:
        log.removeHandler(handler)
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert said.count("<U+001B>[") == 3


def test_log_formats_of_others_stay_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """As vLLM's: its format has a field that its record factory writes, which wraps the one that it finds."""
    log, handler, found = logging.getLogger("an.engine"), logging.StreamHandler(), logging.getLogRecordFactory()
    handler.setFormatter(logging.Formatter("%(process_of_engine)s %(message)s"))

    def factory(*args: Any, **options: Any) -> logging.LogRecord:
        record = inner(*args, **options)
        record.process_of_engine = "core"
        return record

    log.addHandler(handler)
    try:
        with harmless_messages():
            inner = logging.getLogRecordFactory()
            logging.setLogRecordFactory(factory)
            log.warning("loads \x1b")
        log.warning("ends")
    finally:
        logging.setLogRecordFactory(found)
        log.removeHandler(handler)
    assert capsys.readouterr().err == "core loads <U+001B>\ncore ends\n"
