"""`make example`: what the page of the example says of it, with the real model; run by `make real`."""

import json
import re
import shlex
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from geoalign.cli import app

pytestmark = pytest.mark.real

ROOT = Path(__file__).parents[2]
# Log-odds this near to 0 decide nothing: P(wrong) is between 0.4875 and 0.5125.
BORDER = 0.05


def test_the_page_says_what_the_example_flags(smollm2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    command = re.search(r"^\t\$\(BIN\)/geoalign (audit recipes/rollouts/.*)$", makefile, re.MULTILINE)
    assert command
    here = {"runs/example": str(tmp_path), "runs/models/smollm2-135m": str(smollm2)}
    words = [here.get(word, word) for word in shlex.split(command[1])]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    lines = (ROOT / "recipes" / "rollouts" / "substring_reward.jsonl").read_text(encoding="utf-8").splitlines()
    wrong = pd.Series([row["reward"] != row["correct"] for row in map(json.loads, lines)])
    scores = pd.read_parquet(tmp_path / "scores.parquet")["score"]
    page = (ROOT / "recipes" / "rollouts" / "README.md").read_text(encoding="utf-8")
    row = re.search(r"\(`make example`\) \| (\d+) \| (\d+) \|", page)
    assert row is not None
    # A row is flagged above log-odds of 0. The last bits of a model's states are those of the machine, so a row at this
    # border may fall to either side of it; every other row is where the page has it.
    certain = scores > BORDER
    possible = scores > -BORDER
    assert certain.sum() <= int(row[1]) <= possible.sum()
    assert (certain & wrong).sum() <= int(row[2]) <= (possible & wrong).sum()
