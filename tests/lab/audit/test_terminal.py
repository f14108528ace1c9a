"""What the command prints: a dozen lines, what could not be told and why, and the call that would tell more."""

import json

import pytest
from dumps import plain, verdicts, write_dump, write_lines
from typer.testing import CliRunner

from geoalign.lab.cli import app

pytestmark = pytest.mark.usefixtures("no_page")


def without_boxes():
    return [{**row, "response": row["response"].replace("boxed", "text")} for row in verdicts()]


@pytest.fixture
def lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def printed(rows, *options, **more):
        write_lines(tmp_path / "d.jsonl", rows)
        found = CliRunner().invoke(app, ["audit", "d.jsonl", *options], **more)
        assert found.exit_code == 0, found.output
        return found.stdout.strip().splitlines()

    return printed


@pytest.mark.parametrize(("rows", "options", "following"), [
    (verdicts, [], "geoalign audit d.jsonl --second-verifier math_verify --overwrite"),
    (verdicts, ["--second-verifier", "math_verify"],
     "geoalign audit d.jsonl --second-verifier math_verify --labels runs/audit/flagged.csv "
     "--output runs/audit-labelled"),
    *((verdicts, ["--second-verifier", "math_verify", *mine],
       "geoalign audit d.jsonl --second-verifier math_verify --labels mine/flagged.csv --output mine-labelled")
      for mine in (["--output", "mine"], ["--output=mine"])),
    (without_boxes, ["--overwrite"], "geoalign audit d.jsonl --overwrite --field final_answer=NAME"),
    (plain, [], "geoalign audit d.jsonl --model ID_OR_PATH --overwrite"),
])  # fmt: skip
def test_a_dozen_lines_and_the_next_command(lines, monkeypatch, rows, options, following):
    monkeypatch.setattr("sys.argv", ["geoalign", "audit", "d.jsonl", *options])
    said = lines(rows(), *options)
    assert len(said) <= 12
    assert said[-1].startswith("Next, ")
    assert said[-1].endswith(f": {following}")


def test_a_curator_that_reads_no_trusted_rewards_is_offered_none(lines):
    assert not lines(verdicts(), "--curator", "pair_count")[-1].startswith("Next, ")


def test_a_file_without_recognised_answers_says_why_nothing_can_be_told(lines):
    said = " ".join(lines(without_boxes()))
    assert "The verifier's errors cannot be told. No rollout has an answer" in said
    assert r"read from \boxed{...} in a response, or --field final_answer=NAME; `answer` is read as the gold" in said
    # Nor where responses came twice, but were judged alike.
    same = [{**row, "id": f"{n}", "response": "so", "reward": float(n % 16 < 8)} for n, row in enumerate(verdicts())]
    said = " ".join(lines(same, "--overwrite"))
    assert "The verifier's errors cannot be told. No rollout has an answer, and no response got both verdicts." in said


@pytest.mark.parametrize("name", ["verl", "plain", "trl", "slime"])
def test_standard_input_is_a_file(tmp_path, lines, name):
    data = write_dump(tmp_path / "in", name).read_bytes()
    said = CliRunner().invoke(app, ["audit", "-", "--json"], input=data)
    [found] = json.loads(said.stdout)["inputs"]
    assert (found["format"], found["file"].split(".")[0]) == (name, "stdin")  # no temporary path
