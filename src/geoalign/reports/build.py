"""The page of a folder, whichever kind it is."""

from __future__ import annotations

from pathlib import Path

from geoalign.reports.comparison import build_comparison_report
from geoalign.reports.inspection import build_inspection
from geoalign.reports.inspection.tables import SCORES_FILE
from geoalign.reports.page import build_run_report


def build_report(folder: Path) -> Path:
    """Writes report.html and figures/ into the folder of a run, of a comparison or of inspected rollouts.

    A comparison is told by its compare.yaml, inspected rollouts by their scores.parquet.

    Raises:
        RunFolderError: the folder can be read as none of them; the message says what was expected.
    """
    folder = Path(folder)
    if (folder / "compare.yaml").is_file():
        return build_comparison_report(folder)
    return build_inspection(folder) if (folder / SCORES_FILE).is_file() else build_run_report(folder)
