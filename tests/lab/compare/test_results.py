import json

import pytest

from geoalign.errors import RunFolderError
from geoalign.files.json_files import read_json as read_object
from geoalign.lab.compare.results import parse_result, read_results


def read_cell(path):
    return parse_result(read_object(path), path)


def _write(path, value):
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_failed_cell_needs_only_its_name_and_reason(tmp_path):
    value = {"schema_version": 1, "arm": "a", "level": "b", "seed": 0, "status": "failed", "error": "out of memory"}
    cell = read_cell(_write(tmp_path / "seed-0.json", value))
    assert (cell.finished, cell.error, cell.snapshots) == (False, "out of memory", ())
    value["error"] = None
    assert read_cell(_write(tmp_path / "seed-0.json", value)).error == "no reason was recorded"


def test_results_of_a_folder(make_comparison, tmp_path, make_result):
    scores = {"flip": {"grpo": 0.5, "oracle": 0.6}}
    folder = make_comparison(scores, seeds=(0, 1), failed=[("flip", "oracle", 1)])
    cells = read_results(folder)
    finished = [(cell.arm, cell.seed) for cell in cells if cell.finished]
    assert finished == [("grpo", 0), ("grpo", 1), ("oracle", 0)]
    assert [(cell.arm, cell.seed) for cell in cells if not cell.finished] == [("oracle", 1)]
    # A half-written temporary file is none of ours.
    (folder / "results" / "flip" / "grpo" / "seed-0.json.tmp").write_text("{")
    assert len(read_results(folder)) == 4
    with pytest.raises(RunFolderError, match="expected a folder with results/"):
        read_results(tmp_path / "nowhere")
