"""`+geoalign` in verl's configuration."""

import pytest

from geoalign import GeoAlignConfig
from geoalign.adapters.verl.settings import parse_settings
from geoalign.curators.baselines.subsets import PODSConfig
from geoalign.errors import ConfigError


def test_nothing_said_is_geoalign_with_its_defaults():
    settings = parse_settings(None)
    assert settings.curator == GeoAlignConfig()
    assert (settings.hidden_position, settings.seed, settings.place) == ("predicting", 0, "driver")


def test_a_curator_by_its_name_with_its_settings():
    settings = parse_settings({"curator": {"type": "pods", "m": 4}, "hidden_position": "mean", "place": "worker"})
    assert settings.curator == PODSConfig(m=4)
    assert (settings.hidden_position, settings.place) == ("mean", "worker")


def test_nested_settings_and_chains():
    settings = parse_settings(
        {"curator": {"type": "chain", "members": [{"type": "grpo"}, {"type": "geoalign", "projector": {"layers": 2}}]}}
    )
    assert settings.curator.members[1].projector.layers == 2


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"hidden_positon": "mean"}, "geoalign.hidden_positon: unknown key: expected geoalign.hidden_position"),
        ({"anchors": "a.jsonl"}, "geoalign.anchors: expected to be left out, got a value: inside verl no anchors"),
        ({"curator": {"alpah": 1}}, "geoalign.curator.alpah: unknown key: expected geoalign.curator.alpha"),
        ({"curator": {"type": "geoaling"}}, "geoalign.curator.type"),
        ({"hidden_position": "first"}, "hidden_position"),
        ({"place": "gpu"}, "place"),
        ({"seed": -1}, "seed"),
        ({"rollout_fields": {"gold": "true"}}, "expected keys out of answers, reference_rewards, true_rewards"),
        ("geoalign", "expected a section such as"),
    ],
)
def test_bad_settings_are_named(section, message):
    with pytest.raises(ConfigError, match=message):
        parse_settings(section)
