"""The pages on evidence and the results in `evidence/` cannot part: tables, figures in sentences, the picture."""

import importlib
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from geoalign.lab.store.read_run import Evaluation

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
tables = importlib.import_module("evidence_tables")
results = importlib.import_module("evidence_results")
picture = importlib.import_module("evidence_picture")
PAGES = [page.name for page in tables.PAGES]


@pytest.mark.parametrize("page", tables.PAGES, ids=PAGES)
def test_tables_and_figures_are_those_of_the_results(page):
    assert tables.wrong(page) == []


@pytest.mark.parametrize(("right", "changed"), [("60% to 191%", "60% to 190%"), ("43 of 44", "42 of 44")])
def test_a_changed_figure_would_be_noticed(tmp_path, right, changed):
    text = tables.PAGES[0].read_text(encoding="utf-8")
    assert right in text
    copy = tmp_path / "evidence.md"
    copy.write_text(text.replace(right, changed), encoding="utf-8")
    assert len(tables.wrong(copy)) == 1


@pytest.mark.parametrize("name", picture.PANELS)
def test_the_pictures_show_the_results(name):
    drawn = (picture.FOLDER / f"{name}.svg").read_text(encoding="utf-8").rstrip().splitlines()[-1]
    assert json.loads(drawn.removeprefix("<!-- ").removesuffix(" -->")) == picture.shown(name)
    assert picture.picture(name).startswith(b"<?xml")


def test_a_row_without_an_arm_has_a_dash_and_one_without_an_interval_the_estimate():
    nan = float("nan")
    assert tables.signed(tables.Interval(0.5, nan, nan)) == "+0.500"
    assert tables.signed(tables.Interval(-0.0001, -0.1, 0.2)) == "0.000 (-0.100 to +0.200)"
    assert tables.table(["a", "b"], [["1", ""]]) == "| a | b |\n|---|---|\n| 1 | |\n"


class Cell(SimpleNamespace):
    __hash__ = object.__hash__


def cell(proxy, gold=(), steps=(0, 10, 20, 40)):
    gold = gold or [math.nan] * len(proxy)
    lines = [
        Evaluation(step, "rl" if step else "before_rl", "dialogue", math.nan, None, 1, reward, utility, 1, {})
        for step, reward, utility in zip(steps, proxy, gold, strict=False)
    ]
    return Cell(evaluations=tuple(lines))


def test_the_step_at_which_a_value_is_first_reached():
    rising = cell([0.0, 1.0, 2.0, 3.0])
    # 2.5 is half of the way from step 20 to step 40.
    assert results.step_of(rising, "reward", 2.5) == pytest.approx(30)
    assert results.step_of(rising, "reward", 0.0) == 0
    assert math.isnan(results.step_of(rising, "reward", 3.5))
    # It falls again: the first time counts, 0.5 / 2 of the way from step 0 to step 10.
    assert results.step_of(cell([0.0, 2.0, 0.0, 3.0]), "reward", 0.5) == pytest.approx(2.5)


def test_the_gold_utility_at_equal_proxy_reward():
    # 1.5 is reached at step 15, half of the way from 6 to 2.
    assert results.at_equal(
        cell([0.0, 1.0, 2.0, 3.0], [8.0, 6.0, 2.0, 1.0]), "reward", 1.5, "gold_utility"
    ) == pytest.approx(4)
    assert math.isnan(results.at_equal(cell([0.0, 1.0, 2.0, 3.0], [8.0, 6.0, 2.0, 1.0]), "reward", 9, "gold_utility"))
    assert math.isnan(results.at_equal(cell([0.0, 1.0, 2.0, 3.0]), "reward", 1.5, "gold_utility"))


def test_a_score_of_wrong_answers_ranks_the_two_rewards_in_opposite_directions():
    # Score = the answer is wrong. Reward 1: corrupted are the wrong answers, found. Reward 0: they are the right ones.
    wrong = np.array([1, 1, 0, 0, 1, 1, 0, 0], dtype=bool)
    reward = np.array([1, 0, 1, 0, 1, 0, 1, 0], dtype=float)
    corrupted = (reward == 1) == wrong
    snapshot = SimpleNamespace(score=wrong.astype(float), reward=reward, corrupted=corrupted)
    holder = SimpleNamespace(snapshots=(snapshot, SimpleNamespace(score=None, reward=None, corrupted=None)))
    assert results.auroc_at_reward(holder, 1) == 1
    assert results.auroc_at_reward(holder, 0) == 0
    assert math.isnan(results.auroc_at_reward(SimpleNamespace(snapshots=()), 1))
