"""Curators by name: settings that pick one, and the ways in which a user says which."""

import pytest

from geoalign import CURATORS, Appeals, Chain, Curator, Denoise, Monitor, as_curator
from geoalign.adapters.settings import EngineSettings
from geoalign.curators.denoise import DenoiseConfig
from geoalign.curators.monitor import MonitorConfig
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError
from geoalign.settings.loading import load_settings


@pytest.mark.parametrize("name", list(CURATORS))
def test_settings_pick_their_curator(name, unchecked_shapes):
    curator_class = CURATORS[name]
    assert curator_class.config_class.type == name
    assert type(as_curator(curator_class.config_class())) is curator_class
    with pytest.raises(ConfigError, match="no_such_setting"):
        curator_class(no_such_setting=1)
    with pytest.raises(ConfigError, match="expected a config or keywords"):
        curator_class(curator_class.config_class(), no_such_setting=1)
    with pytest.raises(ConfigError, match="expected a"):
        curator_class(object())


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"geoalign, .*grpo.*pods.*nearest: denoise.*got 'Denoize'"):
        CURATORS["Denoize"]
    assert "geo" not in CURATORS
    assert {"geoalign", "pods", "chain"} <= set(CURATORS)


def test_a_curator_by_name_dict_settings_or_itself():
    windowed = DenoiseConfig(window=3)
    for given in ({"type": "denoise", "window": 3}, windowed, Denoise(window=3)):
        assert as_curator(given).config == Monitor(given).config.curator == Chain([given]).config.members[0] == windowed
        assert CurationSession(given, seed=0).curator.config == windowed
    assert as_curator("denoise").config == Appeals("denoise").config.curator == DenoiseConfig()
    held = Denoise()
    assert as_curator(held) is held
    assert Monitor(held).members == Monitor(curator=held).members == (held,)
    # In settings, so in YAML and of every engine.
    for name in ("denoise", {"type": "denoise"}, DenoiseConfig()):
        assert (
            load_settings(EngineSettings, {"curator": {"type": "monitor", "curator": name}}).curator == MonitorConfig()
        )
        assert MonitorConfig(curator=name) == MonitorConfig()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            "denoize",
            r"^curator: expected one of answer_mean, .*, seed_grpo, .* \(nearest: denoise\); got 'denoize'$",
        ),
        ({"type": "denoise", "windw": 3}, r"^curator\.windw: unknown key: expected curator\.window"),
        ({"type": "denoise", "window": 0}, r"^curator\.window: expected greater than or equal to 1, got 0"),
        ({"type": 3}, r"^curator\.type: expected one of .*; got 3"),
        (3, r"^curator: expected a curator \(a name such as 'denoise', .*\), got int$"),
        (Denoise, r"^curator: expected a curator, got its class: write Denoise\(\)$"),
    ],
)
def test_what_is_no_curator_is_refused_with_the_key(given, words):
    for take in (as_curator, Monitor, Appeals, lambda given: CurationSession(given, seed=0)):
        with pytest.raises(ConfigError, match=words):
            take(given)


def test_a_word_that_is_no_action_is_refused():
    with pytest.raises(ConfigError, match=r"Mine\.acts_on: expected a tuple out of rows, .*; got \('reward',\)"):
        type("Mine", (Curator,), {"acts_on": ("reward",)})
