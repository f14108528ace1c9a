"""What every page is made of: its template, policy, styles and scripts, its sections and pictures, whole files."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from geoalign.console.numbers import decimals, ends, number, percent, points, short
from geoalign.errors import InputError
from geoalign.files.durable import write_atomically
from geoalign.pages.style import DARK, LIGHT, Panel, recoloured, render
from geoalign.statistics import PairedDifference
from geoalign.text import visible

Item = TypeVar("Item")
# A picture, or the sentence that says why there is none.
Drawn = Panel | str

TEMPLATES = Path(__file__).parent / "templates"


def inline(text: str) -> Markup:
    """Text of our own as the content of a <style> or <script>, as the browser will read it."""
    text = text.replace("\r\n", "\n")
    for end in ("</script", "</style", "<!--"):
        if end in text.lower():
            raise InputError(f"inline text: expected none that ends its element, got {end!r}")
    return Markup(text)


def _source(text: str) -> str:
    """The source expression by which a policy allows just this text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def stylesheet(*names: str, own: Path = TEMPLATES) -> Markup:
    """The style sheets of these names, from the folder `own` of a page or from that of all pages."""
    files = [own / name if (own / name).is_file() else TEMPLATES / name for name in names]
    return inline("\n" + "".join(file.read_text(encoding="utf-8") for file in files))


def policy(sheet: str, scripts: Sequence[str] = ()) -> str:
    """The Content-Security-Policy of a page: its own styles and scripts by hash, pictures inside it, nothing else."""
    rules = ["default-src 'none'", "img-src data:", f"style-src {_source(sheet)}"]
    if scripts:
        rules.append("script-src " + " ".join(map(_source, scripts)))
        rules.extend(["require-trusted-types-for 'script'", "trusted-types 'none'"])
    return "; ".join([*rules, "base-uri 'none'", "form-action 'none'"])


def environment(own: Path) -> Environment:
    """Jinja with everything escaped and printable, unknown names refused, our filters and the pages' policy.

    Args:
        own: the folder of the page's own template and style sheet; what all pages share stands in `templates`.
    """
    templates = Environment(
        loader=FileSystemLoader([own, TEMPLATES]),
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    written = (number, percent, points, short, visible, gain)
    templates.filters.update({write.__name__: write for write in written})
    templates.filters.update(
        interval=partial(ends, write=partial(decimals, digits=3)),
        span=partial(ends, write=percent),
    )
    templates.globals.update(stylesheet=partial(stylesheet, own=own), policy=policy)
    return templates


def _printable(value: Any) -> Any:
    """What a template prints: of a text of others every character is visible; what is markup already stays."""
    if not isinstance(value, str) or isinstance(value, Markup) or (value.isascii() and value.isprintable()):
        return value
    return visible(value, len(value))


def gain(found: PairedDifference) -> str:
    """What the curator's score has above the number of pairs, by the interval of their difference in AUROC."""
    if not found.defined:
        return "Too few steps to tell the score from the number of pairs alone"
    if not found.excludes_zero:
        return "The score and the number of pairs alone cannot be told apart: no sign that it knows more"
    if found.interval.low > 0:
        return "The score ranks wrong rewards better than the number of pairs alone: it knows more than that"
    return "The number of pairs alone ranks wrong rewards better than the score: it knows less"


@dataclass(frozen=True)
class Count:
    """A number in a card: how much, as a share of what (NaN: of nothing), and what it means."""

    name: str
    value: float
    share: float
    note: str


def first_middle_last(items: Sequence[Item]) -> list[Item]:
    """The first, middle and last item, each once: fewer than three where there are fewer."""
    if not items:
        return []
    last = len(items) - 1
    return [items[place] for place in sorted({0, last // 2, last})]


@dataclass(frozen=True)
class Picture:
    """A panel as the template embeds it: words, and data addresses for light and dark pages."""

    name: str
    alt: str
    caption: str
    light: str
    dark: str


@dataclass(frozen=True)
class Section:
    """A heading with pictures under it, and sentences that say why others are missing."""

    name: str
    title: str
    pictures: tuple[Picture, ...]
    reasons: tuple[str, ...]


class Gallery:
    """Draws the pictures of a page, each also as `folder`/<name>.svg."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def section(self, name: str, title: str, drawn: Iterable[Drawn]) -> Section:
        found = list(drawn)
        pictures = tuple(self._picture(panel) for panel in found if isinstance(panel, Panel))
        return Section(name, title, pictures, tuple(reason for reason in found if isinstance(reason, str)))

    def _picture(self, panel: Panel) -> Picture:
        light = render(panel, LIGHT)
        write_atomically(self.folder / f"{panel.name}.svg", light)
        dark = recoloured(light, LIGHT, DARK)
        return Picture(panel.name, panel.alt, panel.caption, _address(light), _address(dark))


def _address(svg: bytes) -> str:
    """The address of a picture inside the page. As an image a drawing can run no script and load nothing."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


def write_page(path: Path, template: Path, **values: Any) -> Path:
    """Fills the template and writes the page; half a pair of surrogates becomes a question mark."""
    page = environment(template.parent).get_template(template.name).render(values)
    write_atomically(path, page.encode("utf-8", errors="replace"))
    return path
