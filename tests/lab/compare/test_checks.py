"""What is checked before a comparison trains anything."""

import pytest

from geoalign.errors import ConfigError
from geoalign.lab.compare.checks import checked_shapes


def test_a_corruption_that_the_reward_does_not_know_is_refused_by_the_runs_name():
    dialogue = {"task": {"type": "dialogue", "seed": 0, "preference_pairs": 64, "demonstrations": 64}}
    runs = {"a": {"name": "f/grpo/seed-0", "settings": {**dialogue, "reward": {"flip": 0.1}}}}
    with pytest.raises(ConfigError, match=r"f/grpo/seed-0: reward.flip: .*extremes"):
        checked_shapes(runs)


def test_runs_that_differ_in_their_seed_alone_have_one_shape():
    settings = {"task": {"type": "arithmetic", "seed": 3, "demonstrations": 8}, "grpo": {"max_steps": 6}}
    runs = {str(seed): {"name": str(seed), "settings": {**settings, "seed": seed}} for seed in range(3)}
    shapes = checked_shapes(runs)
    assert list(shapes) == ["0", "1", "2"]
    assert shapes["0"] is shapes["2"]
    assert shapes["0"] == {"max_steps": 6, "updates_per_generation": 2}
