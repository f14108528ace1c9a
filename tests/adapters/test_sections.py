"""What every engine's settings have in common."""

import pytest

from geoalign.adapters.sections import read_section
from geoalign.adapters.slime.settings import SlimeSettings
from geoalign.adapters.swift.settings import SwiftSettings
from geoalign.adapters.trinity.settings import TrinitySettings
from geoalign.adapters.verl.settings import VerlSettings
from geoalign.errors import ConfigError

KINDS = [SlimeSettings, SwiftSettings, TrinitySettings, VerlSettings]


@pytest.mark.parametrize("kind", KINDS)
def test_a_curator_by_its_name_alone(kind):
    assert type(read_section(kind, {"curator": "denoise"}, engine="it").curator).type == "denoise"
    assert read_section(kind, None, engine="it") == kind()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"anchors": "a.jsonl"}, r"here\.anchors: expected to be left out, got a value: inside it no anchors"),
        ({"rollout_fields": {"gold": "x"}}, r"here\.rollout_fields: expected keys out of answers, .*got 'gold'"),
        ("denoise", "here: expected a section of that file, got 'denoise'"),
    ],
)
def test_what_is_wrong_is_named(kind, given, message):
    with pytest.raises(ConfigError, match=message):
        read_section(kind, given, engine="it", path="here", place="of that file")
