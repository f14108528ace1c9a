"""What a compare.yaml says to the analysis."""

import math

import pytest

from geoalign.lab.config.compare_loading import load_compare_config, plain_compare_config
from geoalign.lab.store.comparison_plan import plan_of


def test_the_plan_of_a_resolved_comparison():
    plan = plan_of(plain_compare_config(load_compare_config().config))
    assert plan.arms == ("grpo", "geoalign", "pair_count", "random", "oracle", "clean")
    assert plan.primary == (("geoalign", "grpo"), ("geoalign", "pair_count"))
    assert (plan.baseline, plan.control, plan.oracle, plan.bounds) == ("grpo", "pair_count", "oracle", ("clean",))
    assert plan.corruption == {"flip_10": {"flip": 0.1}}
    assert plan.rate("flip_10") == 0.1
    assert plan.updates_per_generation == 2
    assert plan.seeds == (0, 1, 2)
    assert [plan.role(arm) for arm in plan.arms] == [
        "baseline", "primary", "control", "exploratory", "oracle", "bound",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("grpo", "updates"),
    [
        ({}, 2.0),
        ({"steps_per_generation": 1}, 1.0),
        ({"steps_per_generation": 4, "num_iterations": 2, "gradient_accumulation_steps": 2}, 4.0),
        ({"gradient_accumulation_steps": 4}, 1.0),
        ({"generation_batch_size": 64, "per_device_train_batch_size": 16}, 4.0),
        ({"generation_batch_size": 64}, None),
    ],
)
def test_updates_per_generation(grpo, updates):
    plan = plan_of({"arms": {}, "levels": {}, "seeds": [], "run": {"grpo": grpo}})
    assert plan.updates_per_generation == updates
    assert plan.zero_by_construction == (updates == 1)


def test_parts_are_told_by_settings_not_by_names():
    arms = {
        "baseline": {"curator": {"type": "grpo"}},
        "count": {"curator": {"type": "pair_count"}},
        "no_noise": {"curator": {"type": "grpo"}, "reward": {"flip": 0.0}},
    }
    data = {
        "arms": arms, "levels": {"a": {"reward": {"flip": 0.2}}, "b": {}}, "seeds": [1], "baseline": "baseline",
        "oracle": None, "run": {"reward": {"shortcut": 0.05}}, "arms_at": {"count": ["a"]},
    }  # fmt: skip
    plan = plan_of(data)
    assert (plan.control, plan.bounds, plan.oracle) == ("count", ("no_noise",), None)
    # The level is laid over the run.
    assert plan.corruption == {"a": {"shortcut": 0.05, "flip": 0.2}, "b": {"shortcut": 0.05}}
    assert plan.rate("a") == pytest.approx(0.25)
    assert math.isnan(plan.rate("c"))
    assert plan.planned("count", "a")
    assert not plan.planned("count", "b")
    assert plan.planned("baseline", "b")
