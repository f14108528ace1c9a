"""The worked example of docs/add_a_curator.md: a curator of another package, by its name, everywhere."""

import math
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

from geoalign import CURATORS, Rollouts, curator_checks
from geoalign.curators.chain import Chain
from geoalign.curators.registry import as_curator
from geoalign.errors import ConfigError
from geoalign.lab.train.read_settings import load_run_config, parse_run_config
from geoalign.settings.loading import plain_settings

PAGE = Path(__file__).parents[2] / "docs" / "add_a_curator.md"


def files_of_the_page():
    """Every block of the page that begins with the name of its file."""
    blocks = re.findall(r"```(?:python|toml|yaml)\n# (\S+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return dict(blocks)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The page's files, and what an installer makes of its pyproject.toml, in a folder on sys.path."""
    files = files_of_the_page()
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "clipped" / "__init__.py").touch()
    project = tomllib.loads(files["pyproject.toml"])["project"]
    points = project["entry-points"]["geoalign.curators"]
    facts = tmp_path / f"{project['name']}-{project['version']}.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [f"{name} = {target}" for name, target in points.items()]
    (facts / "entry_points.txt").write_text("\n".join(["[geoalign.curators]", *lines, ""]))
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "clipped"]:
        del sys.modules[name]


def test_it_is_known_by_its_name(installed):
    assert "clipped" in CURATORS
    assert list(CURATORS) == sorted(CURATORS)
    curator = CURATORS["clipped"](limit=0.5)
    rewards = torch.tensor([-2.0, 0.1, math.nan, 3.0])
    curation = curator.curate(Rollouts(rewards=rewards, groups=torch.zeros(4, dtype=torch.long)))
    assert curation.rewards.nan_to_num(-9).tolist() == pytest.approx([-0.5, 0.1, -9, 0.5])
    assert curation.weights.tolist() == [1, 1, 0, 1]
    assert curation.metrics == {"clipped": 2.0}
    empty = Rollouts(rewards=torch.zeros(0), groups=torch.zeros(0, dtype=torch.long))
    assert len(curator.curate(empty).source) == 0


def test_it_runs_from_a_config_file(installed):
    config = load_run_config(installed / "run.yaml").config
    assert config.curator.limit == 0.5
    assert config.curator.type == "clipped"
    assert parse_run_config(plain_settings(config)) == config
    assert type(as_curator(config.curator)) is CURATORS["clipped"]
    chained = parse_run_config({"curator": {"type": "chain", "members": [{"type": "clipped", "limit": 0.25}]}}).curator
    assert Chain(chained).members[0].config.limit == 0.25
    assert load_run_config(None, ["curator.type=clipped", "curator.limit=3"]).config.curator.limit == 3


def test_it_is_gone_with_its_package():
    assert "clipped" not in CURATORS
    with pytest.raises(ConfigError, match=r"curator\.type: expected one of"):
        parse_run_config({"curator": {"type": "clipped"}})


def test_the_pages_last_example(installed):
    result = subprocess.run(
        [sys.executable, "use.py"], cwd=installed, capture_output=True, text=True, check=True, timeout=120
    )
    assert result.stdout.strip() == "tensor([-0.5000,  0.1000])"


def test_the_pages_own_tests_pass(installed):
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_clipped.py"],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), *sys.path])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stdout
    assert f"{len(curator_checks('clipped')) + 1} passed" in result.stdout
