"""The folder that a curation writes: all of it under temporary names first, then moved, the summary last."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow

from geoalign.errors import ConfigError
from geoalign.lab.store.files import LOCK, sync_folder, sync_tree

SCORES_FILE = "scores.parquet"
PAIRS_FILE = "pairs.parquet"
DENSITIES_FILE = "densities.parquet"
SUMMARY_FILE = "summary.json"
REPORT_FILE = "report.html"
FILTERED_FILE = "filtered.jsonl"
STATES = "states"
# In the order in which they appear; with the summary the folder is complete.
FIGURES, _PARTIAL = "figures", ".partial"
FLAGGED_FILE = "flagged.csv"
_CONTENT = (SCORES_FILE, PAIRS_FILE, DENSITIES_FILE, FLAGGED_FILE, FILTERED_FILE, FIGURES, REPORT_FILE, SUMMARY_FILE)
_KNOWN = {*_CONTENT, STATES, LOCK, _PARTIAL}


# Columns of `scores.parquet` that hold texts: absent from a redacted folder.
TEXTS = ("prompt", "response")


def _required(name: str, kind: pyarrow.DataType) -> pyarrow.Field:
    return pyarrow.field(name, kind, nullable=False)


# One row per rollout of all dumps, in the order of the input.
SCORES = pyarrow.schema(
    [
        _required("index", pyarrow.int64()),  # 0, 1, ... over everything
        _required("step", pyarrow.int64()),  # the number of the dump, or the step that the dump names
        _required("file", pyarrow.string()),
        _required("row", pyarrow.int64()),  # 0-based row in its file; of a list of responses, the prompt's row
        _required("line", pyarrow.int64()),  # 1-based line in its file, or row of a parquet file
        _required("sample", pyarrow.int64()),  # index among the responses of its prompt
        _required("id", pyarrow.string()),
        _required("group", pyarrow.int64()),
        _required("prompt", pyarrow.string()),
        _required("response", pyarrow.string()),
        pyarrow.field("answer", pyarrow.string()),
        pyarrow.field("reward", pyarrow.float64()),  # null: could not be scored
        pyarrow.field("true_reward", pyarrow.float64()),
        pyarrow.field("correct", pyarrow.bool_()),  # only where the input says so
        _required("characters", pyarrow.int64()),
        pyarrow.field("tokens", pyarrow.int64()),
        pyarrow.field("truncated", pyarrow.bool_()),
        pyarrow.field("score", pyarrow.float64()),  # null where there is none
        _required("anomalous", pyarrow.bool_()),
        _required("source", pyarrow.int64()),  # `index` of the row whose content is here afterwards; -1: left out
        _required("weight", pyarrow.float64()),
        pyarrow.field("new_reward", pyarrow.float64()),
        pyarrow.field("advantage", pyarrow.float64()),  # the curator's own; null where it gives none
        pyarrow.field("final_answer", pyarrow.string()),  # the answer that the response gives
        pyarrow.field("probability_wrong", pyarrow.float64()),  # of the reward; null where none is estimated
        pyarrow.field("denoised_reward", pyarrow.float64()),  # likewise
        pyarrow.field("trusted", pyarrow.bool_()),  # whether a person's label is the reward
        _required("group_size", pyarrow.int64()),
        pyarrow.field("group_mean", pyarrow.float64()),
        pyarrow.field("group_std", pyarrow.float64()),
        _required("group_pairs", pyarrow.int64()),
        _required("group_flagged", pyarrow.int64()),
    ]
)

# The pairs of the groups with a flagged rollout, and of others up to a number per step that `summary.json` states.
PAIRS = pyarrow.schema(
    [
        _required("step", pyarrow.int64()),
        _required("group", pyarrow.int64()),
        _required("better", pyarrow.int64()),  # `index` of the rollout with the higher reward
        _required("worse", pyarrow.int64()),
        _required("deviation", pyarrow.float64()),
        _required("raw_cosine", pyarrow.float64()),
        _required("projected_cosine", pyarrow.float64()),
    ]
)

# The density of each step's scores on its grid.
DENSITIES = pyarrow.schema(
    [
        _required("step", pyarrow.int64()),
        _required("score", pyarrow.float64()),
        _required("density", pyarrow.float64()),
        pyarrow.field("threshold", pyarrow.float64()),  # the lowest anomalous score; null: none
        _required("peak", pyarrow.float64()),
    ]
)


def scores_schema(redacted: bool) -> pyarrow.Schema:
    """The columns of `scores.parquet`, without the texts in a redacted folder."""
    return pyarrow.schema([column for column in SCORES if not (redacted and column.name in TEXTS)])


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
        names = sorted(item.name for item in self.root.iterdir()) if self.root.is_dir() else []
        others = [name for name in names if name not in _KNOWN]
        if others:
            raise ConfigError(
                f"--output {self.root}: expected a new folder or an earlier curation, got {others[0]} in it"
            )
        if SUMMARY_FILE in names and not overwrite:
            raise ConfigError(
                f"--output {self.root}: expected a new folder, got a finished curation: --overwrite replaces it"
            )

    def start(self) -> None:
        """Makes an empty folder for what is written."""
        self.discard()
        self.staging.mkdir(parents=True)

    def publish(self) -> None:
        """Brings what was written to the disk and moves it into the folder; what an earlier call left there goes."""
        sync_tree(self.staging)
        # The summary goes first and comes last: with it a folder is complete, at any moment.
        for name in (SUMMARY_FILE, *_CONTENT):
            path = self.root / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        for name in _CONTENT:
            if (self.staging / name).exists():
                (self.staging / name).replace(self.root / name)
        self.discard()
        sync_folder(self.root)

    def discard(self) -> None:
        """Removes what was written so far."""
        shutil.rmtree(self.root / _PARTIAL, ignore_errors=True)
