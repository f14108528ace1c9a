"""What an audit holds of the texts: one file at a time, and afterwards those that are shown."""

import gc
import weakref

import numpy as np
import pandas
import pytest
from audit_folders import write_audit
from dumps import verdicts, write_lines

from geoalign.audit import folder as folder_module
from geoalign.audit.page.bundle import bundle
from geoalign.audit.pipeline import Audit
from geoalign.audit.results import read_report
from geoalign.audit.stored_texts import first_and_last_prompt, keys_of_responses, read_texts

SCORES = "scores.parquet"


@pytest.fixture
def small_pieces(monkeypatch):
    """Three rows at once, so that a small file has many row groups."""
    monkeypatch.setattr(folder_module, "ROWS_AT_ONCE", 3)


def test_tables_are_the_same_however_many_rows_are_written_at_once(tmp_path, run, monkeypatch):
    dump = write_lines(tmp_path / "d.jsonl", verdicts())
    run(dump, curator="denoise", output=tmp_path / "whole")
    monkeypatch.setattr(folder_module, "ROWS_AT_ONCE", 3)
    run(dump, curator="denoise", output=tmp_path / "pieces")
    whole = pandas.read_parquet(tmp_path / "whole" / SCORES)
    pieces = pandas.read_parquet(tmp_path / "pieces" / SCORES)
    pandas.testing.assert_frame_equal(whole, pieces)
    flagged = (tmp_path / "whole" / "flagged.csv").read_bytes()
    assert flagged.count(b"\r\n") == 17
    assert (tmp_path / "pieces" / "flagged.csv").read_bytes() == flagged


def test_the_texts_of_some_rows_are_read_by_their_places(tmp_path, run, small_pieces):
    run(write_lines(tmp_path / "d.jsonl", verdicts()), curator="denoise")
    path = tmp_path / "out" / SCORES
    table = pandas.read_parquet(path)[["prompt", "response"]]
    some = read_texts(path, np.array([40, 2, 63, 3]))
    pandas.testing.assert_frame_equal(some, table.loc[[2, 3, 40, 63]])
    assert read_texts(path, np.array([], dtype=np.int64)).empty
    assert first_and_last_prompt(path) == (table["prompt"].min(), table["prompt"].max())


def test_identical_responses_alone_have_one_key(tmp_path, run, small_pieces):
    texts = ["a", "b", "a", "", "b", "", "c", "a"]
    rows = [{**row, "response": texts[number % 8]} for number, row in enumerate(verdicts())]
    run(write_lines(tmp_path / "d.jsonl", rows), curator="denoise")
    keys = keys_of_responses(tmp_path / "out" / SCORES)
    # Both numbered in the order of their first appearance.
    numbered_keys, _ = pandas.factorize(keys)
    numbered_texts, _ = pandas.factorize(pandas.Series(texts * 8))
    assert (numbered_keys == numbered_texts).all()


def test_a_report_without_texts_gives_those_of_the_rows_that_are_asked_for(tmp_path, run, small_pieces):
    run(write_lines(tmp_path / "d.jsonl", verdicts()), curator="denoise")
    whole = read_report(tmp_path / "out")
    lean = read_report(tmp_path / "out", texts=False)
    pandas.testing.assert_frame_equal(lean.rows, whole.rows.drop(columns=["prompt", "response"]))
    shown = lean.with_texts(lean.flagged)
    pandas.testing.assert_frame_equal(shown[whole.rows.columns], whole.flagged)
    assert bundle(lean) == bundle(whole)


def test_a_redacted_folder_has_no_texts_to_give(tmp_path):
    write_audit(tmp_path, redact=True)
    report = read_report(tmp_path, texts=False)
    assert "response" not in report.with_texts(report.rows)
    assert report.common_beginning == ""


def test_the_rows_of_a_file_are_let_go_before_the_next_one_is_read(tmp_path, run, monkeypatch):
    files = [write_lines(tmp_path / f"{number}.jsonl", verdicts()) for number in (1, 2, 3)]
    read = Audit._read
    frames = []

    def watched(audit, source, number):
        gc.collect()
        assert [frame() for frame in frames] == [None] * len(frames)
        dump = read(audit, source, number)
        frames.append(weakref.ref(dump.frame))
        return dump

    monkeypatch.setattr(Audit, "_read", watched)
    run(*files, curator="denoise")
    assert len(frames) == 3
