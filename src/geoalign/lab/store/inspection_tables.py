"""The tables that `geoalign curate` leaves in a folder: who writes and who reads them share these names and types."""

from __future__ import annotations

import pyarrow

SCORES_FILE = "scores.parquet"
PAIRS_FILE = "pairs.parquet"
DENSITIES_FILE = "densities.parquet"
SUMMARY_FILE = "summary.json"
REPORT_FILE = "report.html"

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
        _required("sample", pyarrow.int64()),  # place among the responses of its prompt
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
        _required("source", pyarrow.int64()),  # `index` of the row that stands here afterwards; -1: left out
        _required("weight", pyarrow.float64()),
        pyarrow.field("new_reward", pyarrow.float64()),
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
