"""The pages on evidence and the results in `evidence/` cannot part: tables, figures in sentences, the picture."""

import importlib
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
tables = importlib.import_module("evidence_tables")
facts = importlib.import_module("evidence_facts")
picture = importlib.import_module("evidence_picture")
PAGES = [page.name for page in tables.PAGES]


@pytest.mark.parametrize("page", tables.PAGES, ids=PAGES)
def test_tables_and_figures_are_those_of_the_results(page):
    assert tables.wrong(page) == []


@pytest.mark.parametrize(
    ("right", "changed"),
    [
        ("| 10 | +0.061 (-0.045", "| 10 | +0.071 (-0.045"),
        ("recovered 79%", "recovered 78%"),
        ("43 of 44 means", "42 of 44 means"),
        ("| 0.10 | seeds |", "| 0.11 | seeds |"),
    ],
    ids=["a table", "a sentence", "a claim", "a p-value by warm starts"],
)
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


def test_every_arm_that_is_drawn_has_a_look():
    assert set(tables.SHOWN) <= set(picture.LOOKS)


def test_the_page_leaves_room():
    assert len(tables.PAGES[0].read_text(encoding="utf-8").splitlines()) <= 155


def test_a_row_without_an_arm_has_a_dash_and_one_without_an_interval_the_estimate():
    nan = float("nan")
    assert tables.signed(tables.Interval(0.5, nan, nan)) == "+0.500"
    assert tables.signed(tables.Interval(-0.0001, -0.1, 0.2)) == "0.000 (-0.100 to +0.200)"
    assert tables.table(["a", "b"], [["1", ""]]) == "| a | b |\n|---|---|\n| 1 | |\n"
