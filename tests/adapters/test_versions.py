"""The versions of each engine that its adapter runs with: those that pyproject.toml installs."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from geoalign.adapters.exports import check_engine
from geoalign.errors import UnsupportedError

ROOT = Path(__file__).parents[2]
# Versions that pass and that do not.
ENGINES = {
    "trl": (["1.8.0", "1.14.2", "1.16.0"], ["0.29.1", "1.7.9", "1.15.0", "1.17.0", "1.17.0.dev0"]),
    "verl": (["0.9.1", "0.9.1.post1", "0.9.10"], ["0.9.0", "0.10.0", "0.10.0.dev", "1.0"]),
    "ms-swift": (["4.6.0", "4.6.3"], ["4.5.9", "4.7.0", "4.7.0.dev0", "5.0"]),
    "trinity-rft": (["0.6.0", "0.6.3"], ["0.5.2", "0.7.0", "0.7.0rc1", "1.6.0"]),
}


@pytest.mark.parametrize("package", ENGINES)
def test_versions(package):
    supported, others = ENGINES[package]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    requirements = [Requirement(text) for extra in extras.values() for text in extra]
    installs = next(one for one in requirements if one.name == package).specifier
    for version in supported:
        check_engine(package, version)
        assert installs.contains(version)
    for version in others:
        with pytest.raises(UnsupportedError, match=f"{package} {version}: expected .*; pip install 'geoalign"):
            check_engine(package, version)
        assert not installs.contains(version, prereleases=True)


def test_a_trainer_with_a_curator_asks(tmp_path, monkeypatch):
    from trl_parts import Scripted, curation, trainer

    monkeypatch.setattr("geoalign.adapters.exports.version", lambda package: "1.17.0")
    trainer(tmp_path)
    with pytest.raises(UnsupportedError, match=r"trl 1\.17\.0: expected >=1\.8"):
        trainer(tmp_path, Scripted(curation))
