import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from geoalign.lab.data.tasks import make_task
from geoalign.lab.train.read_settings import parse_run_config

TASK = {"operands": 2, "digits": 1, "train_problems": 16, "evaluation_problems": 4, "demonstrations": 32, "seed": 0}
TINY: dict[str, Any] = {
    "model": {"hidden_size": 16, "layers": 1, "heads": 1},
    "task": TASK,
    "curator": {"type": "grpo"},
    "reward": {"flip": 0.3},  # so that rewards differ, though the model answers nothing yet
    "sft": {"max_steps": 1, "per_device_train_batch_size": 4},
    "grpo": {
        "max_steps": 4,
        "num_generations": 4,
        "per_device_train_batch_size": 8,
        "steps_per_generation": 2,
        "save_steps": 2,
        "max_completion_length": 5,
    },
    "evaluation": {"every": None},
}


def tiny_settings(**sections: Any) -> dict[str, Any]:
    """The settings of a run of two generations of 4 prompts x 4 rollouts; keywords are laid over the sections."""
    merged = dict(TINY)
    for name, values in sections.items():
        merged[name] = {**merged.get(name, {}), **values} if isinstance(values, dict) else values
    return merged


@pytest.fixture(scope="session")
def tiny() -> Callable[..., dict[str, Any]]:
    return tiny_settings


@pytest.fixture(scope="module")
def train_here() -> Iterator[Callable[..., dict[str, Any]]]:
    """Trains in this process, without the figures of a report unless asked for; returns what is in summary.json.

    Torch's switches are put back afterwards.
    """
    from geoalign.lab.train.train import train

    def run(settings: dict[str, Any], root: Path, *, report: bool = False, **options: Any) -> dict[str, Any]:
        return train(parse_run_config(settings), root, console=Console(file=io.StringIO()), report=report, **options)

    yield run
    torch.use_deterministic_algorithms(False)


class Digits:
    """A continuous source: the sum of a response's digits."""

    binary = False

    def score(self, responses: Any, answers: Any, *, prompts: Any = None) -> list[float]:
        return [float(sum(int(sign) for sign in text if sign.isdecimal())) for text in responses]


@pytest.fixture
def continuous(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives the arithmetic task a continuous reward and a gold utility."""

    @contextmanager
    def source(run: Any) -> Iterator[Digits]:
        yield Digits()

    def make_task_with_utility(config: Any, *, seed: int) -> Any:
        return replace(make_task(config, seed=seed), gold_utility=lambda problem, response: -float(len(response)))

    monkeypatch.setattr("geoalign.lab.train.train.reward_source", source)
    monkeypatch.setattr("geoalign.lab.train.plan.binary_reward", lambda plan: False)
    monkeypatch.setattr("geoalign.lab.train.plan.make_task", make_task_with_utility)


@pytest.fixture(scope="session")
def dry_run_output() -> Callable[..., str]:
    from geoalign.lab.train.dry_run import dry_run_training

    def run(settings: dict[str, Any], **options: Any) -> str:
        out = io.StringIO()
        dry_run_training(parse_run_config(settings), Console(file=out, width=160), **options)
        return " ".join(out.getvalue().split())

    return run
