"""How well a language model answers: accuracy and pass@k, or mean reward, and gold utility where it is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from geoalign.errors import InputError
from geoalign.lab.analysis.statistics.pass_at_k import mean_pass_at_k, powers_of_two
from geoalign.lab.generation.sampling import GREEDY, end_tokens, new_tokens, pad_token, response_length, sampled
from geoalign.lab.rewards.base import RewardSource
from geoalign.lab.tasks.base import Problem
from geoalign.lab.tasks.chat import rendered, token_ids


class Engine(Protocol):
    """Generates new tokens after prompts, by other means than a model's `generate`."""

    def __call__(self, prompts: Sequence[list[int]], *, temperature: float, max_new_tokens: int) -> list[list[int]]:
        """The new tokens after each prompt, with the end token where one was drawn."""


@dataclass(frozen=True)
class EvaluatedResponse:
    """One response of an evaluation.

    Attributes:
        reward: of the source; NaN where it could not be scored.
        gold_utility: what the response is truly worth; None where that is not known.
        tokens: length, with its end.
        truncated: it reached `max_new_tokens` without an end.
    """

    problem_id: str
    sample: int
    response: str
    answer: str
    reward: float
    gold_utility: float | None
    tokens: int
    truncated: bool

    @property
    def correct(self) -> bool:
        """Whether a binary reward is 1."""
        return self.reward > 0.5


@dataclass(frozen=True)
class EvaluationResult:
    """What an evaluation came to; `rows` go by problem, then by sample.

    `accuracy`, `correct` and `pass_at_k` exist only where the rewards are `binary`.
    """

    binary: bool
    samples: int
    rows: tuple[EvaluatedResponse, ...]

    @property
    def count(self) -> int:
        """Responses: problems times samples."""
        return len(self.rows)

    @property
    def correct(self) -> int | None:
        """Responses that are right; one that could not be scored is not."""
        return sum(row.correct for row in self.rows) if self.binary else None

    @property
    def accuracy(self) -> float | None:
        """correct / count (avg@k where several samples were drawn)."""
        return None if self.correct is None else self.correct / self.count

    @property
    def reward(self) -> float | None:
        """Mean reward of the responses that could be scored; None where none could."""
        return _mean([row.reward for row in self.rows if not math.isnan(row.reward)])

    @property
    def gold_utility(self) -> float | None:
        """Mean gold utility of the responses where it is known; None where it is of none."""
        return _mean([row.gold_utility for row in self.rows if row.gold_utility is not None])

    def pass_at_k(self) -> dict[int, float] | None:
        """Mean pass@k over the problems for k = 1, 2, 4, ... up to the number of samples (unbiased estimate)."""
        if not self.binary:
            return None
        right = [
            sum(row.correct for row in self.rows[start : start + self.samples])
            for start in range(0, self.count, self.samples)
        ]
        return {k: mean_pass_at_k(right, samples=self.samples, k=k) for k in powers_of_two(self.samples)}


