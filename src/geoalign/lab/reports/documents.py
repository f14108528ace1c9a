"""What every page is made of: its template, policy, styles and scripts, its sections and pictures, whole files."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from geoalign.errors import InputError, RunFolderError
from geoalign.lab.analysis.statistics import Interval, spread
from geoalign.lab.reports.figures.style import DARK, LIGHT, Panel, recoloured, render
from geoalign.lab.store.files import beside
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
from geoalign.shown import brief

Item = TypeVar("Item")
# A picture, or the sentence that says why there is none.
Drawn = Panel | str

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Inline:
    """The content of one <style> or <script> element, and the source expression by which a policy allows just it."""

    text: Markup
    source: str


def inline(text: str) -> Inline:
    """Marks text of our own as the content of a <style> or <script>; its hash is over what the browser will read."""
    text = text.replace("\r\n", "\n")
    for end in ("</script", "</style", "<!--"):
        if end in text.lower():
            raise InputError(f"inline text: expected none that ends its element, got {end!r}")
    digest = base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
    return Inline(Markup(text), f"'sha256-{digest}'")


def stylesheet(*names: str) -> Inline:
    """The stylesheets of `templates/`, one after the other, as one."""
    return inline("\n" + "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in names))


def policy(sheet: Inline, scripts: Sequence[Inline] = ()) -> str:
    """The Content-Security-Policy of a page: its own styles and scripts by hash, pictures inside it, nothing else.

    Pages with scripts also forbid, where the browser knows how, to turn any string into markup or code.
    """
    rules = ["default-src 'none'", "img-src data:", f"style-src {sheet.source}"]
    if scripts:
        rules.append("script-src " + " ".join(script.source for script in scripts))
        rules.extend(["require-trusted-types-for 'script'", "trusted-types 'none'"])
    return "; ".join([*rules, "base-uri 'none'", "form-action 'none'"])


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


@dataclass(frozen=True)
class Section:
    """A heading with pictures under it, and sentences that say why others are missing."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    reasons: tuple[str, ...]


def section(name: str, title: str, pictures: Iterable[Drawn]) -> Section:
    """Sorts what was drawn from the reasons why something was not."""
    drawn = list(pictures)
    return Section(
        name=name,
        title=title,
        panels=tuple(picture for picture in drawn if isinstance(picture, Panel)),
        reasons=tuple(picture for picture in drawn if isinstance(picture, str)),
    )


def first_middle_last(items: Sequence[Item]) -> list[Item]:
    """The first, middle and last item, each once: fewer than three where there are fewer."""
    return [items[index] for index in sorted({0, (len(items) - 1) // 2, len(items) - 1})] if items else []


@dataclass(frozen=True)
class Picture:
    """A panel as the template embeds it: words, and data addresses for light and dark pages."""

    name: str
    title: str
    alt: str
    caption: str
    light: str
    dark: str


def picture(panel: Panel, folder: Path) -> Picture:
    """Draws the panel, writes it as `folder`/<name>.svg and returns it for the page."""
    light = render(panel, LIGHT)
    dark = recoloured(light, LIGHT, DARK)
    write(folder / f"{panel.name}.svg", light)
    return Picture(panel.name, panel.title, panel.alt, panel.caption, _address(light), _address(dark))


def _address(svg: bytes) -> str:
    # As an image a drawing can run no script and load nothing, whatever it holds.
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


def make_folder(folder: Path) -> None:
    """Makes a folder unless it is there."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"{folder}: expected a folder to write figures to, got {brief(error)}") from error


def write(path: Path, content: bytes) -> None:
    """Replaces a file in one piece, so that a reader never sees half of one."""
    temporary = beside(path)
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        raise RunFolderError(f"{path}: expected a file that can be written, got {brief(error)}") from error
