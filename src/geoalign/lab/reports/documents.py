"""What a page may run and load: styles and scripts stand in it and are named by their hashes, nothing else may act."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from geoalign.errors import InputError

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
