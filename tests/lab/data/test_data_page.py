from pathlib import Path

import pytest
import yaml

from geoalign.lab.data.benchmarks import BENCHMARKS
from geoalign.lab.data.problems import LAYOUTS
from geoalign.lab.train.read_settings import load_run_config

PAGE = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")


def test_layouts_and_benchmarks_stand_there():
    for layout in LAYOUTS:
        assert f"|{layout.name}|`{layout.prompt}`" in PAGE
    for benchmark in BENCHMARKS.values():
        row = next(line for line in PAGE.splitlines() if line.startswith(f"|`{benchmark.name}`|"))
        cells = [cell.strip() for cell in row.split("|")]
        assert cells[2].startswith(str(benchmark.problems[0]))
        assert cells[3:5] == [str(benchmark.samples), str(benchmark.pass_samples or "")]
        assert all(f"`{source}`" in cells[5] for source in benchmark.hub)


@pytest.mark.parametrize("block", [part.split("```")[0] for part in PAGE.split("```yaml\n")[1:]])
def test_the_examples_are_valid_settings(tmp_path, block):
    assert set(yaml.safe_load(block)) == {"task"}
    path = tmp_path / "config.yaml"
    path.write_text(block, encoding="utf-8")
    assert load_run_config(path, []).config.task.decontaminate == "report"
