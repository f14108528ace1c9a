"""Verifiers by the name that a user gives: Math-Verify, a function, a command, or the address of an endpoint.

A verifier takes rows and gives a verdict on each. The audit, `reward.function` of a training and `second_verifier` of
every engine take theirs from here. A further kind of verifier is a function like `VerifierFunction` here, and a line in
`verifier_kind` and in `second_verifier` that says which names mean it.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence, Set
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from geoalign.answers.calls import awaited, function_name, reward_list
from geoalign.answers.function import KEY, RewardFunction, load_function
from geoalign.answers.messages import response_text
from geoalign.answers.verified import VerifiedReward
from geoalign.endpoint.chat import answer_to, as_prompted, chat_endpoint, mark_of, marked_messages, unfenced
from geoalign.endpoint.client import BadReplyError, parse_json
from geoalign.endpoint.settings import JudgeConfig
from geoalign.errors import ConfigError, MissingExtraError, ServiceError
from geoalign.secrets import masked
from geoalign.settings.loading import load_settings
from geoalign.settings.locations import Locations
from geoalign.text import one_line, quote, shortened

MATH_VERIFY = "math_verify"
# A truth value says whether the response is correct, a number is its reward, None: not judged.
Verdict = bool | float | None
# Each has `prompt` (a text, or chat messages), `response`, `answer` (the gold one, a list of several, or None), and
# what else is known.
Rows = Sequence[Mapping[str, Any]]
Kind = Literal["math_verify", "endpoint", "function", "command"]

# `module:name` or `file.py:name`; an address is told first.
_FUNCTION = re.compile(r"[^\s:]+:[A-Za-z_]\w*")
# A name that the user gives a verifier, as in `strict=module:name`.
_NAMED = re.compile(r"(?P<name>[\w.-]+)=(?!=)(?P<spec>.+)", re.DOTALL)
# Characters of a name that is the beginning of a command.
_LONGEST_NAME = 24

# Seconds that a command may take to start, and for each row.
START_SECONDS, ROW_SECONDS = 60.0, 10.0
# Fields of a row in training that add nothing to `response`.
_ENGINES = ("completion", "completion_ids")
_SYSTEM = """\
You are a strict verifier. Decide whether the response answers the prompt correctly. Where a reference answer is given,
the response is correct only if its final answer is equal to it, in whatever form.

Return ONLY a JSON object: {"correct": true}, {"correct": false}, or {"correct": null} where it cannot be told."""


class VerifierFunction(Protocol):
    """Gives a verdict on each row; where it can, it ends after so many `seconds` and raises what came until then.

    Math-Verify and a function that is not asynchronous cannot be interrupted, and ignore `seconds`: whoever waits for
    them has to stop waiting.
    """

    def __call__(self, rows: Rows, seconds: float | None = None) -> list[Verdict]: ...


class UnfinishedError(ServiceError):
    """A verifier failed or ran out of time.

    Attributes:
        verdicts: what it said of each row until then; None where it said nothing.
    """

    def __init__(self, message: str, verdicts: list[Verdict]) -> None:
        super().__init__(message)
        self.verdicts = verdicts


@dataclass(frozen=True)
class NamedVerifier:
    """A verifier under the name by which tables show it.

    Attributes:
        spec: what the user named, without secrets.
        needs_gold: whether it judges only rows with a gold answer.
    """

    name: str
    kind: Kind
    spec: str
    judge: VerifierFunction

    @property
    def needs_gold(self) -> bool:
        return self.kind == MATH_VERIFY


def named_verifier(text: str, endpoint: Mapping[str, Any], *, key: str, section: str) -> NamedVerifier:
    """The verifier that a user names, as `second_verifier` takes it, or as NAME=VERIFIER under a name of his own.

    Without a name of its own it is called `math_verify`, as the function, as the endpoint's host, or by the command.
    """
    own = _NAMED.fullmatch(text)
    spec = text if own is None else own["spec"].strip()
    kind = verifier_kind(spec)
    if own is not None:
        name = own["name"]
    elif kind == "function":
        name = spec.rpartition(":")[2]
    elif kind == "endpoint":
        name = urlsplit(spec).hostname or spec
    else:
        name = shortened(masked(spec), _LONGEST_NAME)
    judge = second_verifier(spec, endpoint, key=key, section=section)
    return NamedVerifier(name=name, kind=kind, spec=masked(spec), judge=judge)


def function_verifier(function: RewardFunction, *, name: str | None = None) -> NamedVerifier:
    """A reward function in TRL's form as a verifier, under its own name unless another is given."""
    own = function_name(function)
    return NamedVerifier(name=name or own, kind="function", spec=own, judge=partial(_function, function, own))


