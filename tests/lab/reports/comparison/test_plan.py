import math

import pytest

from geoalign.lab.config.compare import CompareConfig
from geoalign.lab.config.compare_loading import load_compare_config, parse_compare_config
from geoalign.lab.config.train import RunConfig


def test_the_plan_of_a_resolved_comparison():
    plan = load_compare_config().config
    assert (plan.baseline, plan.control, plan.oracle) == ("grpo", "pair_count", "oracle")
    assert plan.is_primary("geoalign", "pair_count")
    assert not plan.is_primary("grpo", "geoalign")
    assert plan.corruption == {"flip_10": {"flip": 0.1}}
    assert plan.rate("flip_10") == 0.1
    assert plan.updates_per_generation == 2
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
    plan = CompareConfig(arms={}, run=RunConfig(grpo=grpo))
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
    plan = parse_compare_config(data)
    assert [plan.role(arm) for arm in plan.arms] == ["baseline", "control", "bound"]
    arms["asks"] = {"curator": {"type": "appeals"}, "reward": {"appeals": "math_verify"}}
    assert parse_compare_config(data).role("asks") == "exploratory"
    assert math.isnan(parse_compare_config({**data, "run": {"reward": {"function": "m:f"}}}).rate("b"))
    # The level is laid over the run.
    assert plan.corruption == {"a": {"shortcut": 0.05, "flip": 0.2}, "b": {"shortcut": 0.05}}
    assert plan.rate("a") == pytest.approx(0.25)
    assert math.isnan(plan.rate("c"))
    assert plan.planned("count", "a")
    assert not plan.planned("count", "b")
    assert plan.planned("baseline", "b")
