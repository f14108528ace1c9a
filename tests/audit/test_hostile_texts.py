"""Texts of others come through the curation whole, are harmless in what is made of them, and can be left out."""

import base64
import csv
import json
import re
import zlib

import pyarrow.parquet as pq
import pytest
from dumps import HOSTILE, OUTLIERS, SIZE, changed, filtered, plain, write_lines

from geoalign.audit.page import page
from geoalign.dumps.flagged_csv import LONGEST, safe


def test_hostile_texts_come_through(tmp_path, run):
    rows = plain()
    for number, text in enumerate(HOSTILE):
        rows = changed(rows, number, response=text)
    flagged = OUTLIERS[0][0] * SIZE + OUTLIERS[0][1]
    rows = changed(rows, flagged, response="=1+1\ud800")
    path = write_lines(tmp_path / "dump.jsonl", rows)
    before = path.read_bytes()
    run(path, filtered=True)
    assert path.read_bytes() == before
    # Half a pair of surrogates can be stored nowhere.
    expected = [text.replace("\ud800", "\ufffd") for text in HOSTILE]
    scores = pq.read_table(tmp_path / "out" / "scores.parquet").to_pylist()
    assert [row["response"] for row in scores[: len(HOSTILE)]] == expected
    made = filtered(tmp_path / "out")
    assert [row["response"] for row in made[: len(HOSTILE)]] == expected
    with (tmp_path / "out" / "flagged.csv").open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    assert {line["response"] for line in lines} == {"'=1+1\ufffd", "answer 8.1"}
    assert {"label", "note"} <= set(lines[0])


def test_half_a_pair_of_surrogates_in_the_name_of_a_part_comes_through(tmp_path, run):
    rows = [{**row, "data_source": "gsm\ud83d" if place % 2 else "math"} for place, row in enumerate(plain())]
    summary = run(write_lines(tmp_path / "dump.jsonl", rows))
    assert summary["counts"]["scored"] == len(rows)


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@x", " \t=1", "\t1", "\r=1", "＝1", "\n=1"])
def test_no_cell_is_a_formula(text):
    assert safe(text).startswith("'")


def test_cells_are_plain_and_bounded():
    assert safe("a=1") == "a=1"
    assert safe("a\x00b\x9fc\r\nd") == "a\ufffdb\ufffdc\nd"
    long = safe("x" * (LONGEST + 1))
    assert len(long) < 32_767
    assert long.endswith("(32,001 characters)")


def unpacked(path):
    if path.suffix == ".parquet":
        return json.dumps(pq.read_table(path).to_pylist(), ensure_ascii=False)
    text = path.read_bytes().decode("utf-8", errors="replace")
    pieces = re.findall(r'<script type="application/octet-stream"[^>]*>([^<]*)</script>', text)
    return text + "".join(zlib.decompress(base64.b64decode(piece)).decode() for piece in pieces)


@pytest.mark.parametrize("redact", [True, False])
def test_redacted(redact, tmp_path, run, monkeypatch):
    monkeypatch.setattr("geoalign.audit.page.page.audit_sections", lambda *found: [])
    monkeypatch.setattr("geoalign.audit.pipeline.build_audit_page", page.build_audit_page)
    texts = {"prompt": "secret question", "response": "secret response", "answer": "secret gold", "final": "secret own"}
    rows = [{**row, **texts} for row in plain()]
    # The outliers of the fourth and ninth prompt are flagged.
    rows = [{**row, "group": place // SIZE} for place, row in enumerate(rows)]
    rows = changed(rows, 5, reward="secret reward")
    path = write_lines(tmp_path / "dump.jsonl", rows)
    summary = run(path, redact=redact, filtered=not redact, skip_bad=True, fields=("final_answer=final",))
    assert summary["redacted"] is redact
    assert summary["counts"]["flagged"] == len(OUTLIERS)
    assert summary["skipped"][0]["reason"] == ("expected a number" if redact else "expected a number, got a text")
    files = [item for item in (tmp_path / "out").rglob("*") if item.is_file()]
    found = {file.name for file in files if "secret" in unpacked(file)}
    assert found == (set() if redact else {"scores.parquet", "flagged.csv", "report.html", "filtered.jsonl"})
    table = pq.read_table(tmp_path / "out" / "scores.parquet")
    assert ({"prompt", "response"} <= set(table.column_names)) is not redact
    header = (tmp_path / "out" / "flagged.csv").read_text(encoding="utf-8-sig").splitlines()[0]
    assert ({"answer", "prompt", "response", "replacement"} <= set(header.split(","))) is not redact
