import json
import math
from pathlib import Path

import pytest

from geoalign.errors import RunFolderError
from geoalign.lab.store.files import replace_folder, write_atomically
from geoalign.lab.store.json_files import append_lines, finite, keep_lines, read_json, read_lines, write_json


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.txt"
    write_atomically(path, "old")

    def broken(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        write_atomically(path, "new")
    assert path.read_text() == "old"


def test_nan_and_infinities_become_null() -> None:
    value = {"a": math.nan, "b": [1.0, -math.inf], "c": {"d": (math.inf, "x")}, "e": 2}
    assert finite(value) == {"a": None, "b": [1.0, None], "c": {"d": [None, "x"]}, "e": 2}


def test_json_round_trip(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"x": 0.1, "y": math.nan, "z": "ß"})
    assert read_json(tmp_path / "a.json") == {"x": 0.1, "y": None, "z": "ß"}


@pytest.mark.parametrize("content", ["", "{", "[1]"])
def test_no_json_object_is_an_error_with_the_file(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(RunFolderError, match=r"a\.json: expected a mapping"):
        read_json(tmp_path / "a.json")


def test_a_cut_last_line_is_left_out_and_cut_away(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    append_lines(path, [{"step": 1}, {"step": 2, "x": math.nan}])
    with path.open("a") as file:
        file.write('{"step": 3, "lo')
    assert read_lines(path) == [{"step": 1}, {"step": 2, "x": None}]
    keep_lines(path, lambda line: line["step"] >= 2)
    assert path.read_text() == '{"step": 2, "x": null}\n'


def test_kept_numbers_stay_the_same_bits(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    append_lines(path, [{"x": 0.1 + 0.2}, {"x": 1e-320}])
    before = path.read_bytes()
    keep_lines(path, lambda line: True)
    assert path.read_bytes() == before


def test_a_folder_takes_its_place_whole(tmp_path: Path) -> None:
    written, place = tmp_path / "model.tmp", tmp_path / "model"
    for folder, text in ((place, "old"), (written, "new")):
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / "file").write_text(json.dumps(text))
    replace_folder(written, place)
    assert not written.exists()
    assert (place / "sub" / "file").read_text() == '"new"'
