"""The texts in `scores.parquet`, read a row group at a time: all of them may be more than the memory holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
from jaxtyping import Int, UInt64

from geoalign.audit.folder import TEXTS


def read_texts(path: Path, places: Int[np.ndarray, " k"]) -> pandas.DataFrame:
    """`prompt` and `response` of the rollouts at some places of the file, by their place.

    Args:
        path: a `scores.parquet` with texts.
        places: row numbers from 0, in any order.
    """
    wanted = np.unique(places)
    start = 0
    with pyarrow.parquet.ParquetFile(path) as file:
        found = [file.schema_arrow.empty_table().select(TEXTS)]
        for number in range(file.num_row_groups):
            stop = start + file.metadata.row_group(number).num_rows
            here = wanted[(wanted >= start) & (wanted < stop)]
            if len(here):
                found.append(file.read_row_group(number, columns=list(TEXTS)).take(here - start))
            start = stop
    texts: pandas.DataFrame = pyarrow.concat_tables(found).to_pandas()
    return texts.set_axis(wanted)


def keys_of_responses(path: Path) -> UInt64[np.ndarray, " n"] | None:
    """[n] a number for each response, the same for identical ones; None where the file has no texts."""
    if not _has_texts(path):
        return None
    keys = [np.zeros(0, dtype=np.uint64)]
    for responses in _pieces(path, "response"):
        # Responses hardly ever come again: to look for those that do would cost more than it saves.
        keys.append(pandas.util.hash_array(responses.to_numpy(dtype=object), categorize=False))
    return np.concatenate(keys)


def first_and_last_prompt(path: Path) -> tuple[str, str]:
    """The first and the last prompt in alphabetical order; empty where the file has none."""
    if not _has_texts(path):
        return "", ""
    pieces = [(prompts.min(), prompts.max()) for prompts in _pieces(path, "prompt") if len(prompts)]
    first = min((first for first, _ in pieces), default="")
    last = max((last for _, last in pieces), default="")
    return first, last


def _has_texts(path: Path) -> bool:
    """Whether an audit wrote its texts, too: one without --redact."""
    return set(TEXTS) <= set(pyarrow.parquet.read_schema(path).names)


def _pieces(path: Path, name: str) -> Iterator[pandas.Series]:
    """A column of texts, a row group at a time."""
    with pyarrow.parquet.ParquetFile(path) as file:
        for number in range(file.num_row_groups):
            yield file.read_row_group(number, columns=[name]).to_pandas()[name]
