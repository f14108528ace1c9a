"""Auditing into a folder of the test's; pages, which take most of a call's time, are made in one test alone."""

import pytest
from dumps import verdicts, write_lines
from files_of_checks import read

from geoalign.audit.command import AuditRequest
from geoalign.audit.pipeline import run_audit
from geoalign.audit.settings import load_audit_config


@pytest.fixture
def no_page(monkeypatch):
    """Leaves the page out, which takes most of a call's time."""

    def blank(report):
        folder = report.folder
        (folder / "figures").mkdir()
        (folder / "figures" / "rewards.svg").write_text("<svg/>")
        (folder / "report.html").write_text("<!doctype html>")

    monkeypatch.setattr("geoalign.audit.pipeline.build_audit_page", blank)


@pytest.fixture
def run(tmp_path, no_page):
    """Audits paths into `tmp_path / "out"` and returns the summary; keywords are those of the request, and `curator`,
    `settings`, `output`."""

    def audited(*paths, curator="reward_distance", settings=(), **request):
        output = request.pop("output", tmp_path / "out")
        own = ("curator.alpha=0.1",) if curator == "reward_distance" else ()
        config = load_audit_config(curator, (*own, *settings))
        return run_audit(config, AuditRequest([str(path) for path in paths], output, **request)).summary

    return audited


@pytest.fixture
def undrawn(monkeypatch):
    """Pages without their drawings, which take most of the time: a picture is a file with the panel's name in it."""
    drawing = "geoalign.pages.documents.render"
    monkeypatch.setattr(drawing, lambda panel, theme: f"<svg><!-- {panel.name} --></svg>".encode())


@pytest.fixture
def dump(tmp_path):
    """64 rollouts, of which 32 give the right answer "a"; a quarter of either kind is judged wrongly."""
    return write_lines(tmp_path / "d.jsonl", verdicts())


@pytest.fixture
def drawn(tmp_path, run, dump):
    """Draws rows of the dump, and returns those of checks.csv."""

    def draw(count, **request):
        run(dump, curator="denoise", draw_checks=count, overwrite=True, **request)
        return read(tmp_path / "out" / "checks.csv")

    return draw
