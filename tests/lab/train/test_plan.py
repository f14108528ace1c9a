"""What the plan refuses before anything is written: layers that the model lacks, subsets larger than a group."""

from pathlib import Path

import pytest
from rich.console import Console
from transformers import LlamaConfig

from geoalign.curators.baselines.subsets import GFPOConfig, PODSConfig
from geoalign.curators.chain import ChainConfig
from geoalign.curators.geoalign import GeoAlignConfig
from geoalign.errors import ConfigError
from geoalign.lab.config.loading import parse_run_config
from geoalign.lab.config.run import PretrainedModelConfig, RunConfig, TinyModelConfig
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.train.plan import check_depth, check_subset, make_plan
from geoalign.settings.locations import Locations


@pytest.fixture
def saved(tmp_path):
    LlamaConfig(num_hidden_layers=3, hidden_size=16, num_attention_heads=2).save_pretrained(tmp_path)
    return PretrainedModelConfig(path=str(tmp_path))


def test_layers_that_are_there_pass(saved):
    check_depth(RunConfig(model=saved, hidden_layer=[0, 3, 0.5]))
    check_depth(RunConfig(model=TinyModelConfig(layers=2), hidden_layer=2))
    # The last layer needs no depth: nothing is read.
    check_depth(RunConfig(model=PretrainedModelConfig(path="/nowhere")))


def test_others_are_refused_with_their_place(saved):
    where = Locations({"hidden_layer": "run.yaml, line 3"})
    with pytest.raises(ConfigError, match=r"run\.yaml, line 3: hidden_layer: expected at most 3, .* got 4"):
        check_depth(RunConfig(model=saved, hidden_layer=[1, 4]), where)
    with pytest.raises(ConfigError, match="hidden_layer: expected at most 2, the model's depth, got 3"):
        check_depth(RunConfig(model=TinyModelConfig(layers=2), hidden_layer=3))
    with pytest.raises(ConfigError, match=r"model\.path: expected a model, got '/nowhere'"):
        check_depth(RunConfig(model=PretrainedModelConfig(path="/nowhere"), hidden_layer=1))


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
        make_plan(parse_run_config(settings), RunFolder(tmp_path / "run"), Console(quiet=True), locations)
    assert not (tmp_path / "run").exists()
