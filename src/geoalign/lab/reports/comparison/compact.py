"""A comparison in a folder small enough to be committed or sent."""

from __future__ import annotations

import shutil
from pathlib import Path

from geoalign.errors import RunFolderError
from geoalign.lab.analysis.comparison.analysis import read_compared
from geoalign.lab.analysis.comparison.groups import reference
from geoalign.lab.reports.documents import make_folder
from geoalign.lab.store.comparison import COMPACT, ComparisonFolder
from geoalign.lab.store.comparison_results import write_compact


def compact_comparison(folder: Path, into: Path) -> Path:
    """Writes the comparison in `folder` to the folder `into`, with all results in one file, and returns that file.

    `geoalign report` makes the same table and page of it. Of the snapshots those alone are kept that the page draws:
    of the arm, at each level, that the others are variants of.

    Raises:
        RunFolderError: the plan or a result cannot be read, `into` is `folder`, or it holds results of its own.
    """
    folder, into = Path(folder), Path(into)
    compared = read_compared(folder)
    references = [(level.level, reference(level.rows, compared.plan)) for level in compared.table.levels]
    arms = [(level, row.arm) for level, row in references if row is not None]
    make_folder(into)
    if into.resolve() == folder.resolve() or ComparisonFolder(into).results.exists():
        raise RunFolderError(f"{into}: expected a folder without results, got one with results of a comparison")
    for path in ComparisonFolder(folder).beside_results():
        if path.is_file():
            shutil.copyfile(path, into / path.name)
    write_compact(folder, into / COMPACT, arms)
    return into / COMPACT
