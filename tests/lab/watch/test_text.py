"""What is sent to a terminal: by hand, and hostile."""

import math

import pytest

from geoalign.lab.terminal import harmless
from geoalign.lab.watch.text import count, number, percent, span, sparkline


def test_sparkline_by_hand():
    # Seven equal steps from the lowest to the highest bar.
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    # Two values a bar: means 0.5, 2.5, 4.5, 6.5; of the range 0, 1/3, 2/3, 1, times 7: 0, 2.33, 4.67, 7.
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7], 4) == "▁▃▆█"
    assert sparkline([3, 3, 3], 8) == "▄▄▄"
    assert sparkline([], 8) == sparkline([1, 2], 0) == ""


def test_sparkline_of_more_values_than_columns_uses_all_of_them():
    assert len(sparkline(list(range(1003)), 40)) == 40
    assert sparkline([0.0] * 999 + [1.0], 10)[-1] == "█"


def test_sparkline_where_the_terminal_has_no_bars():
    assert sparkline([0, 7], 8, "ascii") == "_#"
    assert sparkline([0, 7], 8, "latin-1") == "_#"
    assert sparkline([0, 7], 8, "no-such-encoding") == "_#"


def test_sparkline_of_numbers_that_overflow():
    assert len(sparkline([1e308, 1e308, -1e308, 0.0], 2)) == 2


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain näme", "plain näme"),
        ("\x1b[2J\x07", "<U+001B>[2J<U+0007>"),
        ("a\nb\r", "a<U+000A>b<U+000D>"),
        ("\u202eabc", "<U+202E>abc"),
        ("\x9b31m", "<U+009B>31m"),
        ("\ud800", "<U+D800>"),
        ("[red]no markup[/red]", "[red]no markup[/red]"),
    ],
)
def test_text_of_others_cannot_steer_the_terminal(text, shown):
    assert harmless(text) == shown


def test_text_that_the_encoding_lacks_and_long_text():
    assert harmless("ä", "ascii") == "<U+00E4>"
    assert harmless("x" * 500, limit=10) == "x" * 10 + "..."


def test_numbers():
    assert [number(value) for value in (None, 0.0, 0.5, -1.23456, 1234.5, 1e-7, 1e300)] == [
        "-", "0", "0.5", "-1.23", "1,234", "1.00e-07", "1.00e+300",
    ]  # fmt: skip
    assert (count(1234567.0), count(1e300)) == ("1,234,567", "1.00e+300")
    assert (percent(0.125), percent(1e300)) == ("12.5%", "1.00e+300")


def test_lengths_of_time():
    assert [span(seconds) for seconds in (0.25, 12.3, 119, 600, 7500)] == [
        "0.25 s",
        "12 s",
        "119 s",
        "10 min",
        "2:05:00 h",
    ]
    assert span(1e300) == span(math.inf) == "years"
    assert span(-1) == "0 s"
