"""The task `math`: problems with gold answers from the user's own files or the hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from geoalign.errors import InputError
from geoalign.lab.config.benchmarks import BENCHMARKS
from geoalign.lab.config.tasks import MathConfig, MathSetConfig
from geoalign.lab.rewards.answers import final_answer
from geoalign.lab.tasks.base import Demonstration, Problem, Task
from geoalign.lab.tasks.decontaminate import (
    count_shared,
    duplicates_note,
    exact,
    find_duplicates,
    fingerprint,
    keep,
    kept_note,
)
from geoalign.lab.tasks.problems import Reading, as_benchmark, joined, read_problems, size_note


class MathTask(Task):
    """Problems read from their sources in order; answers are kept as strings.

    Rows without a usable prompt or answer are skipped and counted (`on_bad_row: error`: refused). `notes()` says how
    every source was read, what was skipped, and what `decontaminate` found or dropped. With `drop`, `limit` counts what
    is left.
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
        lines = list(self._train.notes)
        report = self._config.decontaminate == "report"
        trained_on = {fingerprint(problem.prompt) for problem in self._train.problems} if report else set()
        for name, loaded in self._evaluation.items():
            lines += loaded.notes
            shared = count_shared([fingerprint(problem.prompt) for problem in loaded.problems], trained_on)
            if shared:
                lines.append(f"evaluation set {name}: {shared} of {len(loaded.problems)} are training problems too")
        return lines

    @cached_property
    def _train(self) -> _Loaded:
        config = self._config
        dropping = config.decontaminate == "drop"
        how = Reading(
            prompt_field=config.prompt_field,
            answer_field=config.answer_field,
            answer_pattern=config.answer_pattern,
            id_field=config.id_field,
            demonstration_field=config.demonstration_field,
            system_prompt=config.system_prompt,
            on_bad_row=config.on_bad_row,
            limit=None if dropping else config.limit,
        )
        sources = _sources(config.train)
        loaded = _load(sources, how)
        if config.decontaminate != "off":
            loaded = self._cleaned(loaded, sources[0] if len(sources) == 1 else "training")
        return replace(
            loaded,
            problems=loaded.problems[: config.limit],
            demonstrations=loaded.demonstrations[: config.limit],
        )

    def _cleaned(self, loaded: _Loaded, source: str) -> _Loaded:
        """With duplicates reported, or dropped together with what the evaluation sets have."""
        problems = loaded.problems
        duplicates = find_duplicates([exact(problem.prompt) for problem in problems], [p.answer for p in problems])
        if self._config.decontaminate == "report":
            note = duplicates_note(source, len(problems), duplicates, "prompts")
            return replace(loaded, notes=[*loaded.notes, *note])
        evaluated = {fingerprint(problem.prompt) for other in self._evaluation.values() for problem in other.problems}
        kept = keep(duplicates, [fingerprint(problem.prompt) for problem in problems], evaluated)
        if not kept.rows:
            raise InputError(f"{source}: expected problems to be left by decontaminate: drop, got none")
        return _Loaded(
            [problems[row] for row in kept.rows],
            [loaded.demonstrations[row] for row in kept.rows],
            [*loaded.notes, *kept_note(source, len(problems), kept, "problems")],
        )

    @cached_property
    def _evaluation(self) -> dict[str, _Loaded]:
        loaded = {}
        for name, given in self._config.evaluation.items():
            settings = given if isinstance(given, MathSetConfig) else MathSetConfig(path=given)
            how = _reading_of(settings, self._config)
            benchmark = BENCHMARKS.get(name)
            if benchmark is not None:
                how = as_benchmark(how, benchmark)
            held_out = _load(_sources(settings.path), how)
            size = [] if benchmark is None else size_note(benchmark, len(held_out.problems))
            loaded[name] = replace(held_out, notes=[*held_out.notes, *size])
        return loaded


@dataclass(frozen=True)
class _Loaded:
    """Problems of one or more sources, the demonstration of each or None, and notes."""

    problems: list[Problem]
    demonstrations: list[str | None]
    notes: list[str]


def _load(sources: Sequence[str], how: Reading) -> _Loaded:
    sets = [read_problems(source, how) for source in sources]
    return _Loaded(
        joined([read.problems for read in sets]),
        [text for read in sets for text in read.demonstrations],
        [note for read in sets for note in read.notes()],
    )


def _reading_of(settings: MathSetConfig, train: MathConfig) -> Reading:
    answer_field = settings.answer_field or train.answer_field
    inherited = train.answer_pattern if answer_field == train.answer_field else None
    return Reading(
        prompt_field=settings.prompt_field or train.prompt_field,
        answer_field=answer_field,
        answer_pattern=settings.answer_pattern if settings.answer_pattern is not None else inherited,
        id_field=settings.id_field,
        system_prompt=train.system_prompt,
        on_bad_row=train.on_bad_row,
        inherited=settings.prompt_field is None and settings.answer_field is None,
        select=None if settings.select is None else (settings.select.lower(),),
        select_must_apply=settings.select is not None,
    )


def _sources(given: str | tuple[str, ...]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else given
