"""Settings files and command lines that are wrong: each is refused by file, line and key, and nothing is written.

`train --dry-run` reads every one of the files; nothing is trained.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from harness import Outcome, refused, run

from geoalign.lab.config.loading import load_run_config
from geoalign.settings.loading import plain_settings
from geoalign.settings.yaml_text import dump_yaml

NINES = "9" * 5001
# Beside the text the line, and what the message must name; None: the text is no YAML at all.
REFUSED_TEXTS: list[tuple[str, int, str | None]] = [
    # Values that are not what they look like, or of another kind.
    ("seed: 2020-99-99\n", 1, "seed"),
    ("seed: 1\ntask:\n  digits: 0x_\n", 3, "task.digits"),
    ("seed: 1:30\n", 1, "seed"),
    (f"seed: {NINES}\n", 1, "seed"),
    ("seed: 9223372036854775808\n", 1, "seed"),
    ("reward: {flip: 1e999}\n", 1, "reward.flip"),
    ("reward: {flip: .nan}\n", 1, "reward.flip"),
    ("reward: {flip: yes}\n", 1, "reward.flip"),
    ("output: {rollouts: 1}\n", 1, "output.rollouts"),
    ("output: {folder: no}\n", 1, "output.folder"),
    ("curator: {projector: '{\"layers\": true}'}\n", 1, "curator.projector"),
    ("curator: {projector: '" + "[" * 100_000 + "'}\n", 1, "curator.projector"),
    ("curator: {type: chain, members: [{type: podz}]}\n", 1, "curator.members.0.type"),
    ("curator: [1]\n", 1, "curator"),
    ("seed: " + "x" * 100_000 + "\n", 1, "seed"),
    # Keys: unknown, twice, of another kind.
    ("task: {digits: 1, digits: 2}\n", 1, "task.digits"),
    ("grpo: {generation_kwargs: {a: {b: 1, b: 2}}}\n", 1, "grpo.generation_kwargs.a.b"),
    ("curator.alpha: 0.1\n", 1, "curator.alpha"),
    ("task: {3: 1}\n", 1, "task"),
    ("? [a, b]\n: 1\n", 1, None),
    ("x" * 150 + ": 1\n", 1, "unknown key"),
    # Tags that would run code, and what is no YAML.
    ("model: !!python/object/apply:os.system ['true']\n", 1, "model"),
    ("model: !own {layers: 1}\n", 1, "model"),
    ("seed: *nowhere\n", 1, None),
    ("seed: 1\n---\nseed: 2\n", 2, None),
    ("seed: [1\n", 2, None),
    ("- seed\n", 0, None),
    # What would act on a terminal.
    ("seed: '\x1b[31m'\n", 1, None),
    ('output: {folder: "\\e[2J"}\n', 1, "output.folder"),
    ("'\u202eseed': 1\n", 1, "\\u202eseed"),
    # What no run can do.
    ("task: {type: math, train: a.jsonl, answer_pattern: '" + "(" * 5000 + "'}\n", 1, "task.answer_pattern"),
    ("task: {train_problems: 1000000000}\n", 1, "task.train_problems"),
    ("reward: {model: {url: 'http://host:99999'}}\n", 1, "reward.model.url"),
    ("reward: {workers: 1000000}\n", 1, "reward.workers"),
    ("base: nowhere.yaml\n", 1, "base"),
    ("model: {hidden_size: 24, heads: 8}\n", 1, "model.heads"),
    ("grpo: {output_dir: x}\n", 1, "grpo.output_dir"),
    ("grpo: {num_generations: 0}\n", 1, "grpo.num_generations"),
    ("grpo: {learning_rate: '1e-3'}\n", 1, "grpo.learning_rate"),
    ("grpo: {max_steps: 4, num_generations: 3}\n", 1, "grpo.num_generations"),
    ("grpo: {max_steps: 4, optim: nothing}\n", 1, "grpo.optim"),
    ("sft: {max_steps: true}\n", 1, "sft.max_steps"),
]
REFUSED_BYTES: list[bytes] = [
    b"seed: 1\nmodel: \xff\n",
    "seed: 1\n".encode("utf-16"),
    b"\x00" * 1000,
    b"#" * 600_000,
    b"a: " + b"[" * 400_000,
    b"a: [" + b"1," * 200_000 + b"]",
    # A few lines that would stand for billions of values.
    "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}' if n else 'x'] * 9)}]\n" for n in range(12)).encode(),
]
NOWHERE = ("--output", "nowhere")
JUDGE = ("judge", "a", "b", *NOWHERE)
# The command, and what its refusal must name.
COMMANDS: list[tuple[tuple[str, ...], str]] = [
    *(
        (("train", "--dry-run", "--set", override), said)
        for override, said in [
            ("", "--set"),
            ("a..b=1", "--set"),
            ("\x1b[31mseed=1", "--set"),
            ("a." * 5000 + "a=1", "at most 40 keys"),
            ("sed=1", "expected seed"),
            ("curator.projector.layers.x=1", "curator.projector.layers"),
            ("curator={alpha: 0.1, alpha: 0.2}", "curator.alpha: expected once"),
            ("curator=" + "[" * 20_000, "at most 40 levels"),
            ("seed=[1", "YAML value"),
            ("seed=\udcff", "U+DCFF"),
            ("seed=" + "y" * 90_000, "seed"),
            ("launch.accelerate=/dev/zero", "launch.accelerate"),
        ]
    ),
    *(
        (("compare", *arguments, *NOWHERE), said)
        for arguments, said in [
            (("--seeds", "0,0"), "--seeds"),
            (("--seeds", "\u0663"), "--seeds"),
            (("--seeds", "9" * 5001), "--seeds"),
            (("--levels", "nowhere"), "--levels"),
            (("--curators", "grpo,geoaling"), "nearest: geoalign"),
            (("--curators", "grpo,../x"), "arms"),
            (("--workers", "1000000"), "--workers"),
            (("--set", "seeds=[true]"), "seeds"),
            (("--set", "arms.a/b={}"), "arms.a/b"),
            (("--set", "primary=[{arm: 1, against: grpo}]"), "primary"),
            (("--set", "baseline=nobody"), "baseline"),
            (("--set", "metric=accurcy"), "metric"),
            (("--set", "levels.flip_10.reward.flip=yes"), "reward.flip"),
        ]
    ),
    *(
        (("curate", "nowhere.jsonl", *NOWHERE, *arguments), said)
        for arguments, said in [
            (("--curator", "geoaling"), "nearest: geoalign"),
            (("--curator", "\x1b[2J"), "curator.type"),
            (("--curator", "pods", "--set", "curator.type=gfpo"), "once"),
            (("--set", "batch_size=0"), "batch_size"),
            (("--set", "seeed=1"), "expected seed"),
            (("--set", "chat_template_kwargs={1: 2}"), "chat_template_kwargs"),
        ]
    ),
    *(
        (("evaluate", "nowhere", *NOWHERE, *arguments), said)
        for arguments, said in [
            (("--samples", "0"), "samples"),
            (("--samples", "a=1", "--samples", "a=2"), "--samples"),
            (("--temperature", "nan"), "temperature"),
            (("--set", "reward.timeout=.inf"), "reward.timeout"),
            (("--set", "sampels=1"), "expected samples"),
            (("--greedy", "--temperature", "1"), "--greedy"),
            (("--benchmark", "aime42=x"), ""),
        ]
    ),
    (JUDGE, "--base-url"),
    ((*JUDGE, "--local", "--set", "timeout=1"), "--local"),
    *(((*JUDGE, "--base-url", url, "--model", "m"), "base_url") for url in ("localhost", "http://[::1/v1", "ftp://h")),
    *(
        ((*JUDGE, "--base-url", "http://localhost:1/v1", "--model", "m", "--set", override), said)
        for override, said in [("timeout=.inf", "timeout"), ("tempreature=1", "expected temperature")]
    ),
    *(
        (("bench", *arguments), said)
        for arguments, said in [
            (("--shape", "1x2"), "--shape"),
            (("--shape", "\u00b2x2x2"), "--shape"),
            (("--shape", "100000x100000x100000"), "--shape"),
            (("--repeats", "1000000000"), "--repeats"),
        ]
    ),
]


def written(folder: Path, content: str | bytes, name: str = "run.yaml") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return path


def dry_run(path: Path | str) -> Outcome:
    return run("train", path, "--dry-run")


def test_wrong_files_are_refused_by_file_line_and_key(tmp_path: Path) -> None:
    wrong = {}
    for text, line, key in [*REFUSED_TEXTS, *((data, 0, None) for data in REFUSED_BYTES)]:
        path = written(tmp_path, text)
        parts = [str(path), *([f"line {line}: "] if line else []), *([key] if key else [])]
        if found := refused(dry_run(path), *parts):
            wrong[str(text[:80])] = found
    assert not wrong


def test_wrong_command_lines_are_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = {}
    for arguments, said in COMMANDS:
        if found := refused(run(*arguments), said):
            wrong[" ".join(arguments)[:100]] = found
    assert not wrong
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "run.yaml"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path("/dev/zero"), Path("x" * 5000)):
        assert not refused(dry_run(path), "" if len(str(path)) > 4000 else str(path))


def test_files_that_build_on_one_another(tmp_path: Path) -> None:
    for number in range(12):
        written(tmp_path, f"base: {number + 1}.yaml\n", f"{number}.yaml")
    written(tmp_path, "seed: 3\n", "12.yaml")
    assert not refused(dry_run(tmp_path / "0.yaml"), "at most 10 files", "line 1", "base")
    assert load_run_config(tmp_path / "4.yaml").config.seed == 3
    written(tmp_path, "base: b.yaml\n", "a.yaml")
    written(tmp_path, "base: a.yaml\n", "b.yaml")
    assert not refused(dry_run(tmp_path / "a.yaml"), "line 1", "base", "does not build on this one")


def texts_that_look_otherwise() -> Iterator[str]:
    """Texts of the characters that numbers, dates and YAML's own marks are made of."""
    draw = random.Random(0)
    for _ in range(60):
        yield "".join(draw.choices("0123456789eE+-._:xob~<=!&*{}[],'\"# \n\tnullyesinf", k=draw.randint(0, 9)))


def test_texts_stay_texts_through_the_file_of_a_run(tmp_path: Path) -> None:
    for text in texts_that_look_otherwise():
        data = {"output": {"folder": text}, "grpo": {"generation_kwargs": {text: [text, {"a": text}]}}}
        plain = plain_settings(load_run_config(written(tmp_path, dump_yaml(data))).config)
        assert (plain["output"]["folder"], plain["grpo"]) == (text, data["grpo"])
        # Where PyYAML reads it as text too, it is the same text.
        assert yaml.safe_load(dump_yaml(data))["output"]["folder"] == text


def test_a_dry_run_of_a_started_folder_needs_settings(tmp_path: Path) -> None:
    for name in ("config.yaml", "versions.json"):
        (tmp_path / name).write_text("{}")
    assert not refused(run("train", "--output", tmp_path, "--resume", "--dry-run"), "--dry-run")
