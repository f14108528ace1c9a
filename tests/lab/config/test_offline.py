"""The settings of `geoalign curate` from the command line."""

import pytest

from geoalign.curators.baselines.subsets import PODSConfig
from geoalign.curators.controls import PairCountConfig
from geoalign.curators.geoalign import GeoAlignConfig
from geoalign.errors import ConfigError
from geoalign.lab.config.curate import load_curate_config


def test_curator_and_settings():
    assert isinstance(load_curate_config().curator, GeoAlignConfig)
    config = load_curate_config("pair_count", ["curator.alpha=0.2", "batch_size=3", "prompts=text"])
    assert isinstance(config.curator, PairCountConfig)
    assert (config.curator.alpha, config.batch_size, config.prompts) == (0.2, 3, "text")
    assert load_curate_config(None, ["curator.type=pods", "curator.m=3"]).curator == PODSConfig(m=3)
    assert load_curate_config(None, ["curator.projector.steps=5"]).curator.projector.steps == 5
    chain = load_curate_config("chain", ["curator.members=[{type: pair_count}, {type: pods, m: 2}]"]).curator
    assert chain.members == (PairCountConfig(), PODSConfig(m=2))


@pytest.mark.parametrize(
    ("curator", "setting", "message"),
    [
        ("pair", "seed=1", r"--curator pair: curator.type: expected one of .*got 'pair'"),
        (None, "curator.alhpa=1", r"curator.alhpa: unknown key: expected curator.alpha"),
        (None, "batchsize=1", r"batchsize: unknown key: expected batch_size"),
        (None, "batch_size=0", r"batch_size: expected greater than or equal to 1, got 0"),
        (None, "prompts=raw", r"prompts: expected 'auto', 'chat' or 'text', got 'raw'"),
        (None, "curator=3", r"curator: expected a section of settings, got 3"),
        ("geoalign", "curator.type=pods", r"curator.type: expected once, got --curator geoalign and"),
    ],
)
def test_wrong_settings_are_named(curator, setting, message):
    with pytest.raises(ConfigError, match=message):
        load_curate_config(curator, [setting])
