"""A layer that the model lacks is found before the warm start."""

import pytest
from transformers import LlamaConfig

from geoalign.errors import ConfigError
from geoalign.lab.config.run import PretrainedModelConfig, RunConfig, TinyModelConfig
from geoalign.lab.train.plan import check_depth
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
