"""The pages of the reference, which are written from the code: `python -m tools.site.reference` writes them anew.

They are kept in docs/reference so that they can be read without building the site, and their links lead somewhere.
"""

from __future__ import annotations

from collections.abc import Callable

from tools.site import api_page, commands_page, settings_page
from tools.site.links import ROOT

FOLDER = ROOT / "docs" / "reference"
PAGES: dict[str, Callable[[], str]] = {
    "commands.md": commands_page.page,
    "settings.md": settings_page.page,
    "api.md": api_page.page,
}
AGAIN = "run: python -m tools.site.reference"


def stale() -> list[str]:
    """The pages that are not as the code has it."""
    return [name for name, page in PAGES.items() if not _is_current(name, page())]


def write() -> None:
    """Writes every page."""
    FOLDER.mkdir(exist_ok=True)
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


def _is_current(name: str, content: str) -> bool:
    file = FOLDER / name
    return file.is_file() and file.read_text(encoding="utf-8") == content


if __name__ == "__main__":
    write()
