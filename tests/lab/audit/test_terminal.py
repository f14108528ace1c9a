"""What the command prints: a dozen lines, what could not be told and why, and the call that would tell more."""

import json

import pandas
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


def test_math_verify_is_offered_where_gold_answers_are_maths_and_not_where_they_are_prose(lines):
    prose = [{**row, "answer": "The author blames the weather."} for row in verdicts()]
    assert "math_verify" not in lines(prose)[-1]
    half = [{**row, "answer": "12" if number % 16 < 8 else "Paris"} for number, row in enumerate(verdicts())]
    assert "--second-verifier math_verify" in lines(half, "--overwrite")[-1]


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


def test_groups_of_one_are_given_as_the_reason_and_what_they_were_made_by(lines):
    one_each = [row for row in verdicts() if row["id"].endswith("-3")]
    said = " ".join(lines(one_each))
    assert "8 rollouts in 8 groups (the same `prompt`; --field group=NAME chooses another field)" in said
    one_each = [{**row, "reward": float(number % 2)} for number, row in enumerate(one_each)]
    said = " ".join(lines(one_each, "--overwrite"))
    assert "cannot be told. Every group holds one rollout, for no two have the same `prompt`" in said
    assert "--field group=NAME names the field that they share" in said
    assert "No rollout has an answer" not in said
    # By the file's own field, too; groups of two have another reason, if any.
    own = " ".join(lines([{**row, "group": row["id"]} for row in one_each], "--overwrite"))
    assert "8 groups (prompts)" in own
    assert "no two have the same `group`" in own
    assert "Every group holds" not in " ".join(lines(verdicts(), "--overwrite"))


def test_an_answer_that_is_no_gold_answer_is_said(lines):
    rows = [{**row, "answer": row["response"][-2]} for row in verdicts()]
    said = " ".join(lines(rows))
    assert "`answer` differs within prompts and is what refused responses answered, so it splits no group" in said


@pytest.mark.parametrize("written", [json.dumps, lambda rows: pandas.DataFrame(rows).to_csv(index=False)])
def test_an_array_and_csv_on_standard_input(tmp_path, monkeypatch, written):
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, ["audit", "-", "--json"], input=written(verdicts()).encode())
    assert json.loads(said.stdout)["counts"]["groups"] == 8


def test_csv_files_beside_dumps_are_no_dumps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_dump(tmp_path / "in", "plain")
    (tmp_path / "in" / "flagged.csv").write_text("step,line,sample,label\n1,1,0,1\n")
    said = json.loads(CliRunner().invoke(app, ["audit", str(tmp_path / "in"), "--json"]).stdout)
    assert [entry["format"] for entry in said["inputs"]] == ["plain"]


@pytest.mark.parametrize("name", ["verl", "plain", "trl", "slime"])
def test_standard_input_is_a_file(tmp_path, lines, name):
    data = write_dump(tmp_path / "in", name).read_bytes()
    said = CliRunner().invoke(app, ["audit", "-", "--json"], input=data)
    [found] = json.loads(said.stdout)["inputs"]
    assert (found["format"], found["file"].split(".")[0]) == (name, "stdin")  # no temporary path
