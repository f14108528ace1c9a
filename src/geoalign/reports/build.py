"""The page of a folder, whichever kind it is."""

from __future__ import annotations

from pathlib import Path

from geoalign.reports.comparison import build_comparison_report
from geoalign.reports.page import build_run_report


def build_report(folder: Path) -> Path:
    """Writes report.html and figures/ into the folder of a run or of a comparison, told by its compare.yaml.

    Raises:
        RunFolderError: the folder can be read as neither; the message says what was expected.
    """
    return (build_comparison_report if (Path(folder) / "compare.yaml").is_file() else build_run_report)(folder)
