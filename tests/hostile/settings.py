"""Settings that should be refused by name, and settings that should be taken exactly as they are written."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, get_args, get_origin, get_type_hints

from geoalign.curators.registry import CuratorSection
from geoalign.lab.config.run import ModelConfig, RunConfig
from geoalign.lab.config.tasks import TaskConfig
from geoalign.settings.loading import by_type

NINES = "9" * 5001
# Key is what the message must name beside file and line; None: the text is no YAML at all.
REFUSED_TEXTS: list[tuple[str, int, str | None]] = [
    ("seed: 2020-99-99\n", 1, "seed"),
    ("seed: 2020-01-01 25:61:61\n", 1, "seed"),
    ("seed: 1\ntask:\n  digits: 0x_\n", 3, "task.digits"),
    ("seed: 0b_\n", 1, "seed"),
    ("seed: !!int x\n", 1, "seed"),
    ("seed: !!int\n", 1, "seed"),
    ("reward:\n  flip: !!float\n", 2, "reward.flip"),
    ("reward: {flip: !!float x}\n", 1, "reward.flip"),
    ("reward: {flip: !!bool maybe}\n", 1, "reward.flip"),
    ("reward: {flip: !!null x}\n", 1, "reward.flip"),
    ("seed: !!binary aGk=\n", 1, "seed"),
    ("seed: !!binary '*'\n", 1, "seed"),
    ("seed: !!timestamp x\n", 1, "seed"),
    ("model: !!python/object/apply:os.system ['true']\n", 1, "model"),
    ("model: !!python/name:os.system\n", 1, "model"),
    ("model: !!set {a}\n", 1, "model"),
    ("model: !!omap [a: 1]\n", 1, "model"),
    ("model: !own {layers: 1}\n", 1, "model"),
    ("seed: !own 1\n", 1, "seed"),
    ("task: !!seq {}\n", 1, "task"),
    ("task: !!map []\n", 1, "task"),
    ("grpo: &a [*a]\n", 1, "grpo.0"),
    ("grpo: &a {run_name: *a}\n", 1, "grpo.run_name"),
    ("grpo: &a {<<: *a}\n", 1, "grpo"),
    ("seed: *nowhere\n", 1, None),
    ("<<: 3\n", 1, "<<"),
    ("task:\n  <<: [1]\n", 2, "task.<<"),
    ("task:\n  <<: text\n", 2, "task.<<"),
    ("task: {<<: {digits: 1}, <<: {digits: 2}}\n", 1, "task.<<"),
    ("task: {<<: {digitz: 1}}\n", 1, "task.digitz"),
    ("seed: 1\x00\n", 1, None),
    ("seed: '\x1b[31m'\n", 1, None),
    ("seed: '\x07'\n", 1, None),
    ('output: {folder: "a\\0b"}\n', 1, "output.folder"),
    ('output: {folder: "\\e[2J"}\n', 1, "output.folder"),
    ('output: {folder: "\\ud800"}\n', 1, "output.folder"),
    ('"\\e[2J": 1\n', 1, None),
    ("'\u202eseed': 1\n", 1, "\\u202eseed"),
    ("seed: 1\ntask:\n\tdigits: 1\n", 3, None),
    ("seed: 1\n---\nseed: 2\n", 2, None),
    ("%YAML 3.0\n---\nseed: 1\n", 1, None),
    ("1: 2\n", 1, None),
    ("task: {3: 1}\n", 1, "task"),
    ("null: 1\n", 1, None),
    ("~: 1\n", 1, None),
    ("yes: 1\n", 1, None),
    ("1.5: 1\n", 1, None),
    ("? [a, b]\n: 1\n", 1, None),
    ("? {a: b}\n: 1\n", 1, None),
    ("? \n: 1\n", 1, None),
    ("curator.alpha: 0.1\n", 1, "curator.alpha"),
    ("curator: {projector.layers: 2}\n", 1, "curator.projector.layers"),
    (f"seed: {NINES}\n", 1, "seed"),
    (f"seed: -{NINES}\n", 1, "seed"),
    (f"seed: 0x{'f' * 6000}\n", 1, "seed"),
    (f"reward: {{flip: {NINES}.0}}\n", 1, "reward.flip"),
    ("seed: 9223372036854775808\n", 1, "seed"),
    ("seed: 18446744073709551616\n", 1, "seed"),
    ("reward: {flip: 1e999}\n", 1, "reward.flip"),
    ("reward: {flip: 1e-999}\n", 1, "reward.flip"),
    ("reward: {flip: .nan}\n", 1, "reward.flip"),
    ("reward: {timeout: .inf}\n", 1, "reward.timeout"),
    ("reward: {timeout: -.Inf}\n", 1, "reward.timeout"),
    ("seed: 1:30\n", 1, "seed"),
    ("reward: {timeout: 1:30.5}\n", 1, "reward.timeout"),
    ("seed: 010\n", 1, "seed"),
    ("seed: 0o10\n", 1, "seed"),
    ("task: {digits: 1, digits: 2}\n", 1, "task.digits"),
    ("task:\n  digits: 1\n  digits: 1\n", 3, "task.digits"),
    ("curator: {type: chain, members: [{type: pods, m: 2, m: 4}]}\n", 1, "curator.members.0.m"),
    ("grpo: {generation_kwargs: {a: {b: 1, b: 2}}}\n", 1, "grpo.generation_kwargs.a.b"),
    ("reward: {flip: yes}\n", 1, "reward.flip"),
    ("reward: {flip: on}\n", 1, "reward.flip"),
    ("evaluation: {samples: {arithmetic: true}}\n", 1, "evaluation.samples"),
    ("output: {rollouts: 1}\n", 1, "output.rollouts"),
    ("output: {folder: no}\n", 1, "output.folder"),
    ("curator: {projector: {layers: true}}\n", 1, "curator.projector.layers"),
    ("curator: {projector: '{\"layers\": true}'}\n", 1, "curator.projector"),
    ('curator: {projector: \'{"layers": 1, "layers": 2}\'}\n', 1, "curator.projector"),
    ("curator: {projector: '{\"learning_rate\": NaN}'}\n", 1, "curator.projector"),
    ("curator: {projector: '" + "[" * 100_000 + "'}\n", 1, "curator.projector"),
    ("curator: {type: random, geoalign: {alpha: yes}}\n", 1, "curator.geoalign.alpha"),
    ("curator: {type: chain, members: [{type: pods, m: yes}]}\n", 1, "curator.members.0.m"),
    ("curator: {type: chain, members: {type: pods}}\n", 1, "curator.members"),
    ("curator: {type: chain, members: [3]}\n", 1, "curator.members.0"),
    ("curator: {type: chain, members: [{type: podz}]}\n", 1, "curator.members.0.type"),
    ("curator: {type: 3}\n", 1, "curator.type"),
    ("curator: {type: null}\n", 1, "curator.type"),
    ("curator: [1]\n", 1, "curator"),
    ("task: {type: math, train: a.jsonl, answer_pattern: '" + "(" * 5000 + "'}\n", 1, "task.answer_pattern"),
    ("task: {type: math, train: a.jsonl, answer_pattern: '(a{99999999999999})'}\n", 1, "task.answer_pattern"),
    ("task: {type: math, train: a.jsonl, evaluation: {b: {pth: c}}}\n", 1, "task.evaluation.b.pth"),
    ("task: {type: math, train: a.jsonl, evaluation: {b: {path: 3}}}\n", 1, "task.evaluation.b.path"),
    ("task: {type: math, train: []}\n", 1, "task.train"),
    ("task: {type: math, train: ['']}\n", 1, "task.train"),
    ("task: {train_problems: 1000000000}\n", 1, "task.train_problems"),
    ("task: {demonstrations: 1000000000}\n", 1, "task.demonstrations"),
    ("reward: {model: {url: 'http://host:99999'}}\n", 1, "reward.model.url"),
    ("reward: {model: {url: 'http://host:0'}}\n", 1, "reward.model.url"),
    ("reward: {model: {url: 'http://host:port'}}\n", 1, "reward.model.url"),
    ("reward: {model: {url: 'http://[::1/v1'}}\n", 1, "reward.model.url"),
    ("reward: {model: {url: 'ftp://host'}}\n", 1, "reward.model.url"),
    ("reward: {workers: 1000000}\n", 1, "reward.workers"),
    ("base: 3\n", 1, "base"),
    ("base: ''\n", 1, "base"),
    ("base: nowhere.yaml\n", 1, "base"),
    (f"base: {'x' * 4000}\n", 1, "base"),
    ("base: .\n", 1, "base"),
    ("base: ['a.yaml']\n", 1, "base"),
    ("base: /dev/zero\n", 1, "base"),
    ("x" * 150 + ": 1\n", 1, "unknown key"),
    ("x" * 1000 + ": 1\n", 1, None),
    ("seed: " + "x" * 100_000 + "\n", 1, "seed"),
    ("seed: [" + "1," * 10_000 + "]\n", 1, "seed"),
    ("- seed\n", 0, None),
    ("seed\n", 0, None),
    ("3\n", 0, None),
    ("seed: [1\n", 2, None),
    ("seed: 'x\n", 2, None),
    ("seed: @x\n", 1, None),
    ("seed: `x\n", 1, None),
    ("seed: 1\n seed: 2\n", 2, None),
    ("grpo: {output_dir: x}\n", 1, "grpo.output_dir"),
    ("grpo: {num_generations: 0}\n", 1, "grpo.num_generations"),
    ("grpo: {per_device_train_batch_size: 0}\n", 1, "grpo.per_device_train_batch_size"),
    ("grpo: {per_device_train_batch_size: -8}\n", 1, "grpo.per_device_train_batch_size"),
    ("grpo: {steps_per_generation: 0}\n", 1, "grpo.steps_per_generation"),
    ("grpo: {gradient_accumulation_steps: 0}\n", 1, "grpo.gradient_accumulation_steps"),
    ("grpo: {num_iterations: 0}\n", 1, "grpo.num_iterations"),
    ("grpo: {generation_batch_size: 0}\n", 1, "grpo.steps_per_generation"),
    ("grpo: {max_completion_length: 0}\n", 1, "grpo.max_completion_length"),
    ("grpo: {temperature: .nan}\n", 1, "grpo.temperature"),
    ("grpo: {temperature: yes}\n", 1, "grpo.temperature"),
    ("grpo: {learning_rate: .inf}\n", 1, "grpo.learning_rate"),
    ("grpo: {learning_rate: '1e-3'}\n", 1, "grpo.learning_rate"),
    ("grpo: {max_steps: 10000000}\n", 1, "grpo.max_steps"),
    ("grpo: {max_steps: 9223372036854775807}\n", 1, "grpo.max_steps"),
    ("grpo: {num_train_epochs: 1e12}\n", 1, "grpo.num_train_epochs"),
    ("grpo: {num_train_epochs: 0}\n", 1, "grpo.num_train_epochs"),
    ("grpo: {run_name: no}\n", 1, "grpo.run_name"),
    ("grpo: {run_name: 3}\n", 1, "grpo.run_name"),
    ("grpo: {reward_weights: [yes]}\n", 1, "grpo.reward_weights"),
    ("grpo: {max_steps: 4, num_generations: 3}\n", 1, "grpo.num_generations"),
    ("grpo: {max_steps: 4, optim: nothing}\n", 1, "grpo.optim"),
    ("grpo: {max_steps: 4, lr_scheduler_type: nothing}\n", 1, "grpo.lr_scheduler_type"),
    ("grpo: {max_steps: 4, num_generations: null}\n", 1, "grpo.num_generations"),
    ("grpo: {accelerator_config: nowhere.json}\n", 1, "grpo.accelerator_config"),
    ("grpo: {parallelism_config: {a: 1}}\n", 1, "grpo.parallelism_config"),
    ("grpo: {num_train_epochs: 1e300}\n", 1, "grpo.num_train_epochs"),
    ("sft: {max_steps: true}\n", 1, "sft.max_steps"),
    ("sft: {packing: 0}\n", 1, "sft.packing"),
    ("reward_model: {warmup_steps: -1}\n", 1, "reward_model.warmup_steps"),
    ("model: {hidden_size: 24, heads: 8}\n", 1, "model.heads"),
    ("launch: {processes: true}\n", 1, "launch.processes"),
]

# `train --dry-run` must refuse these bytes, naming the file.
REFUSED_BYTES: list[bytes] = [
    b"seed: 1\nmodel: \xff\n",
    b"\xc0\x80: 1\n",
    b"seed: \xed\xa0\x80\n",
    "seed: 1\n".encode("utf-16"),
    "seed: 1\n".encode("utf-16-le"),
    "seed: 1\n".encode("utf-32"),
    b"\x00" * 1000,
    b"\x1f\x8b\x08\x00",
    b"#" * 600_000,
    b"a: " + b"[" * 400_000,
    b"a: " + b"{a: " * 100_000,
    b"- " * 200_000,
    b"? " * 200_000,
    b"a: [" + b"1," * 200_000 + b"]",
    b"".join(b"k%d: 1\n" % number for number in range(40_000)),
]

_LINE = "a{here}: &a{here} {value}\n"


def bombs() -> Iterator[str]:
    """A few lines whose aliases would stand for billions of values."""
    for first, shape in (
        ("[x, x, x, x, x, x, x, x, x]", "[{nine}]"),
        ("{x: 1}", "{{k0: {one}, k1: {one}, k2: {one}, k3: {one}, k4: {one}, k5: {one}, k6: {one}}}"),
        ("{x: 1}", "{{<<: [{nine}]}}"),
        ("{x: 1}", "[{nine}, {{<<: [{{y: 1}}, {{z: 2}}]}}]"),
    ):
        lines = [f"a0: &a0 {first}\n"]
        for level in range(1, 12):
            one = f"*a{level - 1}"
            value = shape.format(nine=", ".join([one] * 9), one=one)
            lines.append(f"a{level}: &a{level} {value}\n")
        yield "".join(lines)
    yield 'a: &a "' + "x" * 100_000 + '"\nb: [' + "*a, " * 9_000 + "]\n"


# Written so and read so: the dotted key, and the value in Python.
EXACT: list[tuple[str, str, Any]] = [
    ("seed: 0x10\n", "seed", 16),
    ("seed: 0b11\n", "seed", 3),
    ("seed: 1_000\n", "seed", 1000),
    ("seed: +7\n", "seed", 7),
    ("seed: -0\n", "seed", 0),
    ("seed: 2147483647\n", "seed", 2**31 - 1),
    ("seed: 1e3\n", "seed", 1000),
    ("seed: 5.0\n", "seed", 5),
    ("\ufeffseed: 3\n", "seed", 3),
    ("seed: 3\r\n", "seed", 3),
    ("---\nseed: 3\n...\n", "seed", 3),
    ("seed: !!int '3'\n", "seed", 3),
    ("reward: {flip: 1}\n", "reward.flip", 1.0),
    ("reward: {flip: .5}\n", "reward.flip", 0.5),
    ("reward: {flip: 5.e-1}\n", "reward.flip", 0.5),
    ("reward: {flip: 1E-3}\n", "reward.flip", 0.001),
    ("reward: {flip: 5e-324}\n", "reward.flip", 5e-324),
    ("reward: {flip: 0e5}\n", "reward.flip", 0.0),
    ("output: {rollouts: no}\n", "output.rollouts", False),
    ("output: {rollouts: On}\n", "output.rollouts", True),
    ("output: {folder: 2020-99-99}\n", "output.folder", "2020-99-99"),
    ("output: {folder: 2024-05-01}\n", "output.folder", "2024-05-01"),
    ("output: {folder: '010'}\n", "output.folder", "010"),
    ("output: {folder: 'no'}\n", "output.folder", "no"),
    ("output: {folder: !!str 3}\n", "output.folder", "3"),
    ("output: {folder: 0o10}\n", "output.folder", "0o10"),
    ("output: {folder: =}\n", "output.folder", "="),
    ("output: {folder: <<}\n", "output.folder", "<<"),
    ("output: {folder: 1e-3x}\n", "output.folder", "1e-3x"),
    ("output: {folder: ünïcode 模型 🙂}\n", "output.folder", "ünïcode 模型 🙂"),
    ("output:\n  folder: |\n    two\n    lines\n", "output.folder", "two\nlines\n"),
    ("output:\n  folder: >-\n    one\n    line\n", "output.folder", "one line"),
    ('output: {folder: "a\\tb"}\n', "output.folder", "a\tb"),
    ("output: {folder: ~}\n", "output.folder", None),
    ("output: {folder: 'x: &y *z'}\n", "output.folder", "x: &y *z"),
    ("curator: {projector: null}\n", "curator.projector", None),
    ("curator: {max_fraction: null}\n", "curator.max_fraction", None),
    ("sft: null\n", "sft", None),
    ("model: {<<: {layers: 2, heads: 2}, layers: 5}\n", "model.layers", 5),
    ("model: {<<: [{layers: 2}, {layers: 3}]}\n", "model.layers", 2),
    ("sft: &a {max_steps: 9}\ngrpo: *a\n", "grpo.max_steps", 9),
    ("grpo: {chat: {a.b: 1}}\n", "grpo.chat", {"a.b": 1}),
    ("grpo: {a: [1, 2.0, x, null, true]}\n", "grpo.a", [1, 2.0, "x", None, True]),
]

# Of `--set` for a number, a switch and a text, whatever the key.
NO_NUMBER = (
    "true",
    "off",
    '"3"',
    '"yes"',
    ".nan",
    "-.inf",
    NINES,
    "1:30",
    "010",
    "0x_",
    "2020-99-99",
    "[1]",
    "-.5e999",
)
NO_SWITCH = ("0", "1", "1.0", '"yes"', "'true'", "[]", "{}", "2020-99-99")
NO_TEXT = ("3", "2.5", "true", "no", "{a: {b: 1}}")


@dataclass(frozen=True)
class Setting:
    """One setting: the overrides that pick its section's kind, its dotted key, and what kind of value it takes."""

    kind: tuple[str, ...]
    key: str
    takes: str


