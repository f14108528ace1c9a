"""`geoalign judge`: two response files, one judge, a folder with what came out."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from geoalign.lab.config.judge import JudgeConfig
from geoalign.lab.config.requests import JudgeRequest
from geoalign.lab.evaluation.responses import read_responses
from geoalign.lab.judge.asking import Answers, Judge, MemoryAnswers, ask_all
from geoalign.lab.judge.local import RULES, LocalJudge
from geoalign.lab.judge.outcome import Answer, JudgedPair, Judgment
from geoalign.lab.judge.pairs import MatchedResponses, ResponsePair, match_responses
from geoalign.lab.judge.prompt import SYSTEM_PROMPT, Comparison
from geoalign.lab.judge.results import JudgeResult, judgment_lines, print_result, result_json, result_of
from geoalign.lab.progress import passing_progress
from geoalign.lab.store.files import locked
from geoalign.lab.store.judging import AnswerCache, JudgeFolder
from geoalign.lab.terminal import Console


def judge(config: JudgeConfig | None, request: JudgeRequest, *, console: Console | None = None) -> JudgeResult:
    """Judges the responses of two files pair by pair, both orders, and writes judgments and result into a folder.

    Called again on the same folder it resumes: answers that are there are not asked for again. Pairs whose judgment
    failed or stayed malformed are counted and left out of the rates.

    Args:
        config: the judge behind an endpoint; None: the local rules, which measure no quality.

    Raises:
        ConfigError: a file is not there, a setting is wrong, or the folder is of another judging.
        InputError: a file is no response file, or the two do not match.
        RunFolderError: the folder holds other files, is broken or in use.
        EndpointError: the endpoint answers nothing any more; what it did answer is kept.
    """
    console = console or Console()
    a, b = request.a, request.b
    file_a, file_b = read_responses(a), read_responses(b)
    matched = match_responses(file_a, file_b, allow_missing=request.allow_missing)
    asked = _judge(config)
    identity = identity_of(a, b, config, RULES)
    folder = JudgeFolder(request.output)
    with locked(folder.root):
        folder.begin(identity)
        pairs = _judged(asked, config, matched.pairs, folder, console)
        result = result_of(pairs)
        folder.write(identity, judgment_lines(pairs), result_json(file_a, file_b, matched, result))
    print_result(console, result, f"A: {a}   B: {b}   judge: {asked.name}")
    for line in [*_notes(matched, config, result), f"Written to {folder.root}"]:
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return result


def _judge(config: JudgeConfig | None) -> Judge:
    if config is None:
        return LocalJudge()
    from geoalign.lab.judge.client import EndpointJudge

    return EndpointJudge(config)


def _judged(
    asked: Judge, config: JudgeConfig | None, pairs: Sequence[ResponsePair], folder: JudgeFolder, console: Console
) -> list[JudgedPair]:
    orders = [pair.comparisons() for pair in pairs]
    keys = [(asked.key(a_first), asked.key(b_first)) for a_first, b_first in orders]
    # The same texts in the same order are one question, asked once.
    comparisons: dict[str, Comparison] = {}
    for names, both in zip(keys, orders, strict=True):
        comparisons.update(zip(names, both, strict=True))
    if config is None:
        answers = asyncio.run(_ask(asked, comparisons, MemoryAnswers(), config, console))
    else:
        with AnswerCache(folder.cache) as cache:
            answers = asyncio.run(_ask(asked, comparisons, cache, config, console))
    return [
        JudgedPair(pair.key, Judgment("a", answers[a_first]), Judgment("b", answers[b_first]))
        for pair, (a_first, b_first) in zip(pairs, keys, strict=True)
    ]


async def _ask(
    asked: Judge, comparisons: Mapping[str, Comparison], kept: Answers, config: JudgeConfig | None, console: Console
) -> dict[str, Answer]:
    counts = {"malformed": 0, "failed": 0}
    async with asked:
        with passing_progress(console, "Judging", len(comparisons)) as update:

            def settled(answer: Answer) -> None:
                if answer.status in counts:
                    counts[answer.status] += 1
                unusable = "".join(f", {count} {status}" for status, count in counts.items() if count)
                update(advance=1, description=f"Judging{unusable}")

            return await ask_all(
                asked,
                comparisons,
                kept,
                malformed_retries=config.malformed_retries if config else 0,
                concurrency=config.concurrency if config else 1,
                failures_in_a_row=config.failures_in_a_row if config else 1,
                settled=settled,
            )


def _notes(matched: MatchedResponses, config: JudgeConfig | None, result: JudgeResult) -> list[str]:
    lines = []
    if matched.only_a or matched.only_b:
        lines.append(
            f"Left out: {len(matched.only_a)} responses that only A has, {len(matched.only_b)} that only B has "
            "(listed in judge.json)."
        )
    if result.overall.failed:
        lines.append(f"{result.overall.failed} pairs failed: the same command asks about them again.")
    if config is None:
        lines.append("Judged by the local rules: they are there to try the command and measure no quality.")
    return lines


def identity_of(a: Path, b: Path, config: JudgeConfig | None, rules: str) -> dict[str, Any]:
    """What a judging depends on, as `settings.json` holds it; names of files are left out, because they may move.

    Args:
        config: the endpoint's settings; None: the local rules named `rules`.
    """
    of_judge: dict[str, Any] = {"judge": rules}
    if config is not None:
        of_judge = {
            "judge": "endpoint",
            "base_url": config.base_url,
            "model": config.model,
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "request": config.request,
            "prompt_sha256": hashlib.sha256(SYSTEM_PROMPT.encode()).hexdigest(),
        }
    return {"a_sha256": _hash(a), "b_sha256": _hash(b), **of_judge}


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
