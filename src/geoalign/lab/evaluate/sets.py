"""The sets of an evaluation, and their prompts as one model reads them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jinja2 import TemplateError

from geoalign.answers.messages import rendered, token_ids
from geoalign.errors import ConfigError, InputError
from geoalign.lab.data.benchmarks import BENCHMARKS, Benchmark, parse_benchmark, parse_dialogue
from geoalign.lab.data.hh_rlhf import different_prompts, read_files
from geoalign.lab.data.problems import ProblemSet, load_benchmark, load_problems
from geoalign.lab.data.settings import MathConfig
from geoalign.lab.data.task import Problem
from geoalign.lab.evaluate.settings import EvaluateConfig, FieldsConfig
from geoalign.lab.models.answering import Prompt, Sample, requests_of
from geoalign.lab.models.settings import EVERY_OTHER


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


@dataclass
class _Named:
    """A set as the command line names it, by `--benchmark` (then with a benchmark) or by `--dialogue`; its files."""

    benchmark: Benchmark | None
    paths: list[str]


def load_sets(benchmarks: Sequence[str], dialogues: Sequence[str], config: EvaluateConfig) -> list[EvaluationSet]:
    """The sets of `NAME=PATH_OR_ID` texts; a name given again is one set from several files (AIME 2025 I and II)."""
    if not benchmarks and not dialogues:
        raise ConfigError("evaluate: expected --benchmark NAME=PATH_OR_ID or --dialogue NAME=PATH_OR_ID, got neither")
    named: dict[str, _Named] = {}
    for text in benchmarks:
        benchmark, path = parse_benchmark(text)
        _add(named, benchmark.name, benchmark, path)
    for text in dialogues:
        name, path = parse_dialogue(text)
        _add(named, name, None, path)
    for setting, names in (("samples", config.samples), ("fields", config.fields)):
        for name in names if isinstance(names, Mapping) else ():
            if name not in named and name != EVERY_OTHER:
                raise ConfigError(f"{setting}.{name}: expected one of {', '.join(named)}, got {name!r}")
    for name in config.fields:
        if named[name].benchmark is None:
            raise ConfigError(f"fields.{name}: expected a set of --benchmark, got one of --dialogue")
    return [_load(name, given, config) for name, given in named.items()]


def _add(named: dict[str, _Named], name: str, benchmark: Benchmark | None, path: str) -> None:
    """Adds a file to the set of this name; ConfigError where two sets, or two files, cannot be told apart."""
    for other, there in named.items():
        if other != name and other.casefold() == name.casefold():
            raise ConfigError(f"{other} and {name}: expected names that differ by more than case: they name folders")
        if other == name and (there.benchmark is None) != (benchmark is None):
            raise ConfigError(f"{name}: expected one kind of set, got --benchmark {name} and --dialogue {name}")
    there = named.setdefault(name, _Named(benchmark, []))
    if path in there.paths:
        raise ConfigError(f"{name}: expected each file once, got {path} twice")
    there.paths.append(path)


def _load(name: str, named: _Named, config: EvaluateConfig) -> EvaluationSet:
    if named.benchmark is None:
        items, notes = read_files(named.paths, prompts=True)
        problems = different_prompts(items)
    else:
        loaded = _load_problems(named.benchmark, named.paths, config)
        problems, notes = loaded.problems, loaded.notes
    kept = tuple(problems[: config.problems])
    cut = [] if len(kept) == len(problems) else [f"{name}: the first {len(kept)} of {len(problems)} problems"]
    return EvaluationSet(
        name=name,
        kind="dialogue" if named.benchmark is None else "benchmark",
        problems=kept,
        samples=config.samples_of(name, named.benchmark),
        max_new_tokens=config.tokens_of(named.benchmark),
        notes=(*notes, *cut),
        left_over=tuple(problems[len(kept) :]),
    )


def _load_problems(benchmark: Benchmark, paths: Sequence[str], config: EvaluateConfig) -> ProblemSet:
    """The problems of one of the paper's benchmarks, or of a set of the user's own."""
    name = benchmark.name
    fields = config.fields.get(name, FieldsConfig())
    how = MathConfig(
        train=tuple(paths),
        system_prompt=config.system_prompt,
        prompt_field=fields.prompt_field,
        answer_field=fields.answer_field,
        answer_pattern=fields.answer_pattern,
    )
    remedy = f"--set fields.{name}.prompt_field=FIELD and --set fields.{name}.answer_field=FIELD name them"
    if name in BENCHMARKS:
        return load_benchmark(name, paths, how, remedy=remedy)
    return load_problems(paths, how, remedy=remedy)


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