def typed_settings() -> Iterator[Setting]:
    """Every number, switch and text of the settings of a run, those of every model, task and curator included."""
    hints = get_type_hints(RunConfig)
    for item in fields(RunConfig):
        if is_dataclass(hints[item.name]):
            yield from _inside((), item.name, hints[item.name])
        elif found := _takes(hints[item.name]):
            yield Setting((), item.name, found)
    for section, union in (("model", ModelConfig), ("task", TaskConfig), ("curator", CuratorSection)):
        for name, kind in by_type(union).kinds.items():
            needed = {"pretrained": ("model.path=x",), "math": ("task.train=x",), "hh_rlhf": ("task.train=x",)}
            yield from _inside((f"{section}.type={name}", *needed.get(name, ())), section, kind)


def wrong_values(setting: Setting) -> tuple[str, ...]:
    return {"number": NO_NUMBER, "switch": NO_SWITCH, "text": NO_TEXT}[setting.takes]


def texts_that_look_otherwise(count: int, seed: int) -> list[str]:
    """Texts of the characters that numbers, dates and YAML's own marks are made of."""
    draw = random.Random(seed)
    return ["".join(draw.choices("0123456789eE+-._:xob~<=!&*{}[],'\"# \n\tnullyesinf", k=draw.randint(0, 9)))
            for _ in range(count)]  # fmt: skip


def _inside(kind: tuple[str, ...], path: str, settings: Any) -> Iterator[Setting]:
    hints = get_type_hints(settings)
    for item in fields(settings):
        hint = hints[item.name]
        nested = [part for part in (hint, *get_args(hint)) if is_dataclass(part)]
        if nested:
            yield from _inside(kind, f"{path}.{item.name}", nested[0])
        elif item.name != "type" and (found := _takes(hint)):
            yield Setting(kind, f"{path}.{item.name}", found)


def _takes(hint: Any) -> str | None:
    """ "number", "switch" or "text", for `X` and `X | None`; None for all else."""
    parts = [part for part in (get_args(hint) if get_origin(hint) is not None else (hint,)) if part is not type(None)]
    names = {bool: "switch", int: "number", float: "number", str: "text"}
    return names.get(parts[0]) if len(parts) == 1 else None
