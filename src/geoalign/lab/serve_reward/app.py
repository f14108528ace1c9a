"""The web application around a reward model: /score, /health, /metrics."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from functools import partial

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from geoalign import __version__
from geoalign.errors import InputError
from geoalign.lab.rewards.base import RewardSource, reasons, reasons_since
from geoalign.lab.serve_reward.access import BearerToken
from geoalign.lab.serve_reward.messages import Health, ScoreReply, ScoreRequest
from geoalign.lab.serve_reward.metrics import ServerMetrics

# Requests at the model or waiting for it; a client takes the refusal of more as a sign to come again.
_MOST_IN_LINE = 64

_MOST_PROBLEMS = 5


def reward_app(source: RewardSource, *, token: str | None, max_batch: int, max_bytes: int) -> FastAPI:
    """The application that scores by `source`, one request at a time, off the event loop.

    Args:
        source: its `counters`, where it has some, say why responses have no score.
        token: what requests must bring, but for /health; None: nothing.
        max_batch: most responses in one request.
        max_bytes: largest body of a request, announced or not.
    """
    app = FastAPI(
        title="GeoAlign reward server",
        version=__version__,
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,
        max_body_size=max_bytes,
    )
    metrics = ServerMetrics()
    one_at_a_time = CapacityLimiter(1)
    in_line = 0

    @app.post("/score")
    async def score(request: ScoreRequest) -> ScoreReply:
        _check(request, max_batch)
        nonlocal in_line
        if in_line >= _MOST_IN_LINE:
            raise HTTPException(503, f"busy: {in_line} requests wait for the model", headers={"Retry-After": "1"})
        in_line += 1
        try:
            return await to_thread.run_sync(partial(_score, source, request, metrics), limiter=one_at_a_time)
        finally:
            in_line -= 1

    @app.get("/health")
    async def health() -> Health:
        return Health(version=__version__, max_batch=max_batch, max_bytes=max_bytes)

    @app.get("/metrics")
    async def prometheus() -> Response:
        return Response(metrics.text(), media_type=metrics.content_type)

    @app.middleware("http")
    async def count(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        status = 500
        try:
            response = await call_next(request)
            status = response.status_code
        finally:
            if request.scope["path"] == "/score":
                metrics.answered(status)
        return response

    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(InputError, _refused)
    if token is not None:
        app.add_middleware(BearerToken, token=token)
    return app


def _check(request: ScoreRequest, max_batch: int) -> None:
    if len(request.responses) > max_batch:
        raise InputError(f"responses: expected at most {max_batch}, got {len(request.responses)}")
    if len(request.prompts) != len(request.responses):
        raise InputError(f"prompts: expected {len(request.responses)} as responses, got {len(request.prompts)}")


def _score(source: RewardSource, request: ScoreRequest, metrics: ServerMetrics) -> ScoreReply:
    before = reasons(source)
    prompts = [[message.model_dump() for message in prompt] for prompt in request.prompts]
    start = time.perf_counter()
    rewards = source.score(request.responses, [""] * len(request.responses), prompts=prompts)
    seconds = time.perf_counter() - start
    scores = [reward if math.isfinite(reward) else None for reward in rewards]
    unscored = {name: number for name, number in reasons_since(source, before).items() if number}
    metrics.scored(len(scores) - scores.count(None), unscored, seconds)
    return ScoreReply(scores=scores, unscored=unscored)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    """Names the fields and what was expected; what came is not sent back, it may be long."""
    assert isinstance(error, RequestValidationError)
    problems = [
        f"{'.'.join(str(part) for part in problem['loc'] if part != 'body') or 'body'}: {problem['msg']}"
        for problem in error.errors()
    ]
    more = [f"and {len(problems) - _MOST_PROBLEMS} more"] if len(problems) > _MOST_PROBLEMS else []
    return JSONResponse({"detail": "; ".join(problems[:_MOST_PROBLEMS] + more)}, status_code=422)


async def _refused(_: Request, error: Exception) -> JSONResponse:
    return JSONResponse({"detail": str(error)}, status_code=422)
