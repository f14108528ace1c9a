"""Problems answered by an engine and scored, for evaluations in training and for `geoalign evaluate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from geoalign.answers.messages import rendered, token_ids
from geoalign.answers.reward_source import RewardSource, check_scored, reasons, reasons_since
from geoalign.files.columns import whole_text
from geoalign.lab.data.task import Problem
from geoalign.lab.models.draws import seed_of
from geoalign.lab.models.engines import Engine, Generated
from geoalign.lab.models.process_setup import Processes


@dataclass(frozen=True)
class Prompt:
    problem: Problem
    tokens: tuple[int, ...]


# A response to be generated: its prompt, and its number among those to this prompt.
Sample = tuple[Prompt, int]


@dataclass(frozen=True)
class Sampling:
    """How responses are drawn: each from a random stream of its own, of (seed, stream, problem, sample), whatever the
    batch.

    `stream` names the evaluation: its set, in a run also stage and step.
    """

    seed: int
    stream: str
    temperature: float
    max_new_tokens: int


@dataclass(frozen=True)
class Answer:
    """One response, as text that UTF-8 can hold; its reward: NaN where it had none, None where there is no source."""

    prompt: Prompt
    sample: int
    response: str
    generated: Generated
    reward: float | None

    @property
    def correct(self) -> bool:
        """Whether a binary reward is 1; what could not be scored is not right."""
        return self.reward is not None and self.reward > 0.5


def prompts_of(problems: Sequence[Problem], tokenizer: Any, options: Mapping[str, Any] | None = None) -> list[Prompt]:
    """The problems with their prompts in a model's chat template; `options` are the template's arguments."""
    texts = [rendered(problem.prompt, tokenizer, options) for problem in problems]
    return [Prompt(problem, tuple(ids)) for problem, ids in zip(problems, token_ids(texts, tokenizer), strict=True)]


def requests_of(prompts: Sequence[Prompt], samples: int) -> list[Sample]:
    """`samples` requests for each prompt, by prompt, then by sample."""
    return [(prompt, sample) for prompt in prompts for sample in range(samples)]


def answer(engine: Engine, requests: Sequence[Sample], source: RewardSource | None, sampling: Sampling) -> list[Answer]:
    made = engine.generate(
        [prompt.tokens for prompt, _ in requests],
        [seed_of(sampling.seed, sampling.stream, prompt.problem.id, sample) for prompt, sample in requests],
        temperature=sampling.temperature,
        max_new_tokens=sampling.max_new_tokens,
    )
    texts = [whole_text(response.text) for response in made]
    rewards: Sequence[float | None] = [None] * len(requests)
    if source is not None:
        problems = [prompt.problem for prompt, _ in requests]
        rewards = source.score(
            texts, [problem.answer for problem in problems], prompts=[list(problem.prompt) for problem in problems]
        )
    return [
        Answer(prompt, sample, text, response, None if reward is None else float(reward))
        for (prompt, sample), text, response, reward in zip(requests, texts, made, rewards, strict=True)
    ]


def answer_together(
    engine: Engine,
    requests: Sequence[Sample],
    source: RewardSource,
    sampling: Sampling,
    processes: Processes,
    *,
    max_unscored: float,
    what: str,
    batch_size: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Answer]:
    """The answers to all requests in their order, on every process; each process generates its share.

    An engine may need all processes to ask for equally many, so one with a smaller share repeats a request, unused.
    """
    before = reasons(source)
    share = processes.share(range(len(requests)))
    most = -(-len(requests) // processes.count)
    asked = [requests[index] for index in [*share, *[0] * (most - len(share))]]
    size = batch_size or len(asked)
    mine: list[Answer] = []
    for start in range(0, len(asked), size):
        mine += answer(engine, asked[start : start + size], source, sampling)
        progress(min(len(mine) * processes.count, len(requests)))
    gathered = processes.gather(list(zip(share, mine, strict=False)))
    answers = [scored for _, scored in sorted(gathered, key=lambda item: item[0])]
    rewards = [scored.reward for scored in answers if scored.reward is not None]
    check_scored(rewards, max_unscored, why=reasons_since(source, before), what=what)
    return answers