@torch.inference_mode()
def evaluate_policy(
    model: Any,
    tokenizer: Any,
    problems: Sequence[Problem],
    source: RewardSource,
    *,
    batch_size: int,
    max_new_tokens: int,
    samples: int = 1,
    temperature: float = 0.0,
    seed: int = 0,
    template_options: Mapping[str, Any] | None = None,
    engine: Engine | None = None,
    gold_utility: Callable[[Problem, str], float | None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> EvaluationResult:
    """Generates `samples` responses to every problem and scores them.

    Leaves no trace: the training mode of every module, the tokenizer and torch's generators are as before.

    Args:
        model: a causal language model of transformers, on one device.
        tokenizer: its tokenizer, with a chat template and a padding or end token.
        problems: at least one.
        source: the rewards; never corrupted ones.
        batch_size: responses generated at a time.
        max_new_tokens: longest response, in tokens.
        samples: responses per problem.
        temperature: of the sampling, over the whole vocabulary; 0: the likeliest token each time.
        seed: of the sampling; the same seed and batch size give the same responses.
        template_options: what the chat template is told (`model.chat_template_kwargs`).
        engine: generates instead of the model, everything in one call and with draws of its own; `batch_size` and
            `seed` are not used then.
        gold_utility: of a problem and a response, as a task's; None: not known.
        progress: told the number of responses done after every batch.

    Raises:
        InputError: no problem, a number out of range, or a tokenizer without chat template.
    """
    _check(
        tokenizer,
        problems,
        batch_size=batch_size,
        max_new_tokens=max_new_tokens,
        samples=samples,
        temperature=temperature,
    )
    slots = [(problem, sample) for problem in problems for sample in range(samples)]
    rows: list[EvaluatedResponse] = []
    ends = end_tokens(model, tokenizer)
    with _undisturbed(model, seed):
        size = batch_size if engine is None else len(slots)
        for start in range(0, len(slots), size):
            batch = slots[start : start + size]
            texts = [rendered(problem.prompt, tokenizer, template_options) for problem, _ in batch]
            if engine is None:
                tokens: Sequence[Tensor] = list(_generate(model, tokenizer, texts, max_new_tokens, temperature))
            else:
                ids = engine(token_ids(texts, tokenizer), temperature=temperature, max_new_tokens=max_new_tokens)
                tokens = [torch.tensor(row, dtype=torch.int64) for row in ids]
            rows += _scored(batch, tokens, ends, tokenizer, source, gold_utility)
            if progress is not None:
                progress(len(rows))
    return EvaluationResult(source.binary, samples, tuple(rows))


def _generate(model: Any, tokenizer: Any, texts: Sequence[str], max_new_tokens: int, temperature: float) -> Tensor:
    """[batch, at most max_new_tokens] new tokens after each text, padded on the right."""
    return new_tokens(
        model,
        token_ids(texts, tokenizer),
        pad=pad_token(tokenizer),
        max_new_tokens=max_new_tokens,
        options=sampled(temperature) if temperature > 0 else GREEDY,
    )


def _scored(
    batch: Sequence[tuple[Problem, int]],
    tokens: Sequence[Tensor],
    ends: frozenset[int],
    tokenizer: Any,
    source: RewardSource,
    gold_utility: Callable[[Problem, str], float | None] | None,
) -> Iterator[EvaluatedResponse]:
    lengths = [response_length(row, ends) for row in tokens]
    responses = [
        tokenizer.decode(row[:length], skip_special_tokens=True)
        for row, (length, _) in zip(tokens, lengths, strict=True)
    ]
    problems = [problem for problem, _ in batch]
    rewards = source.score(
        responses, [problem.answer for problem in problems], prompts=[list(problem.prompt) for problem in problems]
    )
    for (problem, sample), text, reward, (length, ended) in zip(batch, responses, rewards, lengths, strict=True):
        gold = None if gold_utility is None else gold_utility(problem, text)
        yield EvaluatedResponse(problem.id, sample, text, problem.answer, float(reward), gold, length, not ended)


@contextmanager
def _undisturbed(model: Any, seed: int) -> Iterator[None]:
    training = [module for module in model.modules() if module.training]
    device = torch.device(model.device)
    devices = [device.index if device.index is not None else 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.manual_seed(seed)
        model.eval()
        try:
            yield
        finally:
            # Module by module: parts that stood in eval mode (a frozen reference) stay there.
            for module in training:
                module.training = True


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _check(tokenizer: Any, problems: Sequence[Problem], *, temperature: float, **counts: int) -> None:
    if not problems:
        raise InputError("problems: expected at least one, got none")
    if tokenizer.chat_template is None:
        raise InputError("tokenizer: expected one with a chat template, got none")
    pad_token(tokenizer)
    for name, count in counts.items():
        if count < 1:
            raise InputError(f"{name}: expected at least 1, got {count}")
    if not temperature >= 0:
        raise InputError(f"temperature: expected at least 0, got {temperature}")
