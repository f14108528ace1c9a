"""What the tests of the lab share."""

import pytest


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without their drawings, which take most of the time: a picture is a file with the panel's name in it."""
    drawing = "geoalign.lab.reports.documents.render"
    monkeypatch.setattr(drawing, lambda panel, theme: f"<svg><!-- {panel.name} --></svg>".encode())
