"""Names of an adapter, imported when first asked for, and the versions of engines that pyproject.toml installs."""

import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from geoalign.adapters.exports import check_engine, lazy_exports
from geoalign.errors import MissingExtraError, UnsupportedError

ROOT = Path(__file__).parents[2]

HOMES = {"Fraction": "fractions", "gone": "geoalign.adapters.nowhere"}


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("other", AttributeError, r"module 'some\.package' has no attribute 'other'"),
        ("Fraction", MissingExtraError, r"some\.package\.Fraction needs the package 'fractions'.*: pip install x"),
        # A missing module of our own is our mistake.
        ("gone", ModuleNotFoundError, r"geoalign\.adapters\.nowhere"),
    ],
)
def test_a_name_is_taken_from_its_home_when_asked_for(monkeypatch, name, error, message):
    export = lazy_exports("some.package", HOMES, "pip install x")
    assert export("Fraction")(1, 2) == 0.5
    monkeypatch.setitem(sys.modules, "fractions", None)
    with pytest.raises(error, match=message):
        export(name)


# The engine's module, and the module of a name that needs it.
ENGINES = {
    "trl": ("trl", "mixin", "GeoAlignGRPOTrainer"),
    "verl": ("verl", "trainers", "CuratedSteps"),
    "swift": ("swift", "mixin", "CuratedGRPO"),
    "trinity": ("trinity", "operators", "GeoAlignOperator"),
    "skyrl": ("skyrl", "trainers", "CuratedRayPPO"),
    "axolotl": ("axolotl", "plugin", "GeoAlignPlugin"),
}


@pytest.mark.parametrize("adapter", ENGINES)
def test_every_adapter_names_its_extra_where_the_engine_is_missing(adapter, monkeypatch):
    engine, home, name = ENGINES[adapter]
    monkeypatch.delitem(sys.modules, f"geoalign.adapters.{adapter}.{home}", raising=False)
    monkeypatch.setitem(sys.modules, engine, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'geoalign\[{adapter}\]'"):
        getattr(import_module(f"geoalign.adapters.{adapter}"), name)


# Versions that pass and that do not.
VERSIONS = {
    "trl": (["1.8.0", "1.14.2", "1.16.0"], ["0.29.1", "1.7.9", "1.15.0", "1.17.0", "1.17.0.dev0"]),
    "verl": (["0.9.1", "0.9.1.post1", "0.9.10"], ["0.9.0", "0.10.0", "0.10.0.dev", "1.0"]),
    "ms-swift": (["4.6.0", "4.6.3"], ["4.5.9", "4.7.0", "4.7.0.dev0", "5.0"]),
    "trinity-rft": (["0.6.0", "0.6.3"], ["0.5.2", "0.7.0", "0.7.0rc1", "1.6.0"]),
    "skyrl": (["0.3.0", "0.3.1"], ["0.2.0", "0.4.0", "0.4.0.dev0", "1.0"]),
    "axolotl": (["0.21.0", "0.21.1"], ["0.19.0", "0.20.0", "0.22.0", "0.22.0.dev0"]),
}


@pytest.mark.parametrize("package", VERSIONS)
def test_versions(package):
    supported, others = VERSIONS[package]
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
