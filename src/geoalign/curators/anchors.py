"""Trusted rollouts beside a batch: rows whose reward is known to be true, which no loss ever sees."""

from __future__ import annotations

from geoalign.curators.base import Curator
from geoalign.errors import ConfigError


def check_reads_trusted(curator: Curator, *, setting: str) -> None:
    """Raises ConfigError unless the curator reads which rows are trusted; `setting` asks for it."""
    if "trusted" not in curator.reads:
        raise ConfigError(
            f"{setting}: expected a curator that reads trusted rewards, such as denoise; got {type(curator).__name__}, "
            "which does not"
        )
