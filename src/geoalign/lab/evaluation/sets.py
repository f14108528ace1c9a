"""The sets of an evaluation, and their prompts as one model reads them."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jinja2 import TemplateError

from geoalign.errors import ConfigError, InputError
from geoalign.lab.config.benchmarks import BENCHMARKS, parse_benchmark
from geoalign.lab.config.evaluate import EvaluateConfig
from geoalign.lab.config.tasks import MathConfig
from geoalign.lab.evaluation.answers import Prompt, Sample, requests_of
from geoalign.lab.tasks.base import Problem, rendered, token_ids
from geoalign.lab.tasks.hh_rlhf import different_prompts, read_files
from geoalign.lab.tasks.problems import load_benchmark

# Names of sets become names of folders.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class EvaluationSet:
    """Problems with gold answers (a benchmark), or prompts without (dialogues).

    `notes` are lines on how it was read; `left_over` are the problems behind the first ones that were asked for.
    """

    name: str
    kind: Literal["benchmark", "dialogue"]
    problems: tuple[Problem, ...]
    samples: int
    max_new_tokens: int
    notes: tuple[str, ...]
    left_over: tuple[Problem, ...] = ()

    def digest(self) -> str:
        """A hash of all problems of its files, however many of them were asked for."""
        every = (*self.problems, *self.left_over)
        lines = [json.dumps([problem.id, problem.prompt, problem.answer]) for problem in every]
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@dataclass(frozen=True)
class PromptedSet:
    """A set as one model reads it: the prompts it takes, and how many were left out for which reason."""

    set: EvaluationSet
    prompts: tuple[Prompt, ...]
    left_out: Mapping[str, int]

    def requests(self) -> list[Sample]:
        return requests_of(self.prompts, self.set.samples)


def load_sets(benchmarks: Sequence[str], dialogues: Sequence[str], config: EvaluateConfig) -> list[EvaluationSet]:
    """The sets of `NAME=PATH_OR_ID` texts; a name given again is one set from several files (AIME 2025 I and II)."""
    if not benchmarks and not dialogues:
        raise ConfigError("evaluate: expected --benchmark NAME=PATH_OR_ID or --dialogue NAME=PATH_OR_ID, got neither")
    named = [(benchmark.name, path) for benchmark, path in map(parse_benchmark, benchmarks)]
    paths: dict[str, list[str]] = {}
    for name, path in [*named, *map(_dialogue, dialogues)]:
        paths.setdefault(name, []).append(path)
    for name in config.samples if isinstance(config.samples, Mapping) else ():
        if name not in paths:
            raise ConfigError(f"samples.{name}: expected one of {', '.join(paths)}, got {name!r}")
    return [_load(name, given, config) for name, given in paths.items()]


def _dialogue(text: str) -> tuple[str, str]:
    name, equals, path = (part.strip() for part in text.partition("="))
    if not equals or not path or not _NAME.fullmatch(name):
        raise ConfigError(f"--dialogue: expected NAME=PATH_OR_ID with letters and digits in the name, got {text!r}")
    if name in BENCHMARKS:
        raise ConfigError(f"--dialogue: expected a name that no benchmark has, got {name!r}")
    return name, path


def _load(name: str, paths: Sequence[str], config: EvaluateConfig) -> EvaluationSet:
    benchmark = BENCHMARKS.get(name)
    if benchmark is not None:
        loaded = load_benchmark(name, paths, MathConfig(train=tuple(paths), system_prompt=config.system_prompt))
        problems, notes = loaded.problems, loaded.notes
    else:
        items, notes = read_files(paths, prompts=True)
        problems = different_prompts(items)
    kept = tuple(problems[: config.problems])
    cut = [] if len(kept) == len(problems) else [f"{name}: the first {len(kept)} of {len(problems)} problems"]
    samples, tokens = config.samples_of(name, benchmark), config.tokens_of(benchmark)
    return EvaluationSet(name, "benchmark" if benchmark else "dialogue", kept, samples, tokens, (*notes, *cut))


def prompted(
    evaluated: EvaluationSet,
    tokenizer: Any,
    options: Mapping[str, Any],
    *,
    longest: int | None,
    max_prompt_tokens: int | None = None,
) -> PromptedSet:
    """The prompts of a set in a model's chat template; what it cannot take in `longest` tokens is left out, never
    cut."""
    if longest is not None and evaluated.max_new_tokens >= longest:
        raise ConfigError(
            f"max_new_tokens: expected less than the {longest} tokens that the model takes, "
            f"got {evaluated.max_new_tokens} for {evaluated.name}"
        )
    limits = (max_prompt_tokens, None if longest is None else longest - evaluated.max_new_tokens)
    room = min((limit for limit in limits if limit is not None), default=None)
    prompts: list[Prompt] = []
    left_out: Counter[str] = Counter()
    for problem in evaluated.problems:
        tokens, reason = _tokens(problem, tokenizer, options)
        if tokens is not None and room is not None and len(tokens) > room:
            tokens, reason = None, f"longer than {room} tokens"
        if tokens is None:
            left_out[reason] += 1
        else:
            prompts.append(Prompt(problem, tuple(tokens)))
    if not prompts:
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise InputError(f"{evaluated.name}: expected at least one prompt that the model takes, got none: {why}")
    return PromptedSet(evaluated, tuple(prompts), dict(left_out))


def _tokens(problem: Problem, tokenizer: Any, options: Mapping[str, Any]) -> tuple[list[int] | None, str]:
    try:
        text = rendered(problem.prompt, tokenizer, options)
    except TemplateError as error:
        # A model's template says what it likes; the reason goes to the terminal.
        said = "".join(letter if letter.isprintable() else "?" for letter in str(error)[:100])
        return None, f"refused by the chat template ({said})"
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        # Half of a pair of surrogates: valid in JSON, no text for a tokenizer.
        return None, "with characters that are no text"
    (tokens,) = token_ids([text], tokenizer)
    return (tokens, "") if tokens else (None, "empty")
