"""The table of a comparison on a terminal and as CSV, from results made by hand."""

import csv
import io
import json

import pytest
from rich.console import Console

from geoalign.lab.analysis.comparison.analysis import analyse
from geoalign.lab.compare.table import as_csv, print_table
from geoalign.lab.config.compare_loading import parse_compare_config
from geoalign.lab.store.comparison import parse_cell

NAMES = ["grpo", "denoise_with_states_and_answers", "confident_learning", "oracle", "clean"]


def cell(arm, seed, score, gold=None):
    line = {"step": 10, "stage": "after_rl", "set": "test", "accuracy": score, "correct": None, "count": 8}
    rankings = {name: {"auroc": 0.625, "auprc": 0.5} for name in ("score", "pair_count")}
    value = {
        "schema_version": 1,
        "arm": arm,
        "level": "flip_40",
        "seed": seed,
        "status": "finished" if score is not None else "failed",
        "curator": arm,
        "evaluations": [{**line, "reward": score, "gold_utility": gold}] if score is not None else [],
        "detection": {} if arm == "clean" else {**rankings, "precision_among_replaced": 0.75, "base_rate": 0.4},
        "series": {"step": [1], "advantage_cosine": [0.875], "observed_advantage_cosine": [0.5]},
        "run": {"grpo": {}},
    }
    return parse_cell(json.loads(json.dumps(value)), None)


@pytest.fixture
def table():
    return made(lambda arm, seed: cell(arm, seed, 0.25 + 0.125 * NAMES.index(arm) + 0.01 * seed))


def made(make, metric="accuracy"):
    plan = {
        "arms": {name: {"curator": {"type": "grpo"}} for name in NAMES},
        "levels": {"flip_40": {"reward": {"flip": 0.4}}},
    }
    plan["arms"]["clean"] = {"curator": {"type": "grpo"}, "reward": {"flip": 0.0}}
    cells = [make(arm, seed) for arm in NAMES for seed in (0, 1, 2)]
    return analyse(cells, parse_compare_config({**plan, "metric": metric}))


def printed(table, width=80):
    console = Console(record=True, width=width, file=io.StringIO())
    print_table(console, table)
    return console.export_text()


def test_names_are_whole_and_columns_at_most_five_on_80_columns(table):
    lines = [line for line in printed(table).splitlines() if "│" in line]
    for name in NAMES:
        assert sum(line.startswith(f"│ {name} ") for line in lines) == 2, name
    assert all(line.count("│") <= 6 and len(line) <= 80 for line in lines)


def test_a_row_is_of_one_population():
    # The second seed of the baseline failed: of the others what stands beside a difference is over the other two.
    def make(arm, seed):
        return cell(
            arm, seed, None if (arm, seed) == ("grpo", 1) else {"grpo": 0.25}.get(arm, 0.5) + 0.25 * (seed == 1)
        )

    table = made(make)
    line = next(line for line in printed(table, 120).splitlines() if line.startswith("│ clean "))
    assert [part.strip() for part in line.split("│")[1:-1]] == ["clean", "2 of 3", "0.5", "+0.25"]
    assert "the arms have finished different seeds (grpo: 0, 2; " in " ".join(printed(table).split())


def test_the_truth_stands_beside_its_proxy():
    gold = {"grpo": -0.03, "clean": -0.57}
    table = made(lambda arm, seed: cell(arm, seed, 0.5, gold.get(arm, -0.93)), metric="reward")
    said = printed(table, 120)
    assert "gold utility" in said
    assert "-0.57" in said


def test_what_the_terminal_leaves_out_is_in_the_csv(table):
    rows = {row["arm"]: row for row in csv.DictReader(io.StringIO(as_csv(table)))}
    ours = rows["confident_learning"]
    assert (ours["auroc_mean"], ours["average_precision_mean"], ours["pair_count_auroc_mean"]) == (
        "0.625",
        "0.5",
        "0.625",
    )
    assert (ours["corrupted_among_replaced_mean"], ours["corrupted_mean"], ours["score_pairs"]) == ("0.75", "0.4", "3")
    assert rows["clean"]["auroc_mean"] == ""
