"""Numbers and the texts of others, on pages and on the terminal: by hand, and hostile."""

import math

import pytest

from geoalign.console.numbers import (
    decimals,
    duration,
    ends,
    estimate,
    megabytes,
    number,
    percent,
    points,
    share,
    short,
    signed,
    whole,
    whole_percent,
)
from geoalign.statistics import Interval
from geoalign.text import DASH, printable


def test_the_dash_is_a_hyphen_where_the_terminal_lacks_it():
    assert printable(short(None), "ascii") == "-"
    assert printable(short(None), "utf-8") == DASH


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


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (999.4, "999"),
        (999.7, "1,000"),
        (999.95, "1,000"),
        (-999.7, "-1,000"),
        (1000.4, "1,000"),
        (0.9996, "1"),
        (-0.0004, "-0.0004"),
        (-0.0, "0"),
        (1e-5, "1e-05"),
        (999_999_999_999.9, "1e+12"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
    ],
)
def test_short_numbers_at_the_edges_of_rounding(value, written):
    assert short(value) == written


def test_differences_at_the_edges_of_rounding():
    assert [signed(value) for value in (999.7, -999.7, 1234.5, 0.0, -0.0, -0.0004, math.nan, math.inf)] == [
        "+1,000",
        "-1,000",
        "+1,234",
        "0",
        "0",
        "-0.0004",
        DASH,
        "+inf",
    ]


def test_what_is_rounded_to_zero_has_no_sign():
    assert [write(-0.0004) for write in (percent, decimals, points, whole, whole_percent)] == [
        "0.0%",
        "0.00",
        "0.0 points",
        "0",
        "0%",
    ]
    assert (number(-0.0001), megabytes(-1.0), megabytes(0.0), percent(-0.0006)) == ("0.000", "0 MiB", "0 MiB", "-0.1%")
    # A whole number that nobody would count is not written in full.
    assert number(1e300) == "1e+300"


def test_shares_that_were_set():
    assert [share(value) for value in (0.4, 0.125, 0.004, 1.0, 0.0)] == ["40%", "12.5%", "0.4%", "100%", "0%"]


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0.25, "0.25 s"),
        (9.96, "10 s"),
        (12.3, "12 s"),
        (59.6, "60 s"),
        (119, "119 s"),
        (119.6, "2 min"),
        (600, "10 min"),
        (3564, "59 min"),
        (3599.7, "1:00:00 h"),
        (3600, "1:00:00 h"),
        (7500, "2:05:00 h"),
        (7199.7, "2:00:00 h"),
        (86_400, "24:00:00 h"),
        (200_000, "55:33:20 h"),
        (1e300, "years"),
        (math.inf, "years"),
        (-1, "0 s"),
        (math.nan, DASH),
        (None, DASH),
    ],
)
def test_lengths_of_time(seconds, written):
    assert duration(seconds) == written
