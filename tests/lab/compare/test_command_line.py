"""`geoalign compare` up to the first process: what it passes on, what it refuses, how it ends."""

import json

import pytest
from command_line import call

from geoalign.lab.compare import compare as command
from geoalign.lab.compare.folder import ComparisonFolder
from geoalign.lab.compare.read_settings import load_compare_config

TEXT = "arms:\n  grpo:\n  geoalign:\nlevels: {a: {}, b: {reward: {flip: 0.1}}}\nseeds: [0, 1]\n"


@pytest.fixture
def passed_on(monkeypatch):
    """What the command hands to `compare`; `failed` and `error` say how that ends."""
    seen = {"failed": {}, "error": None}

    def compare(config, root, **options):
        seen.update(config=config, root=root, **options)
        if seen["error"] is not None:
            raise seen["error"]
        return seen["failed"]

    monkeypatch.setattr(command, "compare", compare)
    return seen


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "mine.yaml"
    place.write_text(TEXT)
    return place


def test_options_reach_the_settings(monkeypatch, passed_on, path, tmp_path):
    options = ["--curators", "geoalign, grpo", "--seeds", "4,2", "--levels", "b", "--workers", "3"]
    assert (
        call(monkeypatch, "compare", path, *options, "--set", "run.grpo.max_steps=6", "--output", tmp_path / "out") == 0
    )
    config = passed_on["config"]
    chosen = (list(config.arms), config.seeds, list(config.levels), config.workers)
    assert chosen == (["geoalign", "grpo"], [4, 2], ["b"], 3)
    assert config.run.grpo == {"max_steps": 6}
    assert (passed_on["root"], passed_on["resume"]) == (tmp_path / "out", False)
    assert passed_on["locations"].location_of("arms.grpo") == f"{path}, line 2"


def test_resuming_takes_the_folders_settings_and_options_over_them(monkeypatch, passed_on, path, tmp_path):
    ComparisonFolder(tmp_path / "out").initialise(load_compare_config(path).config)
    assert call(monkeypatch, "compare", "--output", tmp_path / "out", "--resume") == 0
    assert (passed_on["config"], passed_on["resume"]) == (ComparisonFolder(tmp_path / "out").read_config(), True)
    assert call(monkeypatch, "compare", "--output", tmp_path / "out", "--resume", "--seeds", "7") == 0
    assert (list(passed_on["config"].arms), passed_on["config"].seeds) == (["grpo", "geoalign"], [7])


def test_exit_codes(monkeypatch, capsys, passed_on, path, tmp_path):
    passed_on["failed"] = {"a/grpo/seed-0": "it broke"}
    assert call(monkeypatch, "compare", path) == 1
    assert call(monkeypatch, "compare", path, "--seeds", "0,x") == 2
    assert "--set seeds=[0,x]: seeds.1: expected a whole number, got 'x'" in capsys.readouterr().err
    assert call(monkeypatch, "compare", path, "--curators", "grpo,nobody") == 2
    assert "expected one of" in capsys.readouterr().err
    passed_on["error"] = KeyboardInterrupt()
    assert call(monkeypatch, "compare", path, "--output", tmp_path / "out") == 130
    assert f"Go on with: geoalign compare {path} --output {tmp_path / 'out'} --resume" in capsys.readouterr().err


@pytest.mark.usefixtures("undrawn")
def test_a_finished_comparison_is_only_reported_again(monkeypatch, capsys, path, tmp_path):
    """No process is started: every result is there. `geoalign report` does the same without the settings."""
    root = tmp_path / "out"
    folder = ComparisonFolder(root)
    config = load_compare_config(path).config
    folder.initialise(config)
    nothing = {"settings": {}, "detection": {"precision_among_replaced": None, "base_rate": None}, "snapshots": []}
    cost = {"seconds": 1.0, "seconds_per_step": 0.5, "peak_memory_bytes": 1}
    for number, planned in enumerate(command.planned_runs(config)):
        line = {"step": 2, "stage": "after_rl", "set": "s", "accuracy": number / 8, "correct": number, "count": 8}
        what = {"curator": planned.cell.arm, "evaluations": [line], "series": {"step": [1, 2]}}
        folder.write_result(planned, {"status": "finished", "error": None, **nothing, **cost, **what})
    left = folder.run(command.planned_runs(config)[0].cell).root
    left.mkdir(parents=True)  # a kill came before it was removed
    assert call(monkeypatch, "compare", "--output", root, "--resume") == 0
    assert not left.exists()
    said = capsys.readouterr().out
    assert "All 8 runs are finished: nothing is trained." in said
    table = json.loads((root / "table.json").read_text())
    # Level a: grpo 0 and 4 eighths, geoalign 1 and 5 eighths, with seeds 0 and 1.
    grpo = next(row for row in table["levels"][0]["arms"] if row["arm"] == "grpo")
    assert grpo["score"]["values"] == {"0": 0.0, "1": 0.5}
    rows = (root / "table.csv").read_text().splitlines()
    assert rows[0].startswith(
        "level,rate,arm,role,curator,seeds,failed,score_mean,score_low,score_high,score_difference"
    )
    # Of level a the arm geoalign: mean 3/8, and 1/8 above grpo with both seeds.
    words = next(row for row in rows if row.startswith("a,") and ",geoalign," in row).split(",")
    assert (words[7], words[10]) == ("0.375", "0.125")
    for name in ("table.json", "table.csv", "report.html"):
        (root / name).unlink()
    assert call(monkeypatch, "report", root) == 0
    assert all((root / name).is_file() for name in ("table.json", "table.csv", "report.html"))


def test_a_dry_run_checks_every_run_and_makes_nothing(monkeypatch, passed_on, path, tmp_path, capsys):
    monkeypatch.setenv("COLUMNS", "160")
    options = ["--set", "run.task.demonstrations=16", "--set", "run.task.train_problems=64", "--dry-run"]
    seeds = ["--seeds", "0,7", "--set", "seeds_per_warm_start=5"]
    assert call(monkeypatch, "compare", path, *options, *seeds, "--output", tmp_path / "out") == 0
    said = " ".join(capsys.readouterr().out.split())
    # Two arms at two levels with two seeds; seed 7 is of the second block.
    assert "│ runs │ 8 │" in said
    assert "│ seeds │ 0, 7 │" in said
    assert "│ warm starts │ 2, of seed 0-1 │" in said
    assert "config" not in passed_on
    assert not (tmp_path / "out").exists()
    wrong = ["--set", "arms.geoalign.curator.alpha=-1"]
    assert call(monkeypatch, "compare", path, *options, *wrong, "--output", tmp_path / "out") == 2
