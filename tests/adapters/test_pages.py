"""The settings that the engines' pages show are those that the adapters read."""

import re
from pathlib import Path

import yaml

from geoalign import DenoiseConfig
from geoalign.adapters.decision import make_session
from geoalign.adapters.second_verifier import verifier_of_settings
from geoalign.adapters.settings import EngineSettings, SlimeSettings, StateSettings, TrinitySettings, read_section
from geoalign.curators.appeals import AppealsConfig
from geoalign.settings.yaml_text import parse_value

DOCS = Path(__file__).parents[2] / "docs"


def page(name):
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def yaml_blocks(name):
    return [yaml.safe_load(block) for block in re.findall(r"```yaml\n(.*?)```", page(name), re.DOTALL)]


def section_of_words(text, prefix):
    """The section that settings such as `+geoalign.curator.type=denoise` make."""
    section = {}
    for key, value in re.findall(rf"(?<=\s){re.escape(prefix)}([\w.]+)=(\S+)", text):
        inner = section
        *path, last = key.split(".")
        for name in path:
            inner = inner.setdefault(name, {})
        inner[last] = parse_value(value)
    return section


def asks(settings):
    """Whether these settings make a curator that asks a second verifier, and name one."""
    session = make_session(settings, how="")
    return verifier_of_settings(settings, session, gold=()) is not None


def test_the_second_verifiers_of_verl_trinity_and_skyrl_are_read():
    verl = re.search(r"^  \+geoalign.curator.type=appeals.*?^```", page("verl"), re.DOTALL | re.MULTILINE)
    assert asks(read_section(StateSettings, section_of_words(verl[0], "+geoalign."), engine="verl"))
    skyrl = re.search(r"^  geoalign.curator='(.*?)' .*?second_verifier=(\w+)", page("skyrl"), re.DOTALL | re.MULTILINE)
    section = {"curator": yaml.safe_load(skyrl[1]), "second_verifier": skyrl[2]}
    assert asks(read_section(EngineSettings, section, engine="SkyRL"))
    [trinity] = [block for block in yaml_blocks("trinity") if list(block) == ["advantage_fn_args"]]
    assert asks(read_section(TrinitySettings, trinity["advantage_fn_args"], engine="Trinity"))


def test_verls_own_command_is_read():
    command = re.search(r"^python3 -m verl.trainer.main_ppo.*?^```", page("verl"), re.DOTALL | re.MULTILINE)
    section = section_of_words(command[0], "+geoalign.")
    settings = read_section(StateSettings, section, engine="verl")
    assert (settings.curator, settings.hidden_position) == (DenoiseConfig(), "mean")
    assert settings.rollout_fields == {"answers": "answer"}


def test_ms_swifts_file_is_read():
    file, with_second_verifier = yaml_blocks("swift")
    settings = read_section(StateSettings, file, engine="ms-swift")
    assert (settings.curator, settings.hidden_position) == (DenoiseConfig(), "mean")
    assert asks(read_section(StateSettings, with_second_verifier, engine="ms-swift"))


def test_slimes_file_is_read():
    file, with_second_verifier = yaml_blocks("slime")
    settings = read_section(SlimeSettings, file["geoalign"], engine="slime")
    assert settings.curator == DenoiseConfig(geometry="none")
    assert settings.rollout_fields == {"answers": "answer"}
    assert asks(read_section(SlimeSettings, with_second_verifier["geoalign"], engine="slime"))


def test_skyrls_own_command_is_read():
    command = re.search(r"^python -m skyrl.train.entrypoints.*?^```", page("skyrl"), re.DOTALL | re.MULTILINE)
    settings = read_section(EngineSettings, section_of_words(command[0], "geoalign."), engine="SkyRL")
    assert settings.curator == DenoiseConfig(geometry="none")
    assert settings.rollout_fields == {"answers": "answer"}


def test_axolotls_section_is_read():
    plain_block, checked_block = yaml_blocks("axolotl")
    plain = read_section(StateSettings, plain_block["geoalign"], engine="Axolotl")
    assert plain.curator == DenoiseConfig()
    assert plain.hidden_position == "mean"
    checked = read_section(StateSettings, checked_block["geoalign"], engine="Axolotl")
    assert type(checked.curator) is AppealsConfig
    assert checked.second_verifier == "math_verify"
