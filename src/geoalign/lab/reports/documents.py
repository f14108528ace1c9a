"""What every page is made of: its policy, its styles and scripts, its pictures, files written in one piece."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from geoalign.errors import InputError, RunFolderError
from geoalign.lab.reports.figures.style import DARK, LIGHT, Panel, recoloured, render
from geoalign.lab.store.files import beside
from geoalign.shown import brief

TEMPLATES = Path(__file__).parent / "templates"


@dataclass(frozen=True)
class Inline:
    """The content of one <style> or <script> element, and the source expression by which a policy allows just it."""

    text: Markup
    source: str


def inline(text: str) -> Inline:
    """Marks text of our own as the content of a <style> or <script>; its hash is over what the browser will read.

    Raises:
        InputError: the text would end its element early, or start a comment in it.
    """
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
    """Makes a folder unless it is there.

    Raises:
        RunFolderError: something else has its name, or it cannot be made.
    """
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"{folder}: expected a folder to write figures to, got {brief(error)}") from error


def write(path: Path, content: bytes) -> None:
    """Replaces a file in one piece, so that a reader never sees half of one.

    Raises:
        RunFolderError: it cannot be written; the message names it.
    """
    temporary = beside(path)
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        raise RunFolderError(f"{path}: expected a file that can be written, got {brief(error)}") from error
