"""Pictures inside a page and beside it, and files written in one piece."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from pathlib import Path

from geoalign.errors import RunFolderError
from geoalign.lab.reports.figures.style import DARK, LIGHT, Panel, recoloured, render
from geoalign.lab.store.files import beside
from geoalign.shown import brief


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
    # As an image a drawing can run no script and load nothing, whatever stands in it.
    return "data:image/svg+xml;base64," + base64.b64encode(svg).decode("ascii")


def make_folder(folder: Path) -> None:
    """Makes a folder unless it is there.

    Raises:
        RunFolderError: something else has its name, or it cannot be made.
    """
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise RunFolderError(f"{folder}: expected a folder to write figures to, got {brief(error, 120)}") from error


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
        raise RunFolderError(f"{path}: expected a file that can be written, got {brief(error, 120)}") from error
