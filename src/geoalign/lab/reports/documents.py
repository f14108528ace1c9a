"""What every page is made of: its template, policy, styles and scripts, its sections and pictures, whole files."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from geoalign.errors import InputError, RunFolderError
from geoalign.lab.analysis.statistics import PairedDifference, spread
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
    return inline("\n" + "".join((TEMPLATES / name).read_text(encoding="utf-8") for name in names))


def policy(sheet: Inline, scripts: Sequence[Inline] = ()) -> str:
    """The Content-Security-Policy of a page: its own styles and scripts by hash, pictures inside it, nothing else."""
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
    written = (number, percent, points, short, signed, probability, megabytes, inert, spread, gain)
    templates.filters.update({write.__name__: write for write in written})
    templates.filters.update(
        interval=partial(ends, write=partial(decimals, digits=3)),
        span=partial(ends, write=percent),
        ends=ends,
        signed_ends=partial(ends, write=signed),
    )
    templates.globals.update(stylesheet=stylesheet, policy=policy)
    return templates


def gain(found: PairedDifference) -> str:
    """What the own score has above the pair count, in words, by the interval of their difference in AUROC."""
    if not found.defined:
        return "Too few steps to tell the score from the pair count alone"
    if not found.excludes_zero:
        return "The score and the pair count alone cannot be told apart: no sign that the hidden states add anything"
    if found.interval.low > 0:
        return "The score ranks the flips better than the pair count alone: the hidden states add something"
    return "The pair count alone ranks the flips better than the score: here the hidden states take away"


@dataclass(frozen=True)
class Count:
    """A number in a card: how much, as a share of what (NaN: of nothing), and what it means."""

    name: str
    value: float
    share: float
    note: str


def first_middle_last(items: Sequence[Item]) -> list[Item]:
    """The first, middle and last item, each once: fewer than three where there are fewer."""
    return [items[index] for index in sorted({0, (len(items) - 1) // 2, len(items) - 1})] if items else []


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
        make_folder(folder)
        self.folder = folder
        self.names: set[str] = set()

    def section(self, name: str, title: str, drawn: Iterable[Drawn]) -> Section:
        found = list(drawn)
        pictures = tuple(self._picture(panel) for panel in found if isinstance(panel, Panel))
        return Section(name, title, pictures, tuple(reason for reason in found if isinstance(reason, str)))

    def _picture(self, panel: Panel) -> Picture:
        light = render(panel, LIGHT)
        dark = recoloured(light, LIGHT, DARK)
        write(self.folder / f"{panel.name}.svg", light)
        self.names.add(f"{panel.name}.svg")
        return Picture(panel.name, panel.alt, panel.caption, _address(light), _address(dark))

    def remove_outdated(self, pattern: str) -> None:
        """Removes pictures of single steps that an earlier report of a shorter run chose and this one does not."""
        for path in self.folder.glob(pattern):
            if path.name not in self.names:
                path.unlink()


def _address(svg: bytes) -> str:
    # As an image a drawing can run no script and load nothing, whatever it holds.
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


def write_page(path: Path, template: str, **values: Any) -> Path:
    """Fills the template and writes the page; half a pair of surrogates becomes a question mark."""
    page = environment().get_template(template).render(values)
    write(path, page.encode("utf-8", errors="replace"))
    return path


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
