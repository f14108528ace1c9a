"""How well a language model answers: accuracy and pass@k, or mean reward, and gold utility where it is known."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from geoalign.errors import InputError
from geoalign.rewards.base import RewardSource
from geoalign.statistics.pass_at_k import mean_pass_at_k, powers_of_two
from geoalign.tasks.base import Problem
from geoalign.tasks.rendering import rendered, token_ids


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
    with _undisturbed(model, seed):
        for start in range(0, len(slots), batch_size):
            batch = slots[start : start + batch_size]
            texts = [rendered(problem.prompt, tokenizer, template_options) for problem, _ in batch]
            tokens = _generate(model, tokenizer, texts, max_new_tokens, temperature)
            rows += _scored(batch, tokens, tokenizer, source, gold_utility)
            if progress is not None:
                progress(len(rows))
    return EvaluationResult(source.binary, samples, tuple(rows))


def _generate(model: Any, tokenizer: Any, texts: Sequence[str], max_new_tokens: int, temperature: float) -> Tensor:
    """[batch, at most max_new_tokens] new tokens after each text, padded on the right."""
    encoded = token_ids(texts, tokenizer)
    width = max(map(len, encoded))
    pad = _pad_token(tokenizer)
    prompts = torch.tensor([[pad] * (width - len(ids)) + ids for ids in encoded], device=model.device)
    mask = torch.tensor([[0] * (width - len(ids)) + [1] * len(ids) for ids in encoded], device=model.device)
    sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
    greedy = {"do_sample": False, "temperature": None, "top_k": None, "top_p": None}
    output = model.generate(
        input_ids=prompts,
        attention_mask=mask,
        max_new_tokens=max_new_tokens,
        pad_token_id=pad,
        use_cache=True,
        **(sampling if temperature > 0 else greedy),
    )
    return output[:, width:].cpu()


def _scored(
    batch: Sequence[tuple[Problem, int]],
    tokens: Tensor,
    tokenizer: Any,
    source: RewardSource,
    gold_utility: Callable[[Problem, str], float | None] | None,
) -> Iterator[EvaluatedResponse]:
    lengths = [_length(row, tokenizer.eos_token_id) for row in tokens]
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


def _length(tokens: Tensor, end: int | None) -> tuple[int, bool]:
    """Tokens up to and with the first end token, and whether there is one."""
    found = (tokens == end).nonzero() if end is not None else tokens.new_empty(0)
    return (int(found[0]) + 1, True) if len(found) else (len(tokens), False)


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


def _pad_token(tokenizer: Any) -> int:
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    if pad is None:
        raise InputError("tokenizer: expected a padding or an end token, got none")
    return int(pad)


def _check(tokenizer: Any, problems: Sequence[Problem], *, temperature: float, **counts: int) -> None:
    if not problems:
        raise InputError("problems: expected at least one, got none")
    if tokenizer.chat_template is None:
        raise InputError("tokenizer: expected one with a chat template, got none")
    _pad_token(tokenizer)
    for name, count in counts.items():
        if count < 1:
            raise InputError(f"{name}: expected at least 1, got {count}")
    if not temperature >= 0:
        raise InputError(f"temperature: expected at least 0, got {temperature}")
