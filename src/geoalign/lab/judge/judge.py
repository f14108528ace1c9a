"""`geoalign judge`: two response files, one judge, a folder with the results."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

import numpy as np

from geoalign.console.numbers import decimals, estimate, percent, whole_percent
from geoalign.console.terminal import Console, passing_progress, print_rows, say, say_paragraph
from geoalign.dumps.response_files import Key, SavedResponse, read_responses
from geoalign.endpoint.chat import answer_to, chat_endpoint
from geoalign.endpoint.client import BadReplyError
from geoalign.endpoint.settings import JudgeConfig
from geoalign.errors import InputError, ServiceError
from geoalign.files.durable import locked
from geoalign.files.json_files import append_line, keep_whole_lines, read_lines, write_json
from geoalign.lab.judge.asking import Ask, Question, ask_local, judge_messages, parse_verdict
from geoalign.lab.judge.command import JudgeRequest
from geoalign.lab.judge.folder import JUDGED, JUDGMENTS
from geoalign.lab.runs.resuming import begin
from geoalign.statistics import Interval, clustered_proportion, proportion_over_groups
from geoalign.text import listed

Pairs = dict[Key, tuple[SavedResponse, SavedResponse]]


# The row of all sets together.
ALL = "all sets"


@dataclass(frozen=True)
class Judged:
    """What a judging came to: the rates of each set by its name, whatever it is called, and of all pairs together."""

    sets: Mapping[str, Rates]
    overall: Rates


def judge(config: JudgeConfig | None, request: JudgeRequest, *, console: Console | None = None) -> Judged:
    """Judges the responses of two files pair by pair, both orders; the rates of each set, and of all together.

    Every judged pair is written as soon as it is there; called again on the same folder, none is asked for again.
    Without `config` the local rule judges, which measures no quality.

    Raises:
        InputError: the files do not have the same responses.
        ServiceError: the endpoint refuses every request, or is away for longer than its patience.
    """
    console = console or Console()
    a = read_responses(request.a)
    b = read_responses(request.b)
    pairs = _matched(a, b, request)
    identity = _identity(config, request)
    failures: Counter[str] = Counter()
    with locked(request.output):
        begin(request.output, identity, kind="judging")
        judgments = _judged(config, pairs, request.output / JUDGMENTS, failures, console)
        sizes = Counter(key[0] for key in pairs)
        sets = {name: rates_of([one for one in judgments if one.set == name], sizes[name]) for name in sizes}
        judged = Judged(sets=sets, overall=rates_of(judgments, len(pairs)))
        results = {
            **identity,
            "a": {"file": str(request.a), "unmatched": len(a) - len(pairs)},
            "b": {"file": str(request.b), "unmatched": len(b) - len(pairs)},
            "sets": {name: asdict(rates) for name, rates in sets.items()},
            "overall": asdict(judged.overall),
            # The paper's "Mean": every set counts alike, however many pairs it has.
            "mean_of_sets": {
                "score_a": fmean(rates.score_a.estimate for rates in sets.values()),
                "score_b": fmean(rates.score_b.estimate for rates in sets.values()),
            },
        }
        write_json(request.output / JUDGED, results)
    print_rates(console, judged, f"A: {request.a}, B: {request.b}, judge: {identity['model']}")
    for reason, count in failures.most_common(5):
        say_paragraph(console, f"{count} pairs failed. The same command asks for them again. Reason: {reason}")
    if config is None:
        say_paragraph(console, "Judged by the local rule: it is there to try the command and measures no quality.")
    say(console, f"Written to {request.output}")
    return judged


def _identity(config: JudgeConfig | None, request: JudgeRequest) -> dict[str, Any]:
    """What makes a judging the same one, so that its folder may be resumed: the question to the judge and the files."""
    identity: dict[str, Any] = {"model": "local rule"}
    if config is not None:
        identity = {
            "base_url": config.base_url,
            "model": config.model,
            "temperature": config.temperature,
            "max_tokens": config.max_tokens,
            "request": config.request,
        }
    identity["a_sha256"] = hashlib.sha256(request.a.read_bytes()).hexdigest()
    identity["b_sha256"] = hashlib.sha256(request.b.read_bytes()).hexdigest()
    return identity


def _matched(a: Mapping[Key, SavedResponse], b: Mapping[Key, SavedResponse], request: JudgeRequest) -> Pairs:
    """The responses of both files to one prompt and sample, in the order of A."""
    pairs = {key: (row, b[key]) for key, row in a.items() if key in b}
    alone = [key for key in (*a, *b) if key not in pairs]
    if (alone and not request.allow_missing) or not pairs:
        got = f"{len(alone)} in one alone: {listed(alone)}; --allow-missing leaves them out"
        raise InputError(f"{request.a} and {request.b}: expected the same (set, id, sample) in both, got {got}")
    for key, (one, two) in pairs.items():
        if one.prompt != two.prompt:
            raise InputError(f"{request.b}: expected the prompt of {key} to be that of {request.a}, got another")
    return pairs


def _judged(
    config: JudgeConfig | None, pairs: Pairs, path: Path, failures: Counter[str], console: Console
) -> list[Judgment]:
    """The judgments in the file, and those of the other pairs, which are added to it; what fails is counted."""
    keep_whole_lines(path)  # a kill may have cut the last one
    judgments = [Judgment(**line) for line in read_lines(path)]
    done = {(one.set, one.id, one.sample) for one in judgments}
    waiting = iter([(key, a, b) for key, (a, b) in pairs.items() if key not in done])

    async def judge_waiting(ask: Ask, update: Callable[..., None]) -> None:
        """Judges pairs until none is waiting; several tasks of these share the pairs among them."""
        for key, a, b in waiting:
            try:
                answers = [
                    await ask(Question(a.prompt, first=a.response, second=b.response)),
                    await ask(Question(a.prompt, first=b.response, second=a.response)),
                ]
            except BadReplyError as error:
                failures[str(error)] += 1
            else:
                judgments.append(judgment_of(key, answers))
                append_line(path, asdict(judgments[-1]))
            update(advance=1)

    async def judge_all(update: Callable[..., None]) -> None:
        if config is None:
            await judge_waiting(ask_local, update)
            return
        async with aclosing(chat_endpoint(config)) as endpoint, asyncio.TaskGroup() as group:

            async def ask(question: Question) -> str:
                return await answer_to(judge_messages(question), endpoint, config)

            for _ in range(config.concurrency):
                group.create_task(judge_waiting(ask, update))

    try:
        with passing_progress(console, "Judging", len(pairs) - len(done)) as update:
            asyncio.run(judge_all(update))
    except* ServiceError as errors:
        # The first one; the other tasks were cancelled for it.
        raise ServiceError(f"judge: {errors.exceptions[0]}; the same command resumes") from None
    return judgments


Winner = Literal["a", "b", "tie", "malformed"]
# By whom the judge names with A shown first, and with B shown first. Whatever else it names is a tie.
_WINNERS: dict[tuple[str, str], Winner] = {("model_a", "model_b"): "a", ("model_b", "model_a"): "b"}


@dataclass(frozen=True)
class Judgment:
    """A line of `judgments.jsonl`; `winner`: who won in both orders, "malformed" if an answer was no verdict."""

    set: str
    id: str
    sample: int
    winner: Winner
    score_a: float
    score_b: float
    answers: Sequence[str]


def judgment_of(key: Key, answers: Sequence[str]) -> Judgment:
    """Reads the answer with A shown first and the one with B shown first."""
    set_name, prompt_id, sample = key
    a_first = parse_verdict(answers[0])
    b_first = parse_verdict(answers[1])
    if a_first is None or b_first is None:
        return Judgment(
            set=set_name,
            id=prompt_id,
            sample=sample,
            winner="malformed",
            score_a=0.0,
            score_b=0.0,
            answers=[answer[:10_000] for answer in answers],
        )
    return Judgment(
        set=set_name,
        id=prompt_id,
        sample=sample,
        winner=_WINNERS.get((a_first.overall_winner, b_first.overall_winner), "tie"),
        score_a=(a_first.model_a_score + b_first.model_b_score) / 2,
        score_b=(a_first.model_b_score + b_first.model_a_score) / 2,
        answers=answers,
    )


@dataclass(frozen=True)
class Rates:
    """The result of A against B; a pair without two verdicts is in the counts of malformed or failed ones only."""

    pairs: int
    judged: int
    malformed: int
    failed: int
    win: Interval
    lose: Interval
    tie: Interval
    score_a: Interval
    score_b: Interval


def rates_of(judgments: Sequence[Judgment], pairs: int) -> Rates:
    """The rates over the judgments with a verdict, with intervals over prompts; `pairs` is the number of all pairs."""
    judged = [one for one in judgments if one.winner != "malformed"]
    by_prompt: dict[tuple[str, str], list[Judgment]] = defaultdict(list)
    for one in judged:
        by_prompt[one.set, one.id].append(one)
    prompts = list(by_prompt.values())
    total = np.array([len(prompt) for prompt in prompts], dtype=np.float64)

    def share_of(winner: Winner) -> Interval:
        won = [sum(one.winner == winner for one in prompt) for prompt in prompts]
        return proportion_over_groups(won, total)[0]

    score_a = np.array([math.fsum(one.score_a for one in prompt) for prompt in prompts], dtype=np.float64)
    score_b = np.array([math.fsum(one.score_b for one in prompt) for prompt in prompts], dtype=np.float64)
    return Rates(
        pairs=pairs,
        judged=len(judged),
        malformed=len(judgments) - len(judged),
        failed=pairs - len(judgments),
        win=share_of("a"),
        lose=share_of("b"),
        tie=share_of("tie"),
        score_a=clustered_proportion(score_a, total),
        score_b=clustered_proportion(score_b, total),
    )


def print_rates(console: Console, judged: Judged, title: str) -> None:
    """Prints who won, then the rates and scores of each set, and what could not be judged."""
    overall = judged.overall
    if overall.judged:
        say_paragraph(
            console,
            f"A won {percent(overall.win.estimate)} of {overall.judged:,} judged pairs and lost "
            f"{percent(overall.lose.estimate)}; {percent(overall.tie.estimate)} were ties.",
            style="bold",
        )
    rows = list(judged.sets.items())
    # Of one set alone the numbers of all pairs are the same.
    if len(rows) > 1:
        rows.append((ALL, overall))
    shares = [
        [
            name,
            f"{rates.judged:,}",
            estimate(rates.win, whole_percent),
            estimate(rates.lose, whole_percent),
            estimate(rates.tie, whole_percent),
        ]
        for name, rates in rows
    ]
    scores = [[name, estimate(rates.score_a, decimals), estimate(rates.score_b, decimals)] for name, rates in rows]
    print_rows(
        console,
        f"{title}. Brackets hold 95% intervals over prompts",
        ("set", "pairs judged", "A won", "A lost", "ties"),
        shares,
    )
    print_rows(console, "Scores that the judge gave, from 0 to 1", ("set", "score of A", "score of B"), scores)
    if overall.malformed:
        say_paragraph(console, f"{overall.malformed:,} pairs are left out: an answer of the judge was no verdict.")
