"""A comparison's results in one file: the same table and page, small, and refused by name where damaged."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from geoalign.cli import app
from geoalign.errors import RunFolderError
from geoalign.lab.compare.analysis import read_table, table_as_json
from geoalign.lab.compare.folder import COMPACT, ComparisonFolder
from geoalign.lab.compare.page import build_comparison_report, compact_comparison
from geoalign.lab.compare.results import read_results

ARMS = {"grpo": 0.5, "pair_count": 0.52, "geoalign": 0.6, "oracle": 0.7, "clean": 0.75}


@pytest.fixture
def folder(make_comparison):
    made = make_comparison(
        {"flip_10": ARMS, "flip_20": ARMS},
        seeds=(0, 1, 2),
        settings={"geoalign": {"alpha": 0.05, "tail": None, "projector": {"layers": 3}}},
        failed=[("flip_20", "oracle", 1)],
        missing=[("flip_20", "grpo", 2)],
        gold=0.2,
        sets=("easy", "hard"),
    )
    # A run that stands for two cells, as runs do that the corruption does not touch.
    one = made / "results" / "flip_10" / "clean" / "seed-0.json"
    other = made / "results" / "flip_20" / "clean" / "seed-0.json"
    other.write_text(json.dumps({**json.loads(one.read_text()), "level": "flip_20"}))
    return made


def numbers(folder):
    return table_as_json(read_table(folder))


@pytest.mark.usefixtures("undrawn")
def test_the_table_and_the_page_are_the_same(folder, tmp_path):
    small = tmp_path / "small" / "comparison"
    small.parent.mkdir()
    compact_comparison(folder, small)
    assert not (small / "results").exists()
    assert numbers(small) == numbers(folder)
    pages = [build_comparison_report(path).read_bytes() for path in (folder, small)]
    assert pages[0] == pages[1]
    # What was made compact is made so again, byte by byte.
    again = compact_comparison(small, tmp_path / "again")
    assert again.read_bytes() == (small / COMPACT).read_bytes()


def test_the_command(folder, tmp_path):
    said = CliRunner().invoke(app, ["report", str(folder), "--compact", str(tmp_path / "small")])
    assert said.exit_code == 0, said.output
    assert (tmp_path / "small" / COMPACT).is_file()
    assert (tmp_path / "small" / "compare.yaml").read_bytes() == (folder / "compare.yaml").read_bytes()
    twice = ["report", str(folder), str(folder), "--compact", str(tmp_path / "two")]
    two = CliRunner().invoke(app, twice)
    assert two.exit_code != 0


def test_it_is_not_written_beside_results_nor_resumed(folder, tmp_path):
    with pytest.raises(RunFolderError, match="expected a folder without results"):
        compact_comparison(folder, folder)
    small = compact_comparison(folder, tmp_path / "small").parent
    with pytest.raises(RunFolderError, match=r"results\.parquet.*cannot be resumed"):
        ComparisonFolder(small).check_vacant(resume=True)
    shutil.copytree(folder / "results", small / "results")
    with pytest.raises(RunFolderError, match="got both"):
        read_results(small)
