"""The templates' environment, and how numbers are written in them."""

from __future__ import annotations

import math
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from geoalign.lab.analysis.statistics import Interval, spread
from geoalign.lab.reports.documents import TEMPLATES, policy, stylesheet
from geoalign.lab.reports.text import inert


def environment() -> Environment:
    """Jinja with everything escaped, unknown names refused, the filters of this module and the pages' policy."""
    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(number=number, percent=percent, points=points, interval=interval, span=span, gain=gain)
    found.filters.update(short=short, ends=ends, signed=signed, probability=probability, megabytes=megabytes)
    found.filters.update(inert=inert, spread=spread)
    found.globals.update(stylesheet=stylesheet, policy=policy)
    return found


def number(value: float | None, digits: int = 3) -> str:
    """A number for a table; a dash where there is none."""
    if value is None or math.isnan(value):
        return "–"
    if float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:,.{digits}f}"


def short(value: float) -> str:
    """A number with three significant digits; a dash where there is none."""
    if math.isnan(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def signed(value: float) -> str:
    """A difference with its sign and three significant digits; a dash where there is none."""
    if math.isnan(value):
        return "–"
    return "0" if value == 0 else f"{value:+.3g}"


def ends(value: Interval, sign: bool = False) -> str:
    """The two ends of an interval with three significant digits; a dash where they are undefined."""
    if math.isnan(value.low):
        return "–"
    write = signed if sign else short
    return f"{write(value.low)} to {write(value.high)}"


def probability(p: float) -> str:
    """A p-value with two significant digits; a dash where undefined."""
    if math.isnan(p):
        return "–"
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}"


def megabytes(value: float) -> str:
    """Bytes as a signed number of mebibytes; a dash where there is none."""
    return "–" if math.isnan(value) else f"{value / 2**20:+,.0f} MiB"


def percent(value: float | None) -> str:
    """A share as a percentage with one decimal; a dash where there is none."""
    return "–" if value is None or math.isnan(value) else f"{value:.1%}"


def points(value: float) -> str:
    """A difference of two shares in percentage points; a dash where there is none."""
    return "–" if math.isnan(value) else f"{100 * value:+.1f} points"


def span(value: Any) -> str:
    """The two ends of an interval of a share, as percentages; a dash where they are undefined."""
    if value is None or math.isnan(value.low) or math.isnan(value.high):
        return "–"
    return f"{value.low:.1%} to {value.high:.1%}"


def gain(difference: Interval) -> str:
    """What GDI has above the pair count, in words, by the interval of their difference in AUROC."""
    if math.isnan(difference.low):
        return "Too few steps to tell GDI from the pair count alone"
    if difference.low > 0:
        return "GDI ranks the flips better than the pair count alone: the hidden states add something"
    if difference.high < 0:
        return "The pair count alone ranks the flips better than GDI: here the hidden states take away"
    return "GDI and the pair count alone cannot be told apart: no sign that the hidden states add anything"


def interval(value: Any, digits: int = 3) -> str:
    """The two ends of an interval; a dash where they are undefined."""
    if value is None or math.isnan(value.low) or math.isnan(value.high):
        return "–"
    return f"{value.low:.{digits}f} to {value.high:.{digits}f}"
