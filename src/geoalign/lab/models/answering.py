"""Problems answered by an engine and scored, for evaluations in training and for `geoalign evaluate`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geoalign.answers.messages import rendered, token_ids
from geoalign.answers.reward_source import RewardSource, check_scored, reasons, reasons_since
from geoalign.answers.verified import VerifiedReward
from geoalign.files.columns import whole_text
from geoalign.lab.data.task import EvaluationSet, Problem
from geoalign.lab.models.draws import seed_of
from geoalign.lab.models.engines import Engine
from geoalign.lab.models.process_setup import Processes
from geoalign.lab.models.rows import ResponseRow, messages_json


@dataclass(frozen=True)
class ResponseRequest:
    """A response to be generated: the problem, the tokens of its prompt, and its number among those to this prompt."""

    problem: Problem
    tokens: tuple[int, ...]
    sample: int


@dataclass(frozen=True)
class Sampling:
    """How responses are drawn: each from a random stream of its own, of (seed, stream, problem, sample), whatever the
    batch.

    `stream` names the evaluation: its set, in a run also stage and step.
    """

    seed: int
    stream: str
    temperature: float


def requests_of(
    evaluation_set: EvaluationSet, tokenizer: Any, options: Mapping[str, Any] | None = None
) -> list[ResponseRequest]:
    """Every response to a set in a model's chat template, by problem, then by sample; `options` are the template's."""
    texts = [rendered(problem.prompt, tokenizer, options) for problem in evaluation_set.problems]
    return [
        ResponseRequest(problem, tuple(tokens), sample)
        for problem, tokens in zip(evaluation_set.problems, token_ids(texts, tokenizer), strict=True)
        for sample in range(evaluation_set.samples)
    ]


def answer(
    engine: Engine,
    requests: Sequence[ResponseRequest],
    source: RewardSource | None,
    *,
    model: str,
    evaluation_set: EvaluationSet,
    sampling: Sampling,
) -> list[ResponseRow]:
    """Generates and scores responses to problems of a set, in the order of the requests.

    Args:
        source: what scores them; None: nothing does.
        model: what the rows call the model of the engine.
    """
    responses = engine.generate(
        [request.tokens for request in requests],
        [seed_of(sampling.seed, sampling.stream, request.problem.id, request.sample) for request in requests],
        temperature=sampling.temperature,
        max_new_tokens=evaluation_set.max_new_tokens,
    )
    texts = [whole_text(response.text) for response in responses]
    scores = _score([request.problem for request in requests], texts, source)
    return [
        ResponseRow(
            model=model,
            set=evaluation_set.name,
            id=request.problem.id,
            sample=request.sample,
            prompt=messages_json(request.problem.prompt),
            response=text,
            answer=whole_text(request.problem.answer),
            reward=score.reward,
            correct=score.right if evaluation_set.kind == "benchmark" else None,
            reason=score.reason,
            tokens=response.tokens,
            prompt_tokens=len(request.tokens),
            truncated=response.truncated,
        )
        for request, text, response, score in zip(requests, texts, responses, scores, strict=True)
    ]


@dataclass(frozen=True)
class _Score:
    """The reward of a response, and why it was not scored or not read, as in a row."""

    reward: float | None
    reason: str | None = None

    @property
    def right(self) -> bool:
        """Whether a reward of 0 or 1 is 1; what could not be scored is not right."""
        return self.reward is not None and self.reward > 0.5


def _score(problems: Sequence[Problem], texts: Sequence[str], source: RewardSource | None) -> list[_Score]:
    """The score of each response.

    A verifier says of each response why it could not read it. Of a reward model it is known only why responses of the
    batch have no score, so each of them gets all of these reasons.
    """
    if source is None:
        return [_Score(reward=None) for _ in texts]
    answers = [problem.answer for problem in problems]
    if isinstance(source, VerifiedReward):
        return [
            _Score(float(outcome == "correct"), None if outcome in ("correct", "wrong") else outcome)
            for outcome in source.outcomes(texts, answers)
        ]
    before = reasons(source)
    rewards = source.score(texts, answers, prompts=[list(problem.prompt) for problem in problems])
    counts = reasons_since(source, before)
    why = " or ".join(name for name, count in counts.items() if count) or "no reason given"
    return [_Score(float(reward), why if math.isnan(reward) else None) for reward in rewards]


def check_rows_scored(rows: Sequence[ResponseRow], most: float) -> None:
    """Raises UnscoredError if more than the share `most` of the rows of a set could not be scored."""
    rewards = [row.reward for row in rows if row.reward is not None]
    why = Counter(row.reason for row in rows if row.reason is not None)
    check_scored(rewards, most, why=why, what=f"the responses to {rows[0].set}")


def answer_together(
    engine: Engine,
    requests: Sequence[ResponseRequest],
    source: RewardSource,
    *,
    model: str,
    evaluation_set: EvaluationSet,
    sampling: Sampling,
    processes: Processes,
    max_unscored: float,
    batch_size: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[ResponseRow]:
    """The responses to all requests in their order, on every process; each process generates its share.

    An engine may need all processes to ask for equally many, so one with a smaller share repeats a request, unused.
    """
    share = processes.share(range(len(requests)))
    largest_share = -(-len(requests) // processes.count)
    padding = [0] * (largest_share - len(share))
    asked = [requests[index] for index in [*share, *padding]]
    size = batch_size or len(asked)
    mine: list[ResponseRow] = []
    for start in range(0, len(asked), size):
        batch = asked[start : start + size]
        mine += answer(engine, batch, source, model=model, evaluation_set=evaluation_set, sampling=sampling)
        progress(min(len(mine) * processes.count, len(requests)))
    gathered = processes.gather(list(zip(share, mine, strict=False)))
    rows = [row for _, row in sorted(gathered, key=lambda item: item[0])]
    check_rows_scored(rows, max_unscored)
    return rows
