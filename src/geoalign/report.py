"""Which page belongs to a folder: that of a run, a comparison or an audit."""

from __future__ import annotations

from pathlib import Path

from geoalign.audit.folder import SCORES_FILE
from geoalign.audit.page.page import build_audit_page
from geoalign.audit.results import read_report
from geoalign.errors import RunFolderError
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.page import build_comparison_report
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.train.page import build_run_report


def build_report(folder: Path) -> Path:
    """Writes report.html and figures/ into the folder of a run, a comparison (compare.yaml) or an audit."""
    folder = Path(folder)
    if ComparisonFolder(folder).config.is_file():
        return build_comparison_report(folder)
    if (folder / SCORES_FILE).is_file():
        return build_audit_page(read_report(folder, texts=False))
    if folder.is_dir() and not RunFolder(folder).config.is_file():
        raise RunFolderError(
            f"{folder}: expected a run's config.yaml, a comparison's compare.yaml or the scores.parquet of geoalign "
            "audit, got none of them"
        )
    return build_run_report(folder)
