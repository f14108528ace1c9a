"""Names of an adapter, imported when first asked for."""

import sys
from importlib import import_module

import pytest

from geoalign.adapters.exports import lazy_exports
from geoalign.errors import MissingExtraError


def test_a_name_is_taken_from_its_home_when_asked_for():
    export = lazy_exports("some.package", {"Fraction": "fractions", "gone": "no.such.home"}, "nothing")
    assert export("Fraction")(1, 2) == 0.5


def test_an_unknown_name_is_no_attribute():
    with pytest.raises(AttributeError, match=r"module 'some\.package' has no attribute 'other'"):
        lazy_exports("some.package", {"name": "fractions"}, "nothing")("other")


def test_a_missing_engine_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "fractions", None)
    with pytest.raises(
        MissingExtraError, match=r"some\.package\.Fraction needs the package 'fractions'.*: pip install x"
    ):
        lazy_exports("some.package", {"Fraction": "fractions"}, "pip install x")("Fraction")


def test_a_missing_module_of_our_own_is_our_mistake():
    with pytest.raises(ModuleNotFoundError, match=r"geoalign\.adapters\.nowhere"):
        lazy_exports("some.package", {"name": "geoalign.adapters.nowhere"}, "nothing")("name")


# The engine's module, and the module of a name that needs it.
ENGINES = {
    "trl": ("trl", "mixin", "GeoAlignGRPOTrainer"),
    "verl": ("verl", "trainers", "CuratedSteps"),
    "swift": ("swift", "mixin", "CuratedGRPO"),
    "trinity": ("trinity", "operators", "GeoAlignOperator"),
}


@pytest.mark.parametrize("adapter", ENGINES)
def test_every_adapter_names_its_extra_where_the_engine_is_missing(adapter, monkeypatch):
    engine, home, name = ENGINES[adapter]
    monkeypatch.delitem(sys.modules, f"geoalign.adapters.{adapter}.{home}", raising=False)
    monkeypatch.setitem(sys.modules, engine, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'geoalign\[{adapter}\]'"):
        getattr(import_module(f"geoalign.adapters.{adapter}"), name)
