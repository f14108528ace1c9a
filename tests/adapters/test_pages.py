"""The settings that the engines' pages show are those that the adapters read."""

import re
from pathlib import Path

import yaml

from geoalign import DenoiseConfig
from geoalign.adapters.settings import EngineSettings, SlimeSettings, StateSettings, read_section
from geoalign.settings.yaml_text import parse_value

DOCS = Path(__file__).parents[2] / "docs"


def page(name):
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def yaml_block(name):
    [block] = re.findall(r"```yaml\n(.*?)```", page(name), re.DOTALL)
    return yaml.safe_load(block)


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


def test_verls_own_command_is_read():
    command = re.search(r"^python3 -m verl.trainer.main_ppo.*?^```", page("verl"), re.DOTALL | re.MULTILINE)
    section = section_of_words(command[0], "+geoalign.")
    settings = read_section(StateSettings, section, engine="verl")
    assert (settings.curator, settings.hidden_position) == (DenoiseConfig(), "mean")
    assert settings.rollout_fields == {"answers": "answer"}


def test_ms_swifts_file_is_read():
    settings = read_section(StateSettings, yaml_block("swift"), engine="ms-swift")
    assert (settings.curator, settings.hidden_position) == (DenoiseConfig(), "mean")


def test_slimes_file_is_read():
    settings = read_section(SlimeSettings, yaml_block("slime")["geoalign"], engine="slime")
    assert settings.curator == DenoiseConfig(geometry="none")
    assert settings.rollout_fields == {"answers": "answer"}


def test_skyrls_own_command_is_read():
    command = re.search(r"^python -m skyrl.train.entrypoints.*?^```", page("skyrl"), re.DOTALL | re.MULTILINE)
    settings = read_section(EngineSettings, section_of_words(command[0], "geoalign."), engine="SkyRL")
    assert settings.curator == DenoiseConfig(geometry="none")
    assert settings.rollout_fields == {"answers": "answer"}


def test_axolotls_section_is_read():
    section = yaml_block("axolotl")["geoalign"]
    settings = read_section(StateSettings, section, engine="Axolotl")
    assert (settings.curator, settings.hidden_position) == (DenoiseConfig(), "mean")
