import pytest

from geoalign.errors import ConfigError
from geoalign.lab.compare.checks import checked_shapes
from geoalign.lab.compare.plan import CellKey, planned_runs
from geoalign.lab.compare.read_settings import parse_compare_config


def plan_of(**changes):
    data = {
        "arms": {"grpo": None, "geoalign": None, "clean": None},
        "levels": {"flip_10": {"reward": {"flip": 0.1}}, "flip_20": {"reward": {"flip": 0.2}}},
        "seeds": [3, 1],
    }
    return planned_runs(parse_compare_config(data | changes))


def test_all_arms_of_a_seed_come_before_the_next_seed():
    cells = ["flip_10/grpo", "flip_10/geoalign", "flip_10/clean", "flip_20/grpo", "flip_20/geoalign"]
    of_first_seed = [f"{cell}/seed-3" for cell in cells]
    of_second_seed = [f"{cell}/seed-1" for cell in cells]
    assert [run.cell.name for run in plan_of()] == of_first_seed + of_second_seed


def test_what_does_not_depend_on_the_level_runs_once_and_fills_every_level():
    clean = next(run for run in plan_of() if run.cell.arm == "clean")
    assert clean.cells == (CellKey("flip_10", "clean", 3), CellKey("flip_20", "clean", 3))
    assert all(len(run.cells) == 1 for run in plan_of() if run.cell.arm != "clean")


def test_runs_have_their_settings_and_the_same_seed_for_every_arm():
    by_name = {run.cell.name: run.settings for run in plan_of()}
    one = by_name["flip_10/grpo/seed-3"]
    other = by_name["flip_20/geoalign/seed-3"]
    assert (one["seed"], one["reward"]["flip"], one["curator"]["type"]) == (3, 0.1, "grpo")
    assert (other["seed"], other["reward"]["flip"], other["curator"]["type"]) == (3, 0.2, "geoalign")
    assert one["task"] == other["task"]
    assert "output" not in one


def test_the_key_changes_with_everything_that_decides_the_numbers_and_with_nothing_else():
    def key(**changes):
        return plan_of(seeds=[0], **changes)[0].key

    assert key() == key()
    assert key() == key(run={"output": {"keep_checkpoints": 1}}, workers=7, metric="reward", keep_runs=True)
    others = [
        {"run": {"seed": 1}},
        {"run": {"grpo": {"learning_rate": 0.1}}},
        {"run": {"model": {"layers": 2}}},
        {"levels": {"flip_10": {"reward": {"flip": 0.11}}}},
        {"arms": {"grpo": {"curator": {"type": "grpo"}, "grpo": {"beta": 0.1}}}},
    ]
    assert len({key(), *(key(**other) for other in others)}) == 1 + len(others)


def test_blocks_of_seeds_share_a_warm_start_and_its_problems():
    runs = plan_of(
        seeds=[0, 1, 2, 3, 100],
        seeds_per_warm_start=2,
        run={"seed": 10},
        arms={"grpo": None},
    )
    one_level = [run for run in runs if run.cell.level == "flip_10"]
    # 10 + seed // 2.
    assert [run.warm_start_seed for run in one_level] == [10, 10, 11, 11, 60]
    assert [run.settings["task"]["seed"] for run in one_level] == [10, 10, 11, 11, 60]
    assert [run.settings["seed"] for run in one_level] == [0, 1, 2, 3, 100]
    assert {run.warm_start_seed for run in plan_of(run={"seed": 10})} == {10}
    # Seed 0 begins as without blocks, so that its results stay valid.
    plain = plan_of(seeds=[0], run={"seed": 10}, arms={"grpo": None})
    assert plain[0].key == one_level[0].key


def test_a_corruption_that_the_reward_does_not_know_is_refused_by_the_runs_name():
    dialogue = {"task": {"type": "dialogue", "seed": 0, "preference_pairs": 64, "demonstrations": 64}}
    runs = {"a": {"name": "f/grpo/seed-0", "settings": {**dialogue, "reward": {"flip": 0.1}}}}
    with pytest.raises(ConfigError, match=r"f/grpo/seed-0: reward.flip: .*extremes"):
        checked_shapes(runs)


def test_a_launch_of_several_processes_is_refused_before_anything_runs():
    runs = {"a": {"name": "f/grpo/seed-0", "settings": {"launch": {"processes": 2}}}}
    with pytest.raises(ConfigError, match=r"f/grpo/seed-0: run\.launch\.processes: expected nothing .*got 2"):
        checked_shapes(runs)


def test_runs_that_differ_in_their_seed_alone_have_one_shape():
    settings = {"task": {"type": "arithmetic", "seed": 3, "demonstrations": 8}, "grpo": {"max_steps": 6}}
    runs = {str(seed): {"name": str(seed), "settings": {**settings, "seed": seed}} for seed in range(3)}
    shapes = checked_shapes(runs)
    assert list(shapes) == ["0", "1", "2"]
    assert shapes["0"] is shapes["2"]
    assert shapes["0"] == {"max_steps": 6, "updates_per_generation": 2}
