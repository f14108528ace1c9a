"""Dumps that hold an earlier one's rollouts again: a projector must not be judged on what it was trained on."""

from __future__ import annotations

import hashlib
from pathlib import Path

from geoalign.lab.curate.reading import Dump


class Repeats:
    """Knows the dumps of one call by their prompts, responses and rewards, in their order.

    Only of formats whose writer is known to repeat itself (`Format.repeats`); whatever else is given twice stays.
    """

    def __init__(self) -> None:
        self._seen: dict[bytes, Path] = {}

    def earlier(self, dump: Dump) -> Path | None:
        """The dump of this call that held the same rollouts; None where it is the first of them."""
        if not dump.layout.format.repeats:
            return None
        found = hashlib.sha256()
        for row in dump.rows:
            for text in (row.prompt, row.response, repr(row.reward)):
                data = text.encode("utf-8", errors="surrogatepass")
                found.update(len(data).to_bytes(8, "big") + data)
        first = self._seen.setdefault(found.digest(), dump.path)
        return None if first == dump.path else first
