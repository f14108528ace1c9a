import math

import pytest

from geoalign.lab.compare.read_settings import load_compare_config, parse_compare_config
from geoalign.lab.compare.settings import updates_per_generation


def test_the_plan_of_a_resolved_comparison():
    plan = load_compare_config().config
    assert (plan.baseline, plan.control, plan.oracle) == ("grpo", "pair_count", "oracle")
    assert plan.is_primary("denoise", "grpo")
    assert not plan.is_primary("grpo", "denoise")
    assert plan.corruption("flip_10") == {"flip": 0.1}
    assert plan.rate("flip_10") == 0.1
    assert plan.updates_per_generation("flip_10", "grpo") == 2
    assert [plan.role(arm) for arm in plan.arms] == [
        "baseline", "primary", "exploratory", "control", "oracle", "bound",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("grpo", "updates"),
    [
        ({}, 2.0),
        ({"steps_per_generation": 1}, 1.0),
        ({"steps_per_generation": 4, "num_iterations": 2, "gradient_accumulation_steps": 2}, 4.0),
        ({"gradient_accumulation_steps": 4}, 1.0),
        ({"generation_batch_size": 64, "per_device_train_batch_size": 16}, 4.0),
        ({"generation_batch_size": 64}, math.nan),
    ],
)
def test_updates_per_generation(grpo, updates):
    assert updates_per_generation(grpo) == pytest.approx(updates, nan_ok=True)


def test_what_a_level_or_an_arm_overrides_is_read_from_it():
    data = {
        "run": {"grpo": {"steps_per_generation": 2}, "reward": {"flip": 0.1}, "curator": {"type": "pair_count"}},
        "arms": {"grpo": None, "count": {}, "noisier": {"reward": {"flip": 0.3}}, "clean": None, "own": {}},
        "levels": {
            "as_given": {},
            "one_update": {"grpo": {"steps_per_generation": 1}},
            "more": {"reward": {"flip": 0.4}},
        },
    }
    plan = parse_compare_config(data)
    assert [plan.updates_per_generation(level, "grpo") for level in plan.levels] == [2, 1, 2]
    assert [plan.rate("more", arm) for arm in plan.arms] == [0.4, 0.4, 0.3, 0.0, 0.4]
    assert plan.corruption("more", "noisier") == {"flip": 0.3}
    # An arm without a curator of its own has that of the base run; a curator may be a name alone.
    assert plan.control == "count"
    assert parse_compare_config({"arms": {"grpo": None, "by_name": {"curator": "pair_count"}}}).control == "by_name"
    erring = parse_compare_config({**data, "arms": {"grpo": None, "own": {"reward": {"function": "m:f"}}}})
    assert math.isnan(erring.rate("more", "own"))
    assert erring.rate("more", "grpo") == 0.4


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
    assert plan.corruption("a") == {"shortcut": 0.05, "flip": 0.2}
    assert plan.corruption("b") == {"shortcut": 0.05}
    assert plan.rate("a") == pytest.approx(0.25)
    assert math.isnan(plan.rate("c"))
    assert plan.planned("count", "a")
    assert not plan.planned("count", "b")
    assert plan.planned("baseline", "b")
