"""`geoalign curate` from files to a folder."""

import json

import pyarrow.parquet as pq
import pytest

from geoalign.config.offline import load_curate_config
from geoalign.errors import ConfigError
from geoalign.offline.command import Request, curate


def verl_rows(groups=10, size=4):
    return [
        {"input": f"p{group}", "output": f"r{group}.{row}", "score": float(row % 2 == 0), "step": 7, "gts": "1"}
        for group in range(groups)
        for row in range(size)
    ]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_folder_with_everything(tmp_path):
    path = write_lines(tmp_path / "7.jsonl", verl_rows())
    before = path.read_bytes()
    summary = curate(load_curate_config("reward_distance"), Request([str(path)]), tmp_path / "out")
    assert summary["counts"]["rows"] == 40
    assert summary["counts"]["pairs"] == 10 * 4  # two of reward 1 against two of reward 0 in each group
    assert summary["inputs"][0]["format"] == "verl"
    assert summary["steps"][0]["step"] == 7
    assert path.read_bytes() == before
    rows = pq.read_table(tmp_path / "out" / "scores.parquet").to_pylist()
    assert [row["index"] for row in rows] == list(range(40))
    assert [row["sample"] for row in rows[:5]] == [0, 1, 2, 3, 0]
    assert {"report.html", "summary.json", "flagged.csv", "curated"} <= {
        item.name for item in (tmp_path / "out").iterdir()
    }


def test_a_curator_of_states_without_states_names_those_that_need_none(tmp_path):
    path = write_lines(tmp_path / "7.jsonl", verl_rows())
    with pytest.raises(ConfigError, match=r"geoalign needs hidden states .*pair_count, .*reward_distance"):
        curate(load_curate_config(), Request([str(path)]), tmp_path / "out")
    assert not (tmp_path / "out" / "scores.parquet").exists()
