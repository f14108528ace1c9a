"""Numbers and the texts of others, on pages and on the terminal: by hand, and hostile."""

import math
import unicodedata

from geoalign.lab.analysis.statistics import Interval
from geoalign.lab.numbers import decimals, duration, ends, estimate, percent, short, whole
from geoalign.text import DASH, escape_terminal, invisible, shows, visible


def test_what_is_invisible_is_one_rule_for_pages_and_the_terminal():
    assert [code for code in range(256) if invisible(chr(code))] == [*range(32), *range(127, 160), 0xAD]
    for character in map(chr, (*range(0x3000), 0xE000, 0xFFFF, *range(0x1F000, 0x1F800), 0xE0041)):
        hidden = unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp")
        assert invisible(character) is hidden
        if not hidden and character != DASH:
            assert shows(character, "utf-8")


def test_the_dash_is_a_hyphen_where_the_terminal_lacks_it():
    assert escape_terminal(short(None), "ascii") == "-"
    assert escape_terminal(short(None), "utf-8") == DASH


def test_numbers():
    assert [short(value) for value in (None, math.nan, 0.0, 0.5, -1.23456, 1234.5, 1234567.0, 1e-7, 1e300)] == [
        DASH, DASH, "0", "0.5", "-1.23", "1,234", "1,234,567", "1e-07", "1e+300",
    ]  # fmt: skip
    assert (whole(1234567.0), whole(1e300), whole(None)) == ("1,234,567", "1e+300", DASH)
    assert (percent(0.125), percent(1e300), percent(None)) == ("12.5%", "1e+300", DASH)
    assert (decimals(1234.567), decimals(0.5, 0), decimals(math.nan)) == ("1,234.57", "0", DASH)


def test_intervals():
    known, unknown = Interval(0.5, 0.25, 0.75), Interval(0.5, math.nan, math.nan)
    assert (ends(known), ends(known, percent), ends(unknown), ends(None)) == (
        "0.25 to 0.75", "25.0% to 75.0%", DASH, DASH,
    )  # fmt: skip
    assert (estimate(known, percent), estimate(unknown)) == ("50.0% (25.0% to 75.0%)", "0.5")
    assert estimate(Interval(math.nan, math.nan, math.nan)) == DASH


def test_lengths_of_time():
    assert [duration(seconds) for seconds in (0.25, 12.3, 119, 600, 7500)] == [
        "0.25 s",
        "12 s",
        "119 s",
        "10 min",
        "2:05:00 h",
    ]
    assert duration(1e300) == duration(math.inf) == "years"
    assert duration(-1) == "0 s"


def test_inert_by_hand():
    assert visible("a\tb\nc") == "a\tb\nc"
    assert visible("1\u202e2\u2069") == "1⟨U+202E⟩2⟨U+2069⟩"
    assert visible("\r\u2028\ue000\U000e0041") == "⟨U+000D⟩⟨U+2028⟩⟨U+E000⟩⟨U+E0041⟩"
    assert visible("\ud800") == "⟨U+D800⟩"
    assert visible("abcdef", limit=4) == "abcd … [2 more characters]"
    assert visible("אב 漢字 é") == "אב 漢字 é"
