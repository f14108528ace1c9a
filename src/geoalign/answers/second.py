"""A second verifier, by what names it: Math-Verify, a command of the user's, or an endpoint."""

from __future__ import annotations

import asyncio
import json
import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any

from geoalign.answers.verified import VerifiedReward
from geoalign.endpoint.chat import as_prompted, chat, mark_of, marked_messages, unfenced
from geoalign.endpoint.http_client import BadReplyError, read_json
from geoalign.endpoint.settings import JudgeConfig
from geoalign.errors import ConfigError, ServiceError
from geoalign.settings.loading import load_settings
from geoalign.settings.locations import Locations
from geoalign.text import one_line, quote

MATH_VERIFY = "math_verify"
# A truth value says whether the response is correct, a number is its reward, None: not judged.
Verdict = bool | float | None
# Each has `prompt` (a text, or chat messages), `response`, `answer` (the gold one, or None), and what else is known.
Rows = Sequence[Mapping[str, Any]]

# A command may take so many seconds to start, and for each row.
START_SECONDS, ROW_SECONDS = 60.0, 10.0
# Of a row in training, what says nothing beside `response`.
_ENGINES = ("completion", "completion_ids")
_SYSTEM = """\
You are a strict verifier. Decide whether the response answers the prompt correctly. Where a reference answer is given,
the response is correct only if its final answer is equal to it, in whatever form.

Return ONLY a JSON object: {"correct": true}, {"correct": false}, or {"correct": null} where it cannot be told."""


def second_verifier(
    name: str, endpoint: Mapping[str, Any], *, key: str, section: str
) -> Callable[[Rows], list[Verdict]]:
    """What judges rows: `math_verify`, an address (https://host/v1; `endpoint` has the other settings of a judge, by
    the name `section`), or else a command; ConfigError, which names `key`, where there is no such thing."""
    if name == MATH_VERIFY:
        return partial(_verified, VerifiedReward())
    if name.startswith(("http://", "https://")):
        values = {**endpoint, "base_url": name}
        return partial(_asked, load_settings(JudgeConfig, values, Locations({section: key}), path=section), key)
    try:
        words = shlex.split(name)
    except ValueError:
        words = []
    if not words or shutil.which(words[0]) is None:
        raise ConfigError(f"{key}: expected {MATH_VERIFY}, an address or a command, got {quote(name)}")
    return partial(_run, words, key)


def read_verdict(text: str | bytes) -> Verdict:
    """The verdict in a JSON object: its `correct` (true, false or null), or else its `reward`; ValueError otherwise."""
    try:
        row = read_json(text)
    except ValueError:
        row = None
    name = next((name for name in ("correct", "reward") if isinstance(row, dict) and name in row), "")
    value = row[name] if name else ""
    if value is None or (isinstance(value, bool if name == "correct" else (int, float)) and -1e300 < value < 1e300):
        return value if value is None or name == "correct" else float(value)
    raise ValueError(f'{quote(text)}, which is no {{"correct": true, false or null}} or {{"reward": a number}}')


def _verified(source: VerifiedReward, rows: Rows) -> list[Verdict]:
    golds = [(row.get("answer") or "").strip() if row.get("final_answer") or row["response"] else "" for row in rows]
    answers = [f"\\boxed{{{row['final_answer']}}}" if row.get("final_answer") else row["response"] for row in rows]
    found = iter(source.outcomes([*compress(answers, golds)], [*filter(None, golds)]))
    said = {"correct": True, "wrong": False, "no_answer": False}
    return [said.get(next(found)) if gold else None for gold in golds]


def _run(words: Sequence[str], key: str, rows: Rows) -> list[Verdict]:
    """What a command writes, a line for each that it reads; what it writes to its standard error is shown."""
    told = [{name: row[name] for name in row if name not in _ENGINES} for row in rows]
    sent = "".join(json.dumps(row, default=str) + "\n" for row in told).encode("ascii")
    limit = START_SECONDS + ROW_SECONDS * len(rows)
    try:
        done = subprocess.run(words, input=sent, stdout=subprocess.PIPE, timeout=limit, check=True)
        verdicts = [read_verdict(line) for line in done.stdout.splitlines()]
        if len(verdicts) == len(rows):
            return verdicts
        got = f"{len(verdicts)} lines"
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        got = one_line(error)
    raise ServiceError(f"{key}: expected a verdict in JSON on each of {len(rows)} rows, a line each, got {got}")


def _messages(row: Mapping[str, Any]) -> list[dict[str, str]]:
    prompt = [{"role": "user", "content": row["prompt"]}] if isinstance(row["prompt"], str) else row["prompt"]
    texts = [*((f"prompt, {turn['role']}", str(turn["content"])) for turn in prompt), ("response", row["response"])]
    texts += [("reference answer", row["answer"])] if row.get("answer") else []
    parts = [(name, as_prompted(text)) for name, text in texts]
    return marked_messages(_SYSTEM, mark_of([text for _, text in parts]), parts)


def _asked(config: JudgeConfig, key: str, rows: Rows) -> list[Verdict]:
    """What an endpoint says of each row; None where its answer is no verdict, or it does not take the text."""

    async def every() -> list[Verdict]:
        free = asyncio.Semaphore(config.concurrency)
        async with chat(config, _messages) as ask:

            async def judged(row: Mapping[str, Any]) -> Verdict:
                try:
                    async with free:
                        return read_verdict(unfenced(await ask(row)))
                except (ValueError, BadReplyError):
                    return None

            return await asyncio.gather(*map(judged, rows))

    try:
        return asyncio.run(every())
    except ServiceError as error:
        raise ServiceError(f"{key}: {error}") from None
