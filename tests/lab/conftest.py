import pytest
from tiny_models import saved_model


@pytest.fixture
def undrawn(monkeypatch):
    """Pages without their drawings, which take most of the time: a picture is a file with the panel's name in it."""
    drawing = "geoalign.pages.documents.render"
    monkeypatch.setattr(drawing, lambda panel, theme: f"<svg><!-- {panel.name} --></svg>".encode())


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A byte-level model of two thousand positions, as `from_pretrained` reads it."""
    return saved_model(tmp_path_factory.mktemp("models") / "tiny", max_length=2048, heads=2)
