"""The page of a folder, whichever kind it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from geoalign.errors import RunFolderError
from geoalign.lab.reports.comparison import build_comparison_report
from geoalign.lab.reports.inspection import build_inspection
from geoalign.lab.reports.page import build_run_report
from geoalign.lab.store.comparison import ComparisonFolder
from geoalign.lab.store.curation import SCORES_FILE
from geoalign.lab.store.json_files import present
from geoalign.lab.store.run_folder import RunFolder


def build_report(folder: Path, say: Callable[[str], None] = lambda note: None) -> Path:
    """Writes report.html and figures/ into the folder of a run, of a comparison or of inspected rollouts.

    A comparison is recognised by its compare.yaml, inspected rollouts by their scores.parquet.

    Args:
        say: is given a sentence for each thing that was left out on reading; the page has all of them, too.

    Raises:
        RunFolderError: the folder can be read as none of them; the message says what was expected.
    """
    folder = Path(folder)
    if present(ComparisonFolder(folder).config):
        return build_comparison_report(folder)
    if present(folder / SCORES_FILE):
        return build_inspection(folder)
    if folder.is_dir() and not present(RunFolder(folder).config):
        raise RunFolderError(
            f"{folder}: expected a run's config.yaml, a comparison's compare.yaml or the scores.parquet of geoalign "
            "curate, got none of them"
        )
    return build_run_report(folder, say)