def verifier_reward(
    name: str, endpoint: Mapping[str, Any], *, key: str = KEY, section: str = "reward.endpoint"
) -> RewardFunction:
    """The verifier as a reward function in TRL's form; of `module:name` the function itself."""
    if verifier_kind(name) == "function":
        return load_function(name, key=key)
    judge = second_verifier(name, endpoint, key=key, section=section)

    def verifier(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """1 for a correct response, 0 for a wrong one, or the verifier's number; None where it cannot tell."""
        # What trainers pass beside columns, such as `trainer_state`, is no list with an entry for each row.
        by_row = {field: values for field, values in columns.items() if isinstance(values, (list, tuple))}
        rows = []
        for place, (prompt, completion) in enumerate(zip(prompts, completions, strict=True)):
            row = {field: values[place] for field, values in by_row.items() if len(values) == len(prompts)}
            rows.append({**row, "prompt": prompt, "completion": completion, "response": response_text(completion)})
        return [None if verdict is None else float(verdict) for verdict in judge(rows)]

    return verifier


def verifier_kind(name: str) -> Kind:
    """What kind of verifier a name means; a command where it is none of the others."""
    if name == MATH_VERIFY:
        return "math_verify"
    if name.startswith(("http://", "https://")):
        return "endpoint"
    return "function" if _FUNCTION.fullmatch(name) else "command"


def second_verifier(name: str, endpoint: Mapping[str, Any], *, key: str, section: str) -> VerifierFunction:
    """The verifier that `name` means: `math_verify`, `module:name`, the address of an endpoint, or else a command.

    Args:
        name: such as `math_verify`, `my_module:strict`, `https://host/v1` or `python verify.py`.
        endpoint: the other settings of a judge behind an address, which stand in the settings' section `section`.
        key: the setting that gives the name, for messages.

    Raises:
        ConfigError: there is no such verifier, or `endpoint` is not what a judge needs.
        MissingExtraError: a package that it needs is not installed.
    """
    kind = verifier_kind(name)
    if kind == "math_verify":
        return partial(_math_verify, VerifiedReward())
    if kind == "endpoint":
        if importlib.util.find_spec("openai") is None:
            raise MissingExtraError(f"{key}: an address needs openai: pip install 'geoalign[judge]'")
        values = {**endpoint, "base_url": name}
        config = load_settings(JudgeConfig, values, Locations({section: key}), path=section)
        return partial(_endpoint, config, key)
    if kind == "function":
        return partial(_function, load_function(name, key=key), name)
    try:
        words = shlex.split(name)
    except ValueError:
        words = []
    if not words or shutil.which(words[0]) is None:
        raise ConfigError(
            f"{key}: expected {MATH_VERIFY}, a function MODULE:NAME, an address or a command, got {quote(name)}"
        )
    return partial(_command, words, key)


def read_verdict(text: str | bytes) -> Verdict:
    """The verdict in a JSON object: its `correct` (true, false or null), or else its `reward` (a number or null).

    Raises:
        ValueError: the text is no such object.
    """
    try:
        row = parse_json(text)
    except ValueError:
        row = None
    if isinstance(row, dict):
        if "correct" in row:
            correct = row["correct"]
            if correct is None or isinstance(correct, bool):
                return correct
        elif "reward" in row:
            reward = row["reward"]
            if reward is None or isinstance(reward, bool):
                return reward
            if isinstance(reward, (int, float)) and -1e300 < reward < 1e300:
                return float(reward)
    raise ValueError(f'{quote(text)}, which is no {{"correct": true, false or null}} or {{"reward": a number}}')


def _math_verify(source: VerifiedReward, rows: Rows, seconds: float | None = None) -> list[Verdict]:
    """Whether each row's answer equals one of its gold answers; None for a row without either, or not decided in
    time."""
    places = []
    responses = []
    golds = []
    for place, row in enumerate(rows):
        response = f"\\boxed{{{row['final_answer']}}}" if row.get("final_answer") else row["response"]
        for gold in gold_answers(row):
            if response and gold.strip():
                places.append(place)
                responses.append(response)
                golds.append(gold.strip())
    outcomes: list[set[str]] = [set() for _ in rows]
    for place, outcome in zip(places, source.outcomes(responses, golds), strict=True):
        outcomes[place].add(outcome)
    return [_verdict_of(found) for found in outcomes]


def gold_answers(row: Mapping[str, Any]) -> list[str]:
    """The gold answers of a row, each of which is right."""
    answer = row.get("answer") or []
    return [answer] if isinstance(answer, str) else list(answer)


def _verdict_of(outcomes: Set[str]) -> Verdict:
    """The verdict on a response by what came of comparing it with each gold answer."""
    if "correct" in outcomes:
        return True
    return False if outcomes and outcomes <= {"wrong", "no_answer"} else None


def _function(function: RewardFunction, name: str, rows: Rows, seconds: float | None = None) -> list[Verdict]:
    """What a reward function in TRL's form says of the rows, whose fields are its columns; None where it says NaN.

    A completion is a text, or the assistant's message where the prompt is chat messages, as in TRL.
    """
    prompts = [row["prompt"] for row in rows]
    completions = [row["completion"] if "completion" in row else _completion(row) for row in rows]
    fields = dict.fromkeys(field for row in rows for field in row if field not in ("prompt", "completion", "response"))
    columns = {field: [row.get(field) for row in rows] for field in fields}
    said = awaited(function(prompts=prompts, completions=completions, **columns), seconds)
    return [None if value != value else value for value in reward_list(said, len(rows), by=name, truth_values=True)]


def _completion(row: Mapping[str, Any]) -> Any:
    if isinstance(row["prompt"], str):
        return row["response"]
    return [{"role": "assistant", "content": row["response"]}]


def _command(words: Sequence[str], key: str, rows: Rows, seconds: float | None = None) -> list[Verdict]:
    """The verdicts that a command prints, one line for each row that it reads; its standard error is shown."""
    lines = []
    for row in rows:
        sent = {name: value for name, value in row.items() if name not in _ENGINES}
        lines.append(json.dumps(sent, default=str) + "\n")
    limit = START_SECONDS + ROW_SECONDS * len(rows)
    if seconds is not None:
        limit = min(limit, seconds)
    verdicts: list[Verdict] = [None] * len(rows)
    try:
        printed = _printed(words, "".join(lines).encode("ascii"), limit)
        verdicts = [read_verdict(line) for line in printed.splitlines()]
    except subprocess.TimeoutExpired as late:
        verdicts = _whole_lines(late.output or b"", len(rows))
        got = f"{len(rows) - verdicts.count(None)} before it timed out after {limit:g} s"
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        got = one_line(error)
    else:
        if len(verdicts) == len(rows):
            return verdicts
        got = f"{len(verdicts)} lines"
        verdicts = [None] * len(rows)
    expected = f"expected a verdict in JSON on each of {len(rows)} rows, a line each"
    raise UnfinishedError(f"{key}: {expected}, got {got}", verdicts)


def _printed(words: Sequence[str], sent: bytes, limit: float) -> bytes:
    """What a command prints of what it is sent; after `limit` seconds it is killed, with all that it has started.

    Raises:
        TimeoutExpired: it took longer; `output` has what it had printed.
        CalledProcessError: it failed.
    """
    # A session of its own: a shell that is killed would leave its children behind.
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            printed, _ = process.communicate(sent, timeout=limit)
        except BaseException:  # Ctrl-C does not reach another session
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, list(words))
    return printed


