"""Exit codes and the output of a job that audits: `--fail-above`, `--json`, and a file alone."""

import json
from pathlib import Path

import pytest
from dumps import write_lines
from typer.testing import CliRunner

from geoalign.audit.bounds import check_bounds, parse_bounds
from geoalign.cli import app
from geoalign.errors import ConfigError
from geoalign.noise.error_rates import RATES

# Of its wrong answers the verifier rewards at least 28.8%, at most 75.9% (in truth 35%); of the right ones it refuses
# none, which nothing tells.
ROLLOUTS = str(Path(__file__).parents[2] / "recipes" / "rollouts" / "substring_reward.jsonl")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch, no_page):
    monkeypatch.chdir(tmp_path)


def audited(*options, file=ROLLOUTS):
    return CliRunner().invoke(app, ["audit", file, *options])


def test_a_file_alone_is_audited_by_denoise_and_json_is_its_summary_alone():
    found, printed = audited(), audited("--json", "--overwrite")
    assert found.exit_code == 0
    assert "28.8% to 75.9%" in found.stdout
    summary = json.loads(printed.stdout)
    assert summary == json.loads(Path("runs/audit/summary.json").read_text())
    assert (summary["curator"]["type"], summary["counts"]["flagged"] > 0) == ("denoise", True)


@pytest.mark.parametrize(("bounds", "code"), [
    (["false_positive=0.1"], 3),
    (["false_positive=0.3"], 0),  # within the interval
    (["false_negative=0.1"], 4),  # 0 to 100%
    (["false_negative=0.1", "false_positive=0.1"], 3),
])  # fmt: skip
def test_it_fails_where_the_whole_interval_lies_above(bounds, code):
    found = audited(*(word for bound in bounds for word in ("--fail-above", bound)))
    assert found.exit_code == code
    assert ("false_positive: at least" in found.output) == (code == 3)


def test_a_rate_that_cannot_be_told_is_no_pass(tmp_path):
    rows = [json.loads(line) | {"reward": 0} for line in Path(ROLLOUTS).read_text(encoding="utf-8").splitlines()]
    dump = str(write_lines(tmp_path / "d.jsonl", rows))
    found = audited("--json", "--fail-above", "false_positive=0.1", file=dump)
    assert found.exit_code == 4
    said = "whether it is above 10.0% cannot be told. All rewards are equal."
    assert found.stderr == f"false_positive: {said}\n"


def rate(low, high):
    return {"low": low, "high": high}


@pytest.mark.parametrize("interval", [rate(0.0, 1.0), rate(0.0, 0.967), rate(None, None)])
def test_an_interval_that_says_nothing_is_no_pass(interval):
    verifier = {"rates": dict.fromkeys(RATES, interval), "doubt": None}
    assert check_bounds({"verifier": verifier}, {"false_positive": 0.9}).exit_code == 4


def test_a_bound_above_the_whole_interval_is_a_pass_though_the_interval_says_little():
    verifier = {"rates": dict.fromkeys(RATES, rate(0.0, 0.78)), "doubt": None}
    assert check_bounds({"verifier": verifier}, {"false_positive": 0.8}).exit_code == 0


def test_a_bound_that_is_exceeded_comes_before_one_that_cannot_be_checked():
    rates = {"false_positive_rate": rate(0.0, 1.0), "false_negative_rate": rate(0.3, 0.5)}
    summary = {"verifier": {"rates": rates, "doubt": None}}
    outcome = check_bounds(summary, {"false_positive": 0.9, "false_negative": 0.1})
    assert outcome.exit_code == 3
    assert [line.split(":")[0] for line in outcome.sentences] == ["false_positive", "false_negative"]


@pytest.mark.parametrize("texts", [["informedness=0.1"], ["false_positive"], ["false_positive=1"], ["false_positive=x"],
                                   ["false_positive=nan"], ["false_positive=0.1", "false_positive=0.2"]])  # fmt: skip
def test_other_bounds_are_refused(texts):
    with pytest.raises(ConfigError, match="--fail-above: expected false_positive or false_negative once"):
        parse_bounds(texts)
