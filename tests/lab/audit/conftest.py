"""Curating into a folder of the test's; pages, which take most of a call's time, are made in one test alone."""

import sys
from pathlib import Path

import pytest

from geoalign.audit.command import AuditRequest
from geoalign.audit.pipeline import audit
from geoalign.audit.settings import load_audit_config

# The dumps stand in a module of their own.
sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture
def no_page(monkeypatch):
    """Leaves the page out, which takes most of a call's time."""

    def blank(folder):
        (folder / "figures").mkdir()
        (folder / "figures" / "rewards.svg").write_text("<svg/>")
        (folder / "report.html").write_text("<!doctype html>")

    monkeypatch.setattr("geoalign.audit.pipeline.build_audit_page", blank)


@pytest.fixture
def run(tmp_path, no_page):
    """Curates paths into `tmp_path / "out"`; keywords are those of the request, and `curator`, `settings`, `output`."""

    def curated(*paths, curator="reward_distance", settings=(), **request):
        output = request.pop("output", tmp_path / "out")
        own = ("curator.alpha=0.1",) if curator == "reward_distance" else ()
        config = load_audit_config(curator, (*own, *settings))
        return audit(config, AuditRequest([str(path) for path in paths], output, **request))

    return curated
