"""The YAML file of a curated `swift rlhf`."""

import pytest

from geoalign import GeoAlignConfig
from geoalign.adapters.swift.settings import read_settings
from geoalign.curators.baselines.subsets import PODSConfig
from geoalign.errors import ConfigError


def test_nothing_said_is_geoalign_with_its_defaults():
    settings = read_settings({})
    assert settings.curator == GeoAlignConfig()
    assert (settings.hidden_position, settings.seed) == ("predicting", 0)


def test_a_file(tmp_path):
    (tmp_path / "curator.yaml").write_text("curator: {type: pods, m: 4}\nhidden_position: mean\nseed: 5\n")
    settings = read_settings(tmp_path / "curator.yaml")
    assert settings.curator == PODSConfig(m=4)
    assert (settings.hidden_position, settings.seed) == ("mean", 5)


def test_a_curator_by_its_name_alone():
    assert type(read_settings({"curator": "denoise"}).curator).type == "denoise"


def test_an_error_has_the_line(tmp_path):
    (tmp_path / "curator.yaml").write_text("seed: 1\ncurator: {alpah: 0.1}\n")
    with pytest.raises(
        ConfigError, match=r"curator\.yaml, line 2: curator\.alpah: unknown key: expected curator\.alpha"
    ):
        read_settings(tmp_path / "curator.yaml")


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"anchors": "a.jsonl"}, "anchors: expected to be left out, got a value: inside ms-swift no anchors"),
        ({"hidden_position": "first"}, "hidden_position"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_settings_are_named(section, message):
    with pytest.raises(ConfigError, match=message):
        read_settings(section)
