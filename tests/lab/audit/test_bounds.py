"""Exit codes and the output of a job that audits: `--fail-above`, `--json`, and a file alone."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from geoalign.errors import ConfigError
from geoalign.lab.audit.terminal import exceeded, parse_bounds
from geoalign.lab.cli import app

# Of its wrong answers the verifier rewards 35.3%% (24% to 47%), of the right ones it refuses none.
ROLLOUTS = str(Path(__file__).parents[3] / "recipes" / "rollouts" / "substring_reward.jsonl")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch, no_page):
    monkeypatch.chdir(tmp_path)


def audited(*options):
    return CliRunner().invoke(app, ["audit", ROLLOUTS, *options])


def test_a_file_alone_is_audited_by_denoise():
    found = audited()
    assert found.exit_code == 0
    assert "the verifier rewards 35.3%" in found.stdout
    summary = json.loads(Path("runs/audit/summary.json").read_text())
    assert summary["curator"]["type"] == "denoise"
    assert summary["counts"]["flagged"] > 0


def test_json_is_the_summary_and_nothing_else():
    found = audited("--json")
    assert json.loads(found.stdout) == json.loads(Path("runs/audit/summary.json").read_text())


@pytest.mark.parametrize(
    ("bounds", "code"),
    [
        (["false_positive=0.1"], 3),
        (["false_positive=0.3"], 0),  # within the interval
        (["false_negative=0.1"], 0),
        (["false_negative=0.1", "false_positive=0.1"], 3),
    ],
)
def test_it_fails_where_the_whole_interval_lies_above(bounds, code):
    found = audited(*(word for bound in bounds for word in ("--fail-above", bound)))
    assert found.exit_code == code
    assert ("false_positive: at least" in found.output) == (code == 3)


def test_a_rate_that_cannot_be_told_is_not_above():
    assert exceeded({"verifier": {"reason": "All rewards are equal."}}, {"false_positive": 0.0}) == []
    assert exceeded({"verifier": {"rates": None}}, {"false_positive": 0.0}) == []


@pytest.mark.parametrize("texts", [["informedness=0.1"], ["false_positive"], ["false_positive=1"], ["false_positive=x"],
                                   ["false_positive=nan"], ["false_positive=0.1", "false_positive=0.2"]])  # fmt: skip
def test_other_bounds_are_refused(texts):
    with pytest.raises(ConfigError, match="--fail-above: expected false_positive or false_negative once"):
        parse_bounds(texts)
