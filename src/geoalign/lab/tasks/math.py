"""The task `math`: problems with gold answers from the user's own files or the hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from geoalign.errors import InputError
from geoalign.lab.config.benchmarks import BENCHMARKS
from geoalign.lab.config.tasks import MathConfig, MathSetConfig
from geoalign.lab.rewards.answers import final_answer, one_form
from geoalign.lab.tasks.base import Demonstration, Problem, Task
from geoalign.lab.tasks.decontaminate import decontaminate, exact, fingerprints, overlap_notes
from geoalign.lab.tasks.problems import ProblemSet, load_benchmark, load_problems


class MathTask(Task):
    """Problems read from their sources in order; answers are kept as strings.

    Rows without a usable prompt or answer are skipped and counted. `notes()` says how every source was read, what was
    skipped, and what `decontaminate` found or dropped. With `drop`, `limit` counts what is left.
    """

    name = "math"

    def __init__(self, config: MathConfig) -> None:
        self._config = config

    def train_problems(self) -> Sequence[Problem]:
        return self._train.problems

    def evaluation_problems(self) -> Mapping[str, Sequence[Problem]]:
        return {name: loaded.problems for name, loaded in self._evaluation.items()}

    def demonstrations(self) -> Sequence[Demonstration]:
        given = zip(self._train.problems, self._train.demonstrations, strict=True)
        return [Demonstration(problem.prompt, text) for problem, text in given if text is not None]

    def final_answer(self, response: str) -> str | None:
        return final_answer(response)

    def notes(self) -> Sequence[str]:
        lines = [note for loaded in (self._train, *self._evaluation.values()) for note in loaded.notes]
        if self._config.decontaminate == "report":
            trained_on = fingerprints(problem.prompt for problem in self._train.problems)
            lines += overlap_notes(self.evaluation_problems(), trained_on)
        return lines

    @cached_property
    def _train(self) -> ProblemSet:
        config = self._config
        loaded = load_problems(config.train, replace(config, limit=None) if config.decontaminate == "drop" else config)
        prompts = [problem.prompt for problem in loaded.problems]
        rows, notes = decontaminate(
            config.decontaminate,
            config.train if isinstance(config.train, str) else "training",
            [exact(prompt) for prompt in prompts],
            [one_form(problem.answer) for problem in loaded.problems],
            prompts,
            lambda: [problem for problems in self.evaluation_problems().values() for problem in problems],
        )
        if not rows:
            raise InputError(f"{config.train}: expected problems to be left by decontaminate: drop, got none")
        rows = rows[: config.limit]
        return ProblemSet(
            [loaded.problems[row] for row in rows],
            [loaded.demonstrations[row] for row in rows],
            [*loaded.notes, *notes],
        )

    @cached_property
    def _evaluation(self) -> dict[str, ProblemSet]:
        return {name: self._evaluated(name, given) for name, given in self._config.evaluation.items()}

    def _evaluated(self, name: str, given: str | Sequence[str] | MathSetConfig) -> ProblemSet:
        config = self._config
        own = given if isinstance(given, MathSetConfig) else None
        prompt, answer, pattern = (own.prompt_field, own.answer_field, own.answer_pattern) if own else (None,) * 3
        how = replace(
            config,
            prompt_field=prompt or config.prompt_field,
            answer_field=answer or config.answer_field,
            answer_pattern=pattern or (config.answer_pattern if answer in (None, config.answer_field) else None),
            demonstration_field=None,
            limit=None,
        )
        sources = given.path if isinstance(given, MathSetConfig) else given
        inherited = prompt is None and answer is None
        if name in BENCHMARKS:
            return load_benchmark(name, sources, how, inherited=inherited)
        return load_problems(sources, how, inherited=inherited)
