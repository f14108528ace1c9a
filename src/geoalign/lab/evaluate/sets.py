"""The sets of an evaluation, and their prompts as one model reads them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jinja2 import TemplateError

from geoalign.answers.messages import rendered, token_ids
from geoalign.console.numbers import counted
from geoalign.errors import ConfigError, InputError
from geoalign.lab.data.benchmarks import BENCHMARKS
from geoalign.lab.data.hh_rlhf import different_prompts, load_dialogues
from geoalign.lab.data.problems import load_problems
from geoalign.lab.data.sources import LeftOutError
from geoalign.lab.data.task import EvaluationSet, Problem
from geoalign.lab.evaluate.settings import EvaluateConfig
from geoalign.lab.models.answering import ResponseRequest
from geoalign.lab.models.settings import EVERY_OTHER
from geoalign.text import one_line, quote

# Longest responses of the paper (hyperparameter table).
BENCHMARK_TOKENS = 8192
DIALOGUE_TOKENS = 1024


def load_sets(
    benchmarks: Sequence[str], dialogues: Sequence[str], config: EvaluateConfig
) -> tuple[list[EvaluationSet], list[str]]:
    """The sets of `NAME=PATH_OR_ID` texts, and lines on what they hold and how they were read.

    A name given again is one set from several files (AIME 2025 I and II).
    """
    benchmark_paths = _paths_by_name("--benchmark", benchmarks)
    dialogue_paths = _paths_by_name("--dialogue", dialogues)
    names = [*benchmark_paths, *dialogue_paths]
    if not names:
        raise ConfigError("evaluate: expected --benchmark NAME=PATH_OR_ID or --dialogue NAME=PATH_OR_ID, got neither")
    for name in benchmark_paths:
        if name in dialogue_paths:
            raise ConfigError(f"{name}: expected one kind of set, got --benchmark {name} and --dialogue {name}")
    for name in config.samples_by_set:
        if name not in (EVERY_OTHER, *names):
            raise ConfigError(f"samples.{name}: no set is called {name}, but {', '.join(names)}")
    for name in config.fields:
        if name not in benchmark_paths:
            raise ConfigError(f"fields.{name}: no set of --benchmark is called {name}")
    sets: list[EvaluationSet] = []
    notes: list[str] = []
    for name in names:
        if name in benchmark_paths:
            evaluation_set, lines = _load_benchmark(name, benchmark_paths[name], config)
        else:
            evaluation_set, lines = _load_dialogues(name, dialogue_paths[name], config)
        number = len(evaluation_set.problems)
        if config.problems is not None and config.problems < number:
            evaluation_set = replace(evaluation_set, problems=evaluation_set.problems[: config.problems])
            lines = [*lines, f"{name}: the first {config.problems} of {number} problems"]
        sets.append(evaluation_set)
        size = counted(len(evaluation_set.problems), "problem" if evaluation_set.kind == "benchmark" else "prompt")
        notes += [f"{name}: {size}, {counted(evaluation_set.samples, 'response')} to each", *lines]
    return sets, notes


def _paths_by_name(option: str, texts: Sequence[str]) -> dict[str, list[str]]:
    """The files or hub ids of each set that an option names."""
    paths: dict[str, list[str]] = {}
    for text in texts:
        name, _, path = (part.strip() for part in text.partition("="))
        if not name or not path:
            known = BENCHMARKS.get(name)
            example = f", such as {name}={known.hub[0]}" if known is not None else ""
            raise ConfigError(f"{option}: expected NAME=FILE or NAME=HUB_ID{example}, got {quote(text)}")
        of_set = paths.setdefault(name, [])
        if path in of_set:
            raise ConfigError(f"{name}: expected each file once, got {path} twice")
        of_set.append(path)
    return paths


def _load_benchmark(name: str, paths: Sequence[str], config: EvaluateConfig) -> tuple[EvaluationSet, list[str]]:
    """The problems of one of the paper's benchmarks, if that is its name, or of a set of the user's own."""
    benchmark = BENCHMARKS.get(name)
    rows, notes = load_problems(
        paths, fields=config.fields.get(name), benchmark=benchmark, system_prompt=config.system_prompt
    )
    evaluation_set = EvaluationSet(
        name=name,
        kind="benchmark",
        problems=[row.problem for row in rows],
        samples=config.samples_of(name, benchmark),
        max_new_tokens=config.max_new_tokens or BENCHMARK_TOKENS,
    )
    for known in BENCHMARKS.values():
        if benchmark is None and name.lower() in known.names:
            notes.append(f"{name} is a set of your own: the paper's {known.title} is called {known.name} here")
    return evaluation_set, notes


def _load_dialogues(name: str, paths: Sequence[str], config: EvaluateConfig) -> tuple[EvaluationSet, list[str]]:
    """The different prompts of dialogues."""
    dialogues, notes = load_dialogues(paths, prompts=True)
    evaluation_set = EvaluationSet(
        name=name,
        kind="dialogue",
        problems=different_prompts(dialogues),
        samples=config.samples_of(name, None),
        max_new_tokens=config.max_new_tokens or DIALOGUE_TOKENS,
    )
    return evaluation_set, notes


# --- as one model reads a set -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PromptedSet:
    """A set as one model reads it.

    Attributes:
        requests: every response to the prompts that the model takes, by problem, then by sample.
        left_out: how many problems were left out, by reason.
    """

    set: EvaluationSet
    requests: list[ResponseRequest]
    left_out: Mapping[str, int]


def prompted_set(
    evaluation_set: EvaluationSet, tokenizer: Any, options: Mapping[str, Any], *, longest: int | None
) -> PromptedSet:
    """The prompts of a set in a model's chat template; one that is too long is left out, never cut.

    Args:
        options: arguments of the chat template.
        longest: tokens that the model takes, prompt and response together; None: unknown.
    """
    room = None if longest is None else longest - evaluation_set.max_new_tokens
    if room is not None and room <= 0:
        raise ConfigError(
            f"max_new_tokens: expected less than the {longest} tokens that the model takes, "
            f"got {evaluation_set.max_new_tokens} for {evaluation_set.name}"
        )
    requests: list[ResponseRequest] = []
    left_out: Counter[str] = Counter()
    for problem in evaluation_set.problems:
        try:
            tokens = _prompt_tokens(problem, tokenizer, options)
            if room is not None and len(tokens) > room:
                raise LeftOutError(f"longer than {room} tokens")
        except LeftOutError as error:
            left_out[str(error)] += 1
            continue
        requests += [ResponseRequest(problem, tokens, sample) for sample in range(evaluation_set.samples)]
    if not requests:
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise InputError(f"{evaluation_set.name}: expected at least one prompt that the model takes, got none: {why}")
    return PromptedSet(evaluation_set, requests, left_out)


def _prompt_tokens(problem: Problem, tokenizer: Any, options: Mapping[str, Any]) -> tuple[int, ...]:
    """The tokens of a prompt in the chat template; LeftOutError where there are none."""
    try:
        text = rendered(problem.prompt, tokenizer, options)
        text.encode()
    except TemplateError as error:
        raise LeftOutError(f"refused by the chat template ({one_line(error, 100)})") from error
    except UnicodeEncodeError as error:
        # Half of a pair of surrogates: valid in JSON, no text for a tokenizer.
        raise LeftOutError("with characters that are no text") from error
    return tuple(token_ids([text], tokenizer)[0])
