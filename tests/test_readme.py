import json
import re
from collections import Counter
from pathlib import Path

import pandas as pd
from typer.testing import CliRunner

from geoalign.answers import final_answer
from geoalign.lab.cli import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    return re.split(r"^## ", README.split(f"## {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_the_library_example_finds_the_wrong_rewards(capsys):
    code = re.search(r"```python\n(.*?)```", section("As a library"), re.DOTALL).group(1)
    exec(code, {})
    wrong, flagged = (set(re.findall(r"\d+", line)) for line in capsys.readouterr().out.splitlines()[:2])
    assert len(wrong) == 3
    assert wrong <= flagged


def test_the_two_commands_come_first_and_exist():
    first = re.search(r"```\n(.*?)```", README, re.DOTALL).group(1)
    targets = re.findall(r"^make (\S+)", first, re.MULTILINE)
    assert targets == ["quickstart", "test"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in {*targets, *re.findall(r"`make (\S+)`", README)}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_every_command_is_shown():
    assert set(re.findall(r"^geoalign (\w+)", README, re.MULTILINE)) == {one.name for one in app.registered_commands}


ROLLOUTS = ROOT / "recipes" / "rollouts" / "substring_reward.jsonl"


def flagged(rows):
    """Rewarded, but not the majority's answer: of several most frequent answers the first."""
    for prompt in dict.fromkeys(row["prompt"] for row in rows):
        group = [(row, final_answer(row["response"])) for row in rows if row["prompt"] == prompt]
        majority = Counter(answer for _, answer in group if answer).most_common(1)[0][0]
        yield from (row for row, answer in group if row["reward"] and answer != majority)


def test_the_figures_of_the_example_that_need_no_model(tmp_path):
    rows = [json.loads(line) for line in ROLLOUTS.read_text(encoding="utf-8").splitlines()]
    wrong = [row for row in rows if row["reward"] != row["correct"]]
    incorrect = sum(not row["correct"] for row in rows)
    settings = ["--curator", "denoise", "--set", "curator.geometry=none", "--output", str(tmp_path / "curated")]
    result = CliRunner().invoke(app, ["audit", str(ROLLOUTS), *settings])
    assert result.exit_code == 0, result.output
    scores = pd.read_parquet(tmp_path / "curated" / "scores.parquet")
    summary = json.loads((tmp_path / "curated" / "summary.json").read_text(encoding="utf-8"))
    rate = summary["verifier"]["rates"]["false_positive_rate"]
    blind = [row for row, anomalous in zip(rows, scores["anomalous"], strict=True) if anomalous]
    trivial = list(flagged(rows))
    words = " ".join(README.split())
    assert f"It proves that at least {100 * rate['low']:.0f}% of the wrong answers are rewarded" in words
    assert f"rewarded; {100 * len(wrong) / incorrect:.0f}% are. Of the {len(wrong)} wrong rewards" in words
    assert f"without the model's states {sum(row in wrong for row in blind)}, with {len(blind)}" in words
    found = sum(row in wrong for row in trivial)
    assert f'the rule "rewarded, but not the majority\'s answer" finds {found}, with {len(trivial)}' in words
