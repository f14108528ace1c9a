"""The folder that a curation writes: all of it beside its place first, then moved there, the summary last."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from geoalign.errors import ConfigError
from geoalign.lab.store.files import sync_folder, sync_tree
from geoalign.lab.store.inspection_tables import DENSITIES_FILE, PAIRS_FILE, REPORT_FILE, SCORES_FILE, SUMMARY_FILE

CURATED, STATES = "curated", "states"
# In the order in which they appear; with the summary the folder is complete.
_FIGURES, _PARTIAL = "figures", ".partial"
FLAGGED_FILE = "flagged.csv"
_CONTENT = (SCORES_FILE, PAIRS_FILE, DENSITIES_FILE, FLAGGED_FILE, CURATED, _FIGURES, REPORT_FILE, SUMMARY_FILE)
_KNOWN = {*_CONTENT, STATES, ".lock", _PARTIAL}


class CuratedFolder:
    """Paths of one output folder.

    Attributes:
        root: the folder.
        staging: where files are written before they are whole.
        states: the cache of computed hidden states; it outlives a stop, and a later call.
    """

    def __init__(self, root: Path) -> None:
        self.root = Path(root)
        # Under the folder's own name, which the page has as its title.
        self.staging = self.root / _PARTIAL / (self.root.resolve().name or "curated")
        self.states = self.root / STATES

    def check(self, inputs: Sequence[Path], *, overwrite: bool) -> None:
        """Raises ConfigError where something else lies there, a finished curation does, or an input would be lost."""
        if self.root.exists() and not self.root.is_dir():
            raise ConfigError(f"--output {self.root}: expected a folder, got a file")
        for path in inputs:
            if path.resolve().is_relative_to(self.root.resolve()):
                raise ConfigError(f"--output {self.root}: expected a folder without the inputs, got {path} inside it")
        found = sorted(item.name for item in self.root.iterdir()) if self.root.is_dir() else []
        others = [name for name in found if name not in _KNOWN]
        if others:
            raise ConfigError(
                f"--output {self.root}: expected a new folder or an earlier curation, got {others[0]} in it"
            )
        if SUMMARY_FILE in found and not overwrite:
            raise ConfigError(
                f"--output {self.root}: expected a new folder, got a finished curation: --overwrite replaces it"
            )

    def start(self) -> None:
        """Makes an empty folder for what is written."""
        self.discard()
        self.staging.mkdir(parents=True)

    def publish(self) -> None:
        """Brings what was written to the disk and moves it to its place; what an earlier call left there goes."""
        sync_tree(self.staging)
        # The summary goes first and comes last: with it a folder is complete, at any moment.
        for name in (SUMMARY_FILE, *_CONTENT):
            place = self.root / name
            if place.is_dir():
                shutil.rmtree(place)
            else:
                place.unlink(missing_ok=True)
        for name in _CONTENT:
            if (self.staging / name).exists():
                (self.staging / name).replace(self.root / name)
        self.discard()
        sync_folder(self.root)

    def discard(self) -> None:
        """Removes what was written so far."""
        shutil.rmtree(self.root / _PARTIAL, ignore_errors=True)
