"""Run folders to figures and a page that explains them; no torch."""

from geoalign.errors import MissingExtraError

try:
    from geoalign.lab.reports.build import build_report
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("jinja2", "matplotlib", "pyarrow"):
        raise
    raise MissingExtraError(
        f"reports: expected {error.name} to be installed: pip install 'geoalign[report]'"
    ) from error

__all__ = ["build_report"]
