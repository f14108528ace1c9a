"""`geoalign judge`: two response files, one judge, a folder with the results."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from geoalign.console.numbers import decimals, estimate, percent, whole_percent
from geoalign.console.terminal import Console, passing_progress, print_rows, say, say_paragraph
from geoalign.dumps.response_files import Key, SavedResponse, read_responses
from geoalign.endpoint.chat import chat
from geoalign.endpoint.http_client import BadReplyError
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
    """
    console = console or Console()
    a, b = read_responses(request.a), read_responses(request.b)
    pairs = _matched(a, b, request)
    asked = ("base_url", "model", "temperature", "max_tokens", "request")
    identity = {name: getattr(config, name) for name in asked} if config else {"model": "local rule"}
    for side, path in (("a", request.a), ("b", request.b)):
        identity[f"{side}_sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    failures: Counter[str] = Counter()
    with locked(request.output):
        begin(request.output, identity, kind="judging")
        judgments = _judged(config, pairs, request.output / JUDGMENTS, failures, console)
        sizes = Counter(key[0] for key in pairs)
        sets = {name: rates_of([one for one in judgments if one.set == name], sizes[name]) for name in sizes}
        overall = rates_of(judgments, len(pairs))
        facts = {
            "a": {"file": str(request.a), "unmatched": len(a) - len(pairs)},
            "b": {"file": str(request.b), "unmatched": len(b) - len(pairs)},
            "sets": {name: asdict(rates) for name, rates in sets.items()},
            "overall": asdict(overall),
            # The paper's "Mean": every set counts alike, however many pairs it has.
            "mean_of_sets": {
                name: math.fsum(getattr(rates, name).estimate for rates in sets.values()) / len(sets)
                for name in ("score_a", "score_b")
            },
        }
        write_json(request.output / JUDGED, {**identity, **facts})
    judged = Judged(sets, overall)
    print_rates(console, judged, f"A: {request.a}, B: {request.b}, judge: {identity['model']}")
    for reason, count in failures.most_common(5):
        say_paragraph(console, f"{count} pairs failed. The same command asks for them again. Reason: {reason}")
    if config is None:
        say_paragraph(console, "Judged by the local rule: it is there to try the command and measures no quality.")
    say(console, f"Written to {request.output}")
    return judged


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
    waiting = iter([(key, *pair) for key, pair in pairs.items() if key not in done])

    async def work(ask: Ask, update: Callable[..., None]) -> None:
        for key, a, b in waiting:
            orders = Question(a.prompt, a.response, b.response), Question(a.prompt, b.response, a.response)
            try:
                judgments.append(judgment_of(key, [await ask(comparison) for comparison in orders]))
                append_line(path, asdict(judgments[-1]))
            except BadReplyError as error:
                failures[str(error)] += 1
            update(advance=1)

    async def ask_all(update: Callable[..., None]) -> None:
        asking = chat(config, judge_messages) if config else nullcontext(ask_local)
        async with asking as ask, asyncio.TaskGroup() as group:
            for _ in range(config.concurrency if config else 1):
                group.create_task(work(ask, update))

    try:
        with passing_progress(console, "Judging", len(pairs) - len(done)) as update:
            asyncio.run(ask_all(update))
    except* ServiceError as errors:
        # The first one; the other tasks were cancelled for it.
        raise ServiceError(f"judge: {errors.exceptions[0]}; the same command resumes") from None
    return judgments


@dataclass(frozen=True)
class Judgment:
    """A line of `judgments.jsonl`; `winner`: who won in both orders, "malformed" if an answer was no verdict."""

    set: str
    id: str
    sample: int
    winner: Literal["a", "b", "tie", "malformed"]
    score_a: float
    score_b: float
    answers: Sequence[str]


def judgment_of(key: Key, answers: Sequence[str]) -> Judgment:
    """Reads the answer with A shown first and the one with B shown first."""
    a_first, b_first = map(parse_verdict, answers)
    if a_first is None or b_first is None:
        return Judgment(*key, "malformed", 0.0, 0.0, [answer[:10_000] for answer in answers])
    named = (a_first.overall_winner, b_first.overall_winner)
    return Judgment(
        *key,
        winner="a" if named == ("model_a", "model_b") else "b" if named == ("model_b", "model_a") else "tie",
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
    """The rates over the judged ones of so many pairs, with intervals over prompts."""
    judged = [one for one in judgments if one.winner != "malformed"]
    by_prompt: dict[tuple[str, str], list[Judgment]] = defaultdict(list)
    for one in judged:
        by_prompt[one.set, one.id].append(one)
    total = np.array([len(group) for group in by_prompt.values()], dtype=np.float64)

    def mean_score(part: str) -> Interval:
        sums = [math.fsum(getattr(one, part) for one in group) for group in by_prompt.values()]
        return clustered_proportion(np.array(sums, dtype=np.float64), total)

    def rate(winner: str) -> Interval:
        won = [sum(one.winner == winner for one in group) for group in by_prompt.values()]
        return proportion_over_groups(won, total)[0]

    return Rates(
        pairs=pairs,
        judged=len(judged),
        malformed=len(judgments) - len(judged),
        failed=pairs - len(judgments),
        win=rate("a"),
        lose=rate("b"),
        tie=rate("tie"),
        score_a=mean_score("score_a"),
        score_b=mean_score("score_b"),
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
    rows = [(name, rates) for name, rates in judged.sets.items()]
    # Of one set alone the numbers of all pairs are the same.
    if len(rows) > 1:
        rows.append((ALL, overall))
    heads = ("set", "pairs judged", "A won", "A lost", "ties")
    shares = []
    scores = []
    for name, rates in rows:
        written = [estimate(rate, whole_percent) for rate in (rates.win, rates.lose, rates.tie)]
        shares.append([name, f"{rates.judged:,}", *written])
        scores.append([name, *(estimate(score, decimals) for score in (rates.score_a, rates.score_b))])
    print_rows(console, f"{title}. Brackets hold 95% intervals over prompts", heads, shares)
    print_rows(console, "Scores that the judge gave, from 0 to 1", ("set", "score of A", "score of B"), scores)
    if overall.malformed:
        say_paragraph(console, f"{overall.malformed:,} pairs are left out: an answer of the judge was no verdict.")
