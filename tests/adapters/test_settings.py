import pytest

from geoalign import DenoiseConfig
from geoalign.adapters.settings import SlimeSettings, StateSettings, TrinitySettings, read_section
from geoalign.adapters.swift.plug_in import read_settings
from geoalign.curators.baselines.subsets import PODSConfig
from geoalign.errors import ConfigError

KINDS = [SlimeSettings, StateSettings, TrinitySettings]


@pytest.mark.parametrize("kind", KINDS)
def test_defaults_and_a_curator_by_its_name_alone_or_with_settings(kind):
    def read(given):
        return read_section(kind, given, engine="it")

    assert read(None) == kind()
    assert (read(None).curator, read(None).seed) == (DenoiseConfig(), 0)
    assert type(read({"curator": "denoise"}).curator).type == "denoise"
    assert read({"curator": {"type": "pods", "m": 4}}).curator == PODSConfig(m=4)
    members = [{"type": "grpo"}, {"type": "geoalign", "projector": {"layers": 2}}]
    assert read({"curator": {"type": "chain", "members": members}}).curator.members[1].projector.layers == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"labelled_rollouts": "a.jsonl"}, r"here\.labelled_rollouts: expected to be left out.*inside it none can"),
        (
            {"rollout_fields": {"gold": "x"}},
            r"here\.rollout_fields\.gold: expected a text that matches .*answers.*got 'gold'",
        ),
        ("denoise", "here: expected a section of that file, got 'denoise'"),
        ({"sede": 1}, r"here\.sede: unknown key: expected here\.seed"),
        ({"curator": {"widow": 1}}, r"here\.curator\.widow: unknown key: expected here\.curator\.window"),
        ({"curator": {"type": "geoaling"}}, r"here\.curator\.type"),
        ({"hidden_position": "first"}, r"here\.hidden_position"),
        ({"seed": -1}, r"here\.seed"),
    ],
)
def test_what_is_wrong_is_named(kind, given, message):
    with pytest.raises(ConfigError, match=message):
        read_section(kind, given, engine="it", path="here", place="of that file")


def test_a_file_and_the_line_of_an_error(tmp_path):
    (tmp_path / "curator.yaml").write_text("curator: {type: pods, m: 4}\nhidden_position: mean\nseed: 5\n")
    settings = read_settings(tmp_path / "curator.yaml")
    assert (settings.curator, settings.hidden_position, settings.seed) == (PODSConfig(m=4), "mean", 5)
    (tmp_path / "curator.yaml").write_text("seed: 1\ncurator: {alpah: 0.1}\n")
    with pytest.raises(ConfigError, match=r"curator\.yaml, line 2: curator\.alpah: unknown key"):
        read_settings(tmp_path / "curator.yaml")
