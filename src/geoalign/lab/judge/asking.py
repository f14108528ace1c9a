"""One question to a judge, an OpenAI-compatible endpoint or the local rule, and the verdict in its answer."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from geoalign.lab.config.judge import JudgeConfig
from geoalign.lab.http_client.errors import BadReplyError
from geoalign.lab.http_client.token import token_from
from geoalign.lab.judge.prompt import Comparison, judge_messages

Ask = Callable[[Comparison], Awaitable[str]]

_FENCE = re.compile(r"```(?:json)?[ \t\r]*\n(.*)```", re.DOTALL)
_Score = Annotated[float, Field(ge=0, le=1)]


class Verdict(BaseModel, strict=True, extra="forbid", frozen=True, protected_namespaces=()):
    """A judge's word on two responses: `model_a` is the one shown first, whoever wrote it."""

    overall_winner: Literal["model_a", "model_b", "tie"]
    model_a_score: _Score
    model_b_score: _Score


def parse_verdict(text: str) -> Verdict | None:
    """The verdict that a text is, white space and one code fence around it allowed; None where it is anything else, or
    names a winner without the strictly higher score."""
    fence = _FENCE.fullmatch(text := text.strip(" \t\r\n"))
    try:
        verdict = Verdict.model_validate_json(fence[1] if fence else text)
    except ValueError:
        return None
    lead = verdict.model_a_score - verdict.model_b_score
    return verdict if {"model_a": lead > 0, "model_b": lead < 0, "tie": True}[verdict.overall_winner] else None


async def ask_local(comparison: Comparison) -> str:
    """A verdict without a judge, to try the command: a response scores the share of the last turn's words it has."""
    asked, *responses = (
        set(re.findall(r"\w+", text.lower()))
        for text in (comparison.prompt[-1]["content"], comparison.first, comparison.second)
    )
    first, second = (len(asked & words) / max(1, len(asked)) for words in responses)
    winner = "model_a" if first > second else "model_b" if second > first else "tie"
    return json.dumps({"overall_winner": winner, "model_a_score": first, "model_b_score": second})


@asynccontextmanager
async def endpoint(config: JudgeConfig) -> AsyncIterator[Ask]:
    """Asks `base_url`/chat/completions, in one event loop, for many tasks at once; gives the text that it answers.

    The API key is read from the environment, sent in the Authorization header and nowhere else: one of 8 characters or
    more is taken out of whatever the endpoint answers.
    """
    from geoalign.lab.http_client.client import HTTPClient, read_json  # httpx2: not for the local rule

    variable = config.token_env or ("OPENAI_API_KEY" if os.environ.get("OPENAI_API_KEY", "").strip() else "")
    token = token_from(variable, key="token_env") if variable else ""

    def text_of(data: bytes) -> str:
        try:
            content = read_json(data)["choices"][0]["message"].get("content") or ""
            return client.hidden(content).encode("utf-8", errors="replace").decode("utf-8")
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            got = client.quoted(data[:4096].decode("utf-8", errors="replace"))
            raise BadReplyError(f"expected a chat completion in JSON, got {got}") from error

    async def ask(comparison: Comparison) -> str:
        of_judge = {name: getattr(config, name) for name in ("model", "temperature", "max_tokens")}
        body = {**of_judge, "messages": judge_messages(comparison), **config.request}
        sent = json.dumps({name: value for name, value in body.items() if value is not None}, default=str)
        return await client.ask("POST", "/chat/completions", text_of, sent.encode("ascii"))

    async with aclosing(
        HTTPClient(
            config.base_url,
            key="base_url",
            timeout=config.timeout,
            patience=config.patience,
            token=token,
            connections=config.concurrency,
        )
    ) as client:
        yield ask
