"""Accuracy of a language model on problems with gold answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from geoalign.errors import InputError
from geoalign.tasks.base import Problem


class Scorer(Protocol):
    """Scores responses against gold answers, as `VerifiedReward` does."""

    def score(self, responses: Sequence[str], answers: Sequence[str]) -> list[float]: ...


@dataclass(frozen=True)
class EvaluatedResponse:
    """One response of an evaluation. `truncated`: it reached `max_new_tokens` without an end."""

    problem_id: str
    sample: int
    response: str
    answer: str
    correct: bool
    tokens: int
    truncated: bool


@dataclass(frozen=True)
class AccuracyResult:
    """The share of correct responses; `count` is problems times samples, `rows` go by problem, then by sample."""

    correct: int
    count: int
    rows: tuple[EvaluatedResponse, ...]

    @property
    def accuracy(self) -> float:
        """correct / count (avg@k where several samples were drawn)."""
        return self.correct / self.count


@torch.inference_mode()
def evaluate_accuracy(
    model: Any,
    tokenizer: Any,
    problems: Sequence[Problem],
    reward: Scorer,
    *,
    batch_size: int,
    max_new_tokens: int,
    samples: int = 1,
    temperature: float = 0.0,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> AccuracyResult:
    """Generates `samples` responses to every problem and scores them; a score above 0.5 counts as correct.

    Leaves no trace: the training mode of every module, the tokenizer and torch's generators are as before.

    Args:
        model: a causal language model of transformers, on one device.
        tokenizer: its tokenizer, with a chat template and a padding or end token.
        problems: at least one.
        reward: scores the responses.
        batch_size: responses generated at a time.
        max_new_tokens: longest response, in tokens.
        samples: responses per problem.
        temperature: of the sampling, over the whole vocabulary; 0: the likeliest token each time.
        seed: of the sampling; the same seed and batch size give the same responses.
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
            tokens = _generate(model, tokenizer, [problem for problem, _ in batch], max_new_tokens, temperature)
            rows += _scored(batch, tokens, tokenizer, reward)
            if progress is not None:
                progress(len(rows))
    return AccuracyResult(sum(row.correct for row in rows), len(rows), tuple(rows))


def _generate(
    model: Any, tokenizer: Any, problems: Sequence[Problem], max_new_tokens: int, temperature: float
) -> Tensor:
    """[batch, at most max_new_tokens] new tokens, padded on the right."""
    texts = [
        tokenizer.apply_chat_template(list(problem.prompt), tokenize=False, add_generation_prompt=True)
        for problem in problems
    ]
    # The template has written every special token itself.
    encoded = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
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
    batch: Sequence[tuple[Problem, int]], tokens: Tensor, tokenizer: Any, reward: Scorer
) -> Iterator[EvaluatedResponse]:
    lengths = [_length(row, tokenizer.eos_token_id) for row in tokens]
    responses = [
        tokenizer.decode(row[:length], skip_special_tokens=True)
        for row, (length, _) in zip(tokens, lengths, strict=True)
    ]
    scores = reward.score(responses, [problem.answer for problem, _ in batch])
    for (problem, sample), response, score, (length, ended) in zip(batch, responses, scores, lengths, strict=True):
        yield EvaluatedResponse(problem.id, sample, response, problem.answer, score > 0.5, length, not ended)


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
