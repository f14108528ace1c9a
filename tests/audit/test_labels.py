"""`geoalign audit --labels`: what a person filled in at `flagged.csv` comes back as rewards known to be true."""

import csv
import json

import pytest
from command_line import call
from dumps import table, verdicts, write_lines

from geoalign.errors import ConfigError, InputError

PLACE = ("step", "line", "sample", "label")


def read(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def fill(path, rows, separator=","):
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.mark.usefixtures("no_page")
def test_there_and_back(tmp_path, monkeypatch, capsys):
    """Rows 3 and 5 of each prompt are flagged; a person says that row 3 was refused rightly, and of row 5 nothing."""
    dump = write_lines(tmp_path / "d.jsonl", verdicts())
    options = ("--curator", "denoise", "--set", "curator.unidentified=modelled")
    assert call(monkeypatch, "audit", dump, "--output", tmp_path / "first", *options) == 0
    flagged = read(tmp_path / "first" / "flagged.csv")
    assert {int(row["index"]) % 8 for row in flagged} == {3, 5}
    assert {row["label"] for row in flagged} == {""}
    filled = [{**row, "label": "0" if int(row["index"]) % 8 == 3 else ""} for row in flagged]
    labels = fill(tmp_path / "labels.csv", filled)
    capsys.readouterr()
    assert call(monkeypatch, "audit", dump, "--output", tmp_path / "out", *options, "--labels", labels) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "The true reward of 8 rollouts is known" in said
    summary = json.loads((tmp_path / "out" / "summary.json").read_bytes())
    assert summary["labels"] == {"files": [str(labels)], "labelled": 8, "without_label": 8}
    before, rows = table(tmp_path / "first"), table(tmp_path / "out")
    assert {row["trusted"] for row in before} == {False}
    assert [row["index"] % 8 for row in rows if row["trusted"]] == [3] * 8
    # They are what they were said to be, and flagged no more: the other reward of theirs was in doubt.
    trusted = [row for row in rows if row["trusted"]]
    assert {(row["reward"], row["anomalous"]) for row in trusted} == {(0.0, False)}
    assert [row["new_reward"] for row in trusted] == pytest.approx([0.0] * 8, abs=1e-6)
    assert all(row["new_reward"] > 0.5 for row in before if row["index"] % 8 == 3)
    # Three of "a" were rewarded, a trusted one is known to be wrong: all of "a" is less likely to be right.
    assert rows[0]["new_reward"] < 0.5 < before[0]["new_reward"]


GOOD = dict(zip(PLACE, ("1", "2", "1", "1"), strict=True))
BAD = {
    "a label that is no number": ([{**GOOD, "label": "yes"}], r"line 2: label: expected a number, got 'yes'"),
    "no such row": ([{**GOOD, "line": "99"}], r"line 2: no dump has a rollout of step 1, line 99"),
    "a row twice": ([GOOD, GOOD], r"line 3: a second row for the rollout of .*line 2; keep one"),
    "a missing column": ([{"step": "1", "line": "2", "label": "1"}], r"line 1: expected the columns .*sample.*, got"),
    "another response": (
        [{**GOOD, "response": "other"}],
        r"line 2: response: 'other' is not that of .*d\.jsonl, line 2",
    ),
    "another length": ([{**GOOD, "characters": "3"}], r"line 2: characters: '3' is not that of .*line 2, '\d+'"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_labels(tmp_path, run, name):
    rows, message = BAD[name]
    dump = write_lines(tmp_path / "d.jsonl", verdicts(prompts=2))
    with pytest.raises(InputError, match=message):
        run(dump, curator="denoise", labels=(fill(tmp_path / "labels.csv", rows),))
    assert not (tmp_path / "out" / "summary.json").exists()


@pytest.mark.parametrize(("curator", "labels", "message"), [
    ("pair_count", "labels.csv", r"--labels: expected a curator that reads trusted rewards.* got PairCount"),
    ("denoise", "gone.csv", r"gone\.csv: expected a flagged\.csv with labels, got none"),
    ("denoise", "out/flagged.csv", r"expected a folder without the inputs, got .*flagged"),
])  # fmt: skip
def test_what_cannot_be(tmp_path, run, curator, labels, message):
    dump = write_lines(tmp_path / "d.jsonl", verdicts())
    fill(tmp_path / "labels.csv", [GOOD])
    run(dump, curator="denoise")
    with pytest.raises(ConfigError, match=message):
        run(dump, curator=curator, labels=(tmp_path / labels,), overwrite=True)
