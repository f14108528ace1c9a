"""`from geoalign import audit`: the report, what it shows in a notebook, and what it leaves behind."""

import json
import tempfile

import pandas
import pytest
from dumps import HOSTILE, verdicts, write_lines

import geoalign
import geoalign.audit.settings
from geoalign import audit
from geoalign.audit.results import read_report
from geoalign.errors import ConfigError


@pytest.fixture
def dump(tmp_path):
    return write_lines(tmp_path / "d.jsonl", verdicts())


def test_the_report_has_the_rows_and_the_summary_that_the_files_have(tmp_path, dump, no_page):
    report = audit(dump, output=tmp_path / "out")
    assert report.summary == json.loads((tmp_path / "out" / "summary.json").read_bytes())
    table = pandas.read_parquet(tmp_path / "out" / "scores.parquet")
    assert report.rows["response"].tolist() == table["response"].tolist()
    assert report.rows["anomalous"].tolist() == table["anomalous"].tolist()
    assert report.folder == tmp_path / "out"
    # Row 3 of a prompt is right and refused, row 5 wrong and rewarded.
    assert set(report.flagged.index % 8) == {3, 5}
    assert report.flagged["suspicion"].tolist() == list(range(16))
    again = read_report(tmp_path / "out")
    pandas.testing.assert_frame_equal(again.rows, report.rows)


def test_without_an_output_nothing_is_left(tmp_path, dump, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    report = audit(str(dump))
    assert report.folder is None
    assert len(report.rows) == 64
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_notebook_shows_the_finding_and_the_flagged_rewards_as_harmless_text(tmp_path):
    texts = ["<script>alert(1)</script> & more", *HOSTILE]
    rows = verdicts()
    for number, row in enumerate(rows):
        prompt = number // 8
        row["prompt"] = texts[prompt % len(texts)] + row["prompt"]
    report = audit(write_lines(tmp_path / "d.jsonl", rows))
    shown = report._repr_html_()
    assert shown.startswith("<p><b>16 of 64 rewards look wrong (25.0%).</b></p>")
    assert shown.count("<tr") == 1 + 10
    assert "the same answer was rewarded 3 times" in shown
    assert "<script" not in shown
    assert "&lt;script&gt;alert(1)" in shown
    assert "\u202e" not in shown
    assert repr(report).startswith("16 of 64 rewards look wrong (25.0%).\n")


def test_a_report_without_flags_shows_no_table(tmp_path):
    right = [{**row, "reward": float("{a}" in row["response"])} for row in verdicts()]
    shown = audit(write_lines(tmp_path / "d.jsonl", right))._repr_html_()
    assert "No reward looks wrong." in shown
    assert "<table" not in shown


def test_the_arguments_are_those_of_the_command(dump):
    shared = audit([dump], curator={"type": "denoise", "answers": "shared"}, settings={"seed": 3}, redact=True)
    assert shared.summary["verifier"]["answers"] == "shared"
    assert shared.summary["curator"]["unanswered"] == "kept"
    assert shared.summary["seed"] == 3
    assert "response" not in shared.rows
    assert audit(dump, curator="pair_count").summary["curator"]["type"] == "pair_count"
    named = audit(dump, fields={"answer": ""})
    assert "answer" not in named.summary["inputs"][0]["fields"]
    with pytest.raises(ConfigError, match="curator"):
        audit(dump, curator="denois")


def test_the_package_is_a_function_and_its_modules_stay_importable(dump):
    assert geoalign.audit is audit
    assert geoalign.audit.settings.AuditConfig().seed == 0
    assert "audit" in dir(geoalign)
