"""What is checked before a comparison trains anything."""

import pytest

from geoalign.config import ChainConfig, GeoAlignConfig, GFPOConfig, PODSConfig
from geoalign.errors import ConfigError
from geoalign.experiments.compare.checks import check_subset, checked_shapes, shape_of


@pytest.mark.parametrize("kept", [8, 9])
def test_a_subset_that_keeps_everything_is_refused(kept: int) -> None:
    with pytest.raises(ConfigError, match=rf"curator.m: expected less than grpo.num_generations = 8 .*got {kept}"):
        check_subset(PODSConfig(m=kept), 8)
    with pytest.raises(ConfigError, match=r"curator.members.1.k: expected less than"):
        check_subset(ChainConfig(members=(GeoAlignConfig(), GFPOConfig(k=kept))), 8)


def test_smaller_subsets_and_other_curators_pass() -> None:
    check_subset(PODSConfig(m=7), 8)
    check_subset(PODSConfig(), 8)
    check_subset(GeoAlignConfig(), 8)
    check_subset(ChainConfig(members=(PODSConfig(m=4),)), 8)


def test_it_is_checked_with_the_runs_own_group_size() -> None:
    settings = {"curator": {"type": "pods", "m": 4}, "grpo": {"num_generations": 4}}
    with pytest.raises(ConfigError, match="num_generations = 4"):
        shape_of(settings)
    assert shape_of({**settings, "curator": {"type": "pods", "m": 3}})["updates_per_generation"] == 2


def test_a_corruption_that_the_reward_does_not_know_is_refused_by_the_runs_name() -> None:
    dialogue = {"task": {"type": "dialogue", "seed": 0, "preference_pairs": 64, "demonstrations": 64}}
    runs = {"a": {"name": "f/grpo/seed-0", "settings": {**dialogue, "reward": {"flip": 0.1}}}}
    with pytest.raises(ConfigError, match=r"f/grpo/seed-0: reward.flip: .*extremes"):
        checked_shapes(runs)


def test_runs_that_differ_in_their_seed_alone_have_one_shape() -> None:
    settings = {"task": {"type": "arithmetic", "seed": 3, "demonstrations": 8}, "grpo": {"max_steps": 6}}
    runs = {str(seed): {"name": str(seed), "settings": {**settings, "seed": seed}} for seed in range(3)}
    shapes = checked_shapes(runs)
    assert list(shapes) == ["0", "1", "2"]
    assert shapes["0"] is shapes["2"]
    assert shapes["0"] == {"max_steps": 6, "updates_per_generation": 2}
