"""The templates' environment: everything escaped, and numbers written as `geoalign.lab.text` writes them."""

from __future__ import annotations

import math
from functools import partial

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from geoalign.lab.analysis.statistics import Interval, spread
from geoalign.lab.reports.documents import TEMPLATES, policy, stylesheet
from geoalign.lab.text import (
    decimals,
    ends,
    inert,
    megabytes,
    number,
    percent,
    points,
    probability,
    short,
    signed,
)


def environment() -> Environment:
    """Jinja with everything escaped, unknown names refused, the filters of this module and the pages' policy."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(number=number, percent=percent, points=points, interval=interval, span=span, gain=gain)
    templates.filters.update(short=short, ends=_ends, signed=signed, probability=probability, megabytes=megabytes)
    templates.filters.update(inert=inert, spread=spread)
    templates.globals.update(stylesheet=stylesheet, policy=policy)
    return templates


def interval(value: Interval | None, digits: int = 3) -> str:
    """The two ends of an interval with as many decimals."""
    return ends(value, partial(decimals, digits=digits))


def span(value: Interval | None) -> str:
    """The two ends of an interval of a share, as percentages."""
    return ends(value, percent)


def _ends(value: Interval, sign: bool = False) -> str:
    return ends(value, signed if sign else short)


def gain(difference: Interval) -> str:
    """What GDI has above the pair count, in words, by the interval of their difference in AUROC."""
    if math.isnan(difference.low):
        return "Too few steps to tell GDI from the pair count alone"
    if difference.low > 0:
        return "GDI ranks the flips better than the pair count alone: the hidden states add something"
    if difference.high < 0:
        return "The pair count alone ranks the flips better than GDI: here the hidden states take away"
    return "GDI and the pair count alone cannot be told apart: no sign that the hidden states add anything"
