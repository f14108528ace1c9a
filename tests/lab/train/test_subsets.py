"""A curator that keeps a subset of each group must find as many rollouts there."""

from pathlib import Path

import pytest
from rich.console import Console

from geoalign.curators.baselines.subsets import GFPOConfig, PODSConfig
from geoalign.curators.chain import ChainConfig
from geoalign.curators.geoalign import GeoAlignConfig
from geoalign.errors import ConfigError
from geoalign.lab.config.loading import parse_run_config
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.train.run import check_subset, make_run
from geoalign.settings.locations import Locations


@pytest.mark.parametrize("kept", [8, 9])
def test_in_a_comparison_a_subset_that_keeps_everything_is_refused(kept: int) -> None:
    with pytest.raises(ConfigError, match=rf"curator.m: expected less than grpo.num_generations = 8 .*got {kept}"):
        check_subset(PODSConfig(m=kept), 8, whole=False)
    with pytest.raises(ConfigError, match=r"curator.members.1.k: expected less than"):
        check_subset(ChainConfig(members=(GeoAlignConfig(), GFPOConfig(k=kept))), 8, whole=False)


def test_smaller_subsets_and_other_curators_pass() -> None:
    for curator in (PODSConfig(m=7), PODSConfig(), GeoAlignConfig(), ChainConfig(members=(PODSConfig(m=4),))):
        check_subset(curator, 8, whole=False)
    check_subset(PODSConfig(m=8), 8, whole=True)


def test_a_run_that_keeps_more_than_a_group_does_not_start_and_names_the_line(tmp_path: Path) -> None:
    settings = {
        "task": {"type": "arithmetic", "seed": 3, "demonstrations": 8},
        "grpo": {"max_steps": 6, "num_generations": 4},
        "curator": {"type": "pods", "m": 5},
    }
    locations = Locations({"curator": "run.yaml, line 1", "curator.m": "run.yaml, line 3"})
    with pytest.raises(
        ConfigError, match=r"run.yaml, line 3: curator.m: expected at most grpo.num_generations = 4, got 5"
    ):
        make_run(parse_run_config(settings), RunFolder(tmp_path / "run"), Console(quiet=True), locations)
    assert not (tmp_path / "run").exists()
