"""Evaluation lines of both kinds, and the run report of a task whose reward is no verdict of right or wrong."""

import json

import pytest
from matplotlib.figure import Figure
from pages import words

from geoalign.lab.runs.curves import evaluation_panels
from geoalign.lab.runs.numbers import numbers_of
from geoalign.lab.runs.reading import read_run
from geoalign.lab.train.page import before_and_after_rows
from geoalign.pages.style import LIGHT
from geoalign.report import build_report

DIALOGUE = {
    "step": 5, "stage": "rl", "set": "held out", "accuracy": None, "correct": None, "count": 4, "reward": 1.5,
    "gold_utility": 0.25, "samples": 2, "pass_at_k": None,
}  # fmt: skip


@pytest.fixture
def dialogue_run(make_run):
    folder = make_run(steps=2, curator="grpo", flip=0.0)
    values = [("before_rl", 0, 0.5, 0.4), ("rl", 1, 1.0, 0.5), ("rl", 2, 1.5, 0.3), ("after_rl", 2, 2.0, 0.2)]
    lines = [
        {**DIALOGUE, "stage": stage, "step": step, "reward": reward, "gold_utility": gold}
        for stage, step, reward, gold in values
    ]
    (folder / "evaluation.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_proxy_reward_and_gold_utility_over_steps(dialogue_run):
    numbers = numbers_of(read_run(dialogue_run))
    (row,) = before_and_after_rows(numbers)
    assert (row.binary, row.scored) == (False, True)
    assert (row.set, row.before["reward"], row.after["reward"]) == ("held out", 0.5, 2.0)
    assert (row.before["gold_utility"], row.after["gold_utility"]) == (0.4, 0.2)
    # The truth stands before its proxy.
    gold, proxy = evaluation_panels(numbers)
    axes = Figure().add_subplot()
    proxy.draw(axes, LIGHT)
    # At step 2 the evaluation after RL counts.
    assert axes.get_lines()[0].get_xdata().tolist() == [0, 1, 2]
    assert axes.get_lines()[0].get_ydata().tolist() == [0.5, 1.0, 2.0]
    assert "held out from 0.400 at step 0 to 0.200 at step 2" in gold.alt


@pytest.mark.usefixtures("undrawn")
def test_the_page_of_a_dialogue_run(dialogue_run):
    said = words(build_report(dialogue_run).read_text(encoding="utf-8"))
    # The truth comes first, and no claim is made of one seed.
    summary = said[said.index("Summary") :]
    assert summary.index("from 0.4 to 0.2") < summary.index("from 0.5 to 2")
    assert "held out 0.400 0.200 0.500 2" in said
    assert {path.stem for path in (dialogue_run / "figures").iterdir()} >= {"evaluation-reward", "evaluation-gold"}


def test_an_unknown_gold_utility_is_not_drawn(dialogue_run):
    path = dialogue_run / "evaluation.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**line, "gold_utility": None}) + "\n" for line in lines))
    assert [panel.name for panel in evaluation_panels(numbers_of(read_run(dialogue_run)))] == ["evaluation-reward"]
