"""Settings files and command lines as nobody should write them: each is refused by file, line and key, or kept exactly.

`train --dry-run` reads every one of them; nothing is trained.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness import Outcome, refused, run
from settings import (
    EXACT,
    NO_NUMBER,
    NO_SWITCH,
    REFUSED_BYTES,
    REFUSED_TEXTS,
    Setting,
    bombs,
    texts_that_look_otherwise,
    typed_settings,
    wrong_values,
)

from geoalign.errors import ConfigError
from geoalign.lab.config.loading import load_run_config, parse_run_config
from geoalign.settings.loading import plain_settings
from geoalign.settings.yaml_text import dump_yaml, parse_yaml

# What a test draws of a corpus in the normal run; the long form takes all.
EVERY = 29


pytestmark = pytest.mark.usefixtures("heavy_imports")


def written(folder: Path, content: str | bytes, name: str = "run.yaml") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return path


def dry_run(path: Path | str | None = None, *overrides: str) -> Outcome:
    given = [part for override in overrides for part in ("--set", override)]
    return run("train", *([path] if path else []), *given, "--dry-run")


def test_wrong_texts_are_refused_by_file_line_and_key(tmp_path: Path) -> None:
    wrong = {}
    for text, line, key in REFUSED_TEXTS:
        path = written(tmp_path, text)
        parts = [str(path), *([f"line {line}: "] if line else []), *([key] if key else [])]
        if found := refused(dry_run(path), *parts):
            wrong[text[:80]] = found
    assert not wrong


def test_wrong_bytes_and_bombs_are_refused_by_file(tmp_path: Path) -> None:
    wrong = {}
    for content in [*REFUSED_BYTES, *bombs()]:
        path = written(tmp_path, content)
        if found := refused(dry_run(path), str(path)):
            wrong[str(content[:60])] = found
    assert not wrong


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: socket_at(path)])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    path = tmp_path / "run.yaml"
    make(path)
    assert not refused(dry_run(path), str(path), "expected a readable YAML file")
    below = written(tmp_path, "base: run.yaml\n", "above.yaml")
    assert not refused(dry_run(below), str(below), "line 1", "base")
    assert not refused(dry_run(None, f"launch.accelerate={path}"), "--set launch.accelerate=", str(path))


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty", "/dev/random"])
def test_devices_are_refused_at_once(device: str) -> None:
    assert not refused(dry_run(device), device)


def test_standard_input_from_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        assert not refused(dry_run(f"/proc/self/fd/{reading}"), "got a pipe")
    finally:
        os.close(reading)
        os.close(writing)


def test_files_that_build_on_one_another(tmp_path: Path) -> None:
    for number in range(40):
        written(tmp_path, f"base: {number + 1}.yaml\n", f"{number}.yaml")
    written(tmp_path, "seed: 3\n", "40.yaml")
    assert not refused(dry_run(tmp_path / "0.yaml"), "at most 10 files", "line 1", "base")
    assert load_run_config(tmp_path / "32.yaml").config.seed == 3
    written(tmp_path, "base: b.yaml\n", "a.yaml")
    written(tmp_path, "base: a.yaml\n", "b.yaml")
    assert not refused(dry_run(tmp_path / "a.yaml"), "line 1", "base", "does not build on this one")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    assert not refused(dry_run(tmp_path / "loop.yaml"), "loop.yaml")
    assert not refused(dry_run("x" * 5000))


def of_every_setting(step: int) -> list[tuple[Setting, str]]:
    return [(setting, value) for setting in typed_settings() for value in wrong_values(setting)][::step]


def wrong_kinds(step: int) -> dict[str, list[str]]:
    wrong = {}
    for setting, value in of_every_setting(step):
        override = f"{setting.key}={value}"
        if found := refused(dry_run(None, *setting.kind, override), f"--set {setting.key}=", f"{setting.key}: "):
            wrong[override[:80]] = found
    return wrong


def test_a_value_of_another_kind_is_refused_for_every_setting() -> None:
    assert not wrong_kinds(EVERY)


@pytest.mark.slow
def test_every_value_of_another_kind_is_refused_for_every_setting() -> None:
    assert len(of_every_setting(1)) > 1500
    assert not wrong_kinds(1)


def test_the_same_holds_for_every_option_of_trl() -> None:
    from trl import GRPOConfig, RewardConfig, SFTConfig

    from geoalign.lab.train.options import _SET_HERE, check_options

    accepted = []
    for section, kind in (("grpo", GRPOConfig), ("sft", SFTConfig), ("reward_model", RewardConfig)):
        for name, item in kind.__dataclass_fields__.items():
            # As written in the class: an argument parser in this process may have changed the fields' own types.
            classes = [parent for parent in kind.__mro__ if name in vars(parent).get("__annotations__", {})]
            annotation = classes[0].__annotations__[name] if classes else item.type
            types = set(re.findall(r"\w+", getattr(annotation, "__name__", "") + str(annotation)))
            values: list[Any] = [{"a": {1}}] if types & {"int", "float", "bool"} else []
            if types & {"int", "float"} and "bool" not in types:
                values += [True, False, ["1"], [True], float("nan"), float("inf")]
            if types & {"int", "float"} and "str" not in types:
                values += ["1", "yes"]
            if "bool" in types and "str" not in types:
                values += [0, 1, 1.0, "true", []]
            for value in values if name not in _SET_HERE and item.init and "dict" not in types else []:
                try:
                    check_options(kind, section, {name: value})
                except ConfigError as error:
                    if str(error).startswith(f"{section}.{name}: expected"):
                        continue
                accepted.append((section, name, value))
    assert not accepted


def test_what_is_accepted_is_what_was_written(tmp_path: Path) -> None:
    for text, key, expected in EXACT:
        config = load_run_config(written(tmp_path, text)).config
        value: Any = plain_settings(config)
        for part in key.split("."):
            value = value[part]
        assert value == expected, text
        assert type(value) is type(expected), text
        # And so it is after the run folder's own file.
        again = parse_run_config(parse_yaml(dump_yaml(plain_settings(config)), "config.yaml")[0])
        assert again == config, text


def resolved(folder: Path, count: int, seed: int) -> None:
    for text in texts_that_look_otherwise(count, seed):
        data = {
            "output": {"folder": text},
            "grpo": {"run_name": text, "generation_kwargs": {text: [text, {"a": text}]}},
        }
        path = written(folder, dump_yaml(data))
        plain = plain_settings(load_run_config(path).config)
        assert (plain["output"]["folder"], plain["grpo"]) == (text, data["grpo"])
        # Where PyYAML reads it as text too, it is the same text.
        assert yaml.safe_load(dump_yaml(data))["output"]["folder"] == text


def test_texts_stay_texts_through_the_file_of_a_run(tmp_path: Path) -> None:
    resolved(tmp_path, 120, seed=0)


@pytest.mark.slow
def test_many_texts_stay_texts_through_the_file_of_a_run(tmp_path: Path) -> None:
    resolved(tmp_path, 20_000, seed=1)


def test_an_alias_is_a_copy(tmp_path: Path) -> None:
    path = written(tmp_path, "sft: &a {max_steps: 9, save_steps: 3}\ngrpo: *a\n")
    config = load_run_config(path, ["grpo.max_steps=5"]).config
    assert config.sft == {"max_steps": 9, "save_steps": 3}
    assert config.grpo == {"max_steps": 5, "save_steps": 3}


def test_a_dry_run_of_a_started_folder_needs_settings(tmp_path: Path) -> None:
    for name in ("config.yaml", "versions.json"):
        (tmp_path / name).write_text("{}")
    assert not refused(run("train", "--output", tmp_path, "--resume", "--dry-run"), "--dry-run")


def test_the_corpus_is_large() -> None:
    assert len(REFUSED_TEXTS) + len(REFUSED_BYTES) + len(EXACT) > 200
    assert len({text for text, _, _ in REFUSED_TEXTS}) == len(REFUSED_TEXTS)
    assert len(NO_NUMBER) + len(NO_SWITCH) > 15


def socket_at(path: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's whole path is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)
