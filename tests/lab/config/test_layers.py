"""Settings files that build on others."""

from __future__ import annotations

from pathlib import Path

import pytest

from geoalign.errors import ConfigError
from geoalign.lab.config.loading import load_run_config, read_layers


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_lies_over_its_base_section_by_section(tmp_path: Path) -> None:
    written(tmp_path, "parts/a.yaml", "seed: 1\ngrpo: {beta: 0.1, epsilon: 0.3}\n")
    written(tmp_path, "b.yaml", "base: parts/a.yaml\ngrpo: {beta: 0.2}\n")
    top = written(tmp_path, "c.yaml", "base: b.yaml\nseed: 3\n")
    data, places = read_layers(top)
    assert data == {"seed": 3, "grpo": {"beta": 0.2, "epsilon": 0.3}}
    assert places["seed"] == f"{top}, line 2"
    assert places["grpo.beta"] == f"{tmp_path / 'b.yaml'}, line 2"
    assert places["grpo.epsilon"] == f"{tmp_path / 'parts/a.yaml'}, line 2"
    assert "base" not in places


def test_an_error_in_the_base_points_into_the_base(tmp_path: Path) -> None:
    base = written(tmp_path, "a.yaml", "seed: 1\n\ncurator: {alfa: 0.1}\n")
    with pytest.raises(ConfigError, match=f"{base}, line 3: curator.alfa"):
        load_run_config(written(tmp_path, "b.yaml", "base: a.yaml\n"))


@pytest.mark.parametrize("named", ["gone.yaml", "3", "[a.yaml]", "."])
def test_a_base_that_is_no_file(tmp_path: Path, named: str) -> None:
    path = written(tmp_path, "b.yaml", f"seed: 1\nbase: {named}\n")
    with pytest.raises(ConfigError, match=r"b.yaml, line 2: base: expected a file beside b.yaml, got "):
        read_layers(path)


def test_a_circle_is_refused(tmp_path: Path) -> None:
    written(tmp_path, "a.yaml", "base: b.yaml\n")
    with pytest.raises(ConfigError, match=r"a.yaml, line 1: base: expected a file that does not build on this one"):
        read_layers(written(tmp_path, "b.yaml", "base: a.yaml\n"))