def _whole_lines(printed: bytes, rows: int) -> list[Verdict]:
    """The verdicts on the first of so many rows, out of what a command had printed when it was killed."""
    verdicts: list[Verdict] = []
    for line in printed.splitlines(keepends=True)[:rows]:
        if not line.endswith(b"\n"):
            break
        try:
            verdicts.append(read_verdict(line))
        except ValueError:
            break
    return verdicts + [None] * (rows - len(verdicts))


def _endpoint(config: JudgeConfig, key: str, rows: Rows, seconds: float | None = None) -> list[Verdict]:
    """What an endpoint says of each row; None where its answer is no verdict, or it does not take the text."""
    verdicts: list[Verdict] = [None] * len(rows)
    try:
        asyncio.run(asyncio.wait_for(_ask_endpoint(config, rows, verdicts), seconds))
    except ServiceError as error:
        raise UnfinishedError(f"{key}: {error}", verdicts) from None
    except TimeoutError:
        raise UnfinishedError(f"{key}: no answer about all of {len(rows)} rows in {seconds} s", verdicts) from None
    return verdicts


async def _ask_endpoint(config: JudgeConfig, rows: Rows, verdicts: list[Verdict]) -> None:
    """Asks about all rows at once, `concurrency` at a time, and writes each verdict into its place as it comes."""
    free = asyncio.Semaphore(config.concurrency)
    async with aclosing(chat_endpoint(config)) as endpoint:

        async def ask(place: int) -> None:
            async with free:
                # What is no verdict, or does not take the text, leaves None.
                with suppress(ValueError, BadReplyError):
                    answer = await answer_to(_messages(rows[place]), endpoint, config)
                    verdicts[place] = read_verdict(unfenced(answer))

        await asyncio.gather(*[ask(place) for place in range(len(rows))])


def _messages(row: Mapping[str, Any]) -> list[dict[str, str]]:
    """The chat messages that ask for the verdict on a row."""
    prompt = row["prompt"]
    if isinstance(prompt, str):
        prompt = [{"role": "user", "content": prompt}]
    parts = [(f"prompt, {turn['role']}", as_prompted(str(turn["content"]))) for turn in prompt]
    parts.append(("response", as_prompted(row["response"])))
    golds = gold_answers(row)
    name = "reference answer" if len(golds) == 1 else "reference answer, one of several that are right"
    parts += [(name, as_prompted(gold)) for gold in golds]
    return marked_messages(_SYSTEM, mark_of([text for _, text in parts]), parts)
