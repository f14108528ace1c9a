import functools
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from geoalign.answers.function import load_function
from geoalign.lab.compare.checks import shape_of
from geoalign.lab.compare.plan import planned_runs, warm_start_seed
from geoalign.lab.compare.read_settings import load_compare_config

CONFIGS = Path(__file__).parents[3] / "configs"
VERIFIERS = sorted((CONFIGS / "evidence").glob("real_verifier_*.yaml"))
# Those of the first plan; later ones have other seeds and arms.
OF_FIRST_PLAN = ("dialogue", "dialogue_unbiased", "dialogue_wide", "math", "math_hard", "math_wide")
EVIDENCE = [CONFIGS / "evidence" / f"{name}.yaml" for name in OF_FIRST_PLAN]
COMPARISONS = [
    path
    for path in sorted(CONFIGS.rglob("*.yaml"))
    if path in (*EVIDENCE, *VERIFIERS) or "arms" in yaml.safe_load(path.read_text(encoding="utf-8"))
]
# Those of a pretrained model and of data that are not in the repository start in tests/real.
GENERATED = [path for path in COMPARISONS if path.parent.name != "real" and not path.stem.startswith("real_")]
PAPER = [path for path in COMPARISONS if path.parent.name == "paper"]
TASKS = {}  # made once for all comparisons that share a base run


@functools.cache
def config_of(path):
    return load_compare_config(path).config


@functools.cache
def runs_of(path):
    """The runs of a comparison; of one with many seeds those of the first and last."""
    config = config_of(path)
    few = config.seeds if len(config.seeds) < 20 else [config.seeds[0], config.seeds[-1]]
    return planned_runs(replace(config, seeds=few))


def small(settings):
    """The settings of a run with little to generate, which takes seconds and changes no number of updates."""
    if settings["task"]["type"] != "dialogue":
        return settings
    return {**settings, "task": {**settings["task"], "preference_pairs": 64, "demonstrations": 64}}


@pytest.mark.parametrize("path", COMPARISONS, ids=lambda path: path.stem)
def test_it_sets_what_a_comparison_has_and_plans_runs(path):
    given = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert given.keys() <= {"base", *vars(config_of(path))}
    assert runs_of(path)


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_the_papers_corruption_is_a_fixed_share_exactly_on_the_extremes(path):
    for planned in runs_of(path):
        reward = planned.settings["reward"]
        assert reward["fixed_share"]
        assert not reward["extremes"] or reward["jitter"] == 0, planned.cell


@pytest.mark.parametrize("path", EVIDENCE, ids=lambda path: path.stem)
def test_the_plans_of_evidence_spread_twenty_seeds_over_four_warm_starts(path):
    config = config_of(path)
    first = 10 if "dialogue" in path.stem else 0  # dialogue's seeds 0 to 9 had their round
    assert config.seeds == list(range(first, first + 20))
    starts = sorted({warm_start_seed(config, seed) for seed in config.seeds})
    assert starts == list(range(first // 5, first // 5 + 4))
    assert {run.warm_start_seed for run in runs_of(path)} == {starts[0], starts[-1]}
    assert {"grpo", "geoalign", "denoise", "pair_count", "oracle", "clean"} <= config.arms.keys()
    noise = [run.settings["reward"] for run in runs_of(path) if not run.settings["reward"]["shortcut"]]
    assert all(reward["fixed_share"] and (not reward["extremes"] or not reward["jitter"]) for reward in noise)


@pytest.mark.parametrize("path", VERIFIERS, ids=lambda path: path.stem)
def test_the_plans_with_a_wrong_verifier_inject_nothing_and_have_two_seeds_a_warm_start(path):
    config = config_of(path)
    assert [warm_start_seed(config, seed) for seed in config.seeds] == [seed // 2 for seed in config.seeds]
    assert config.seeds == list(range(18, 26))
    for planned in runs_of(path):
        reward = planned.settings["reward"]
        assert not any(reward[name] for name in ("flip", "extremes", "shortcut", "second_verifier"))
        verifier = f"geoalign.answers.naive:{path.stem.removeprefix('real_verifier_')}"
        assert reward["function"] == (None if planned.cell.arm == "clean" else verifier)


@pytest.mark.parametrize("path", [None, *GENERATED], ids=lambda path: path.stem if path else "defaults")
def test_every_arm_could_start_and_makes_two_updates_on_a_generation(path):
    assert GENERATED
    by_arm = {planned.cell.arm: planned.settings for planned in runs_of(path)}
    shapes = [shape_of(small(settings), TASKS) for settings in by_arm.values()]
    assert {shape["updates_per_generation"] for shape in shapes} <= {2, 3, 4}  # at one KL is 0 by construction
    assert len({shape["max_steps"] for shape in shapes}) == 1


def test_errors_that_repeat_hit_two_answers_in_five_and_equal_answers_alike():
    flipped = load_function(f"{CONFIGS}/evidence/repeated.py:flipped_40")
    rewards = flipped(["1 + 1"] * 2000, [rf"\boxed{{{row % 1000}}}" for row in range(2000)], ["none"] * 2000)
    assert rewards[:1000] == rewards[1000:]
    assert 350 < sum(rewards[:1000]) < 450
    checked = load_function(f"{CONFIGS}/evidence/repeated.py:checked_majority")
    given = ["no box"] * 3 + [r"\boxed{1}"] * 2 + [r"\boxed{2}"] * 2
    assert [checked("aaaaaab", given, gold * 7) for gold in "12"] == [[0, 0, 0, 1, 1, 0, 0], [0] * 6 + [1]]
