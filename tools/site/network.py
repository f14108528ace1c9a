"""What a built page would fetch from a network: nothing is allowed to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_ADDRESS = r"[\"']?(?:https?:)?//[^\"'\s)>]+"
_FETCHED = (
    # Scripts, pictures, frames, films.
    re.compile(rf"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc(?:set)?=({_ADDRESS})"),
    re.compile(
        rf"<link\b(?=[^>]*\brel=\"?(?:stylesheet|preconnect|preload|icon|dns-prefetch))[^>]*\bhref=({_ADDRESS})"
    ),
    # Styles: fonts and pictures in them, and other styles.
    re.compile(rf"\burl\(({_ADDRESS})"),
    re.compile(rf"@import\s+({_ADDRESS})"),
)


def addresses_fetched(text: str) -> list[str]:
    """The addresses that a browser fetches to show a page or use a style; links that a reader may follow are none."""
    return [found.strip("\"'") for pattern in _FETCHED for found in pattern.findall(text)]


def files_that_fetch(site: Path) -> Iterator[tuple[str, str]]:
    """Each file of a built site that fetches something, and what."""
    for file in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        for address in addresses_fetched(file.read_text(encoding="utf-8")):
            yield file.relative_to(site).as_posix(), address
