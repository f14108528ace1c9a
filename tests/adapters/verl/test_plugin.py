"""The entry point that `import verl` loads, where verl is absent."""

import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

without_verl = pytest.mark.skipif("verl" in packages_distributions(), reason="verl is installed")


def run(code, vendor):
    environment = {"PATH": "/usr/bin", "VERL_ENGINE_VENDOR": vendor}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


def test_verl_finds_it():
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["verl.plugins"] == {"geoalign": "geoalign.adapters.verl.plugin"}
    assert any("verl[verl-core]>=0.9.1,<0.10" in needed for needed in project["optional-dependencies"]["verl"])
    assert not any("verl" in needed for needed in project["optional-dependencies"]["all"])


def test_it_costs_nothing_where_it_is_not_asked_for():
    code = "import sys, geoalign.adapters.verl.plugin; sys.exit('torch' in sys.modules)"
    assert run(code, "").returncode == 0


@without_verl
def test_a_failure_is_loud():
    """verl logs what a plug-in raises at DEBUG only."""
    result = run("import geoalign.adapters.verl.plugin", "geoalign")
    assert result.returncode != 0
    assert "geoalign could not be loaded into verl" in result.stderr
    assert "pip install 'geoalign[verl]'" in result.stderr
