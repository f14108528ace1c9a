"""Promises on what surrounds a call: the batch that it reads, the process that it runs in, the source of its draws."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.overrides import TorchFunctionMode

from geoalign.testing.trial import BrokenPromiseError, Trial, curate, equal, expect, expect_same, promise


@contextmanager
def process_put_back() -> Iterator[None]:
    """In the block the global generators and torch's default dtype may change; afterwards they are as before."""
    dtype = torch.get_default_dtype()
    of_torch = torch.get_rng_state()
    of_numpy = np.random.get_state()
    of_python = random.getstate()
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
        torch.set_rng_state(of_torch)
        np.random.set_state(of_numpy)
        random.setstate(of_python)


@promise("it never changes the rollouts, and no gradient comes out of it")
def rollouts_stay_as_they_are(trial: Trial) -> None:
    rollouts, before = trial.batch(), trial.batch()
    assert rollouts.hidden is not None
    hidden = rollouts.hidden.requires_grad_()
    curation = trial.decide(rollouts)
    for field in fields(rollouts):
        given, now = getattr(before, field.name), getattr(rollouts, field.name)
        if isinstance(given, Tensor):
            expect(equal(now.detach(), given), f"{field.name} of the rollouts is another after the call")
    expect(hidden.grad is None, "hidden has a gradient")
    for name in ("rewards", "scores", "weights"):
        expect(not getattr(curation, name).requires_grad, f"{name} require a gradient")


def _state_of_process() -> tuple[object, ...]:
    """What belongs to all threads: torch's random state, the default dtype, how products and sums are computed."""
    return (
        torch.get_rng_state().numpy().tobytes(),
        torch.get_default_dtype(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.get_num_threads(),
        *_precision_of_products(),
    )


def _precision_of_products() -> tuple[str, ...]:
    backends: Any = torch.backends
    if not hasattr(backends.cuda.matmul, "fp32_precision"):
        # Before torch 2.9 there is one setting for all.
        return (torch.get_float32_matmul_precision(),)
    operations = (backends.cuda.matmul, backends.cudnn.conv, backends.cudnn.rnn, backends.mkldnn.matmul)
    return tuple(operation.fp32_precision for operation in operations)


def _numpys_random_state() -> tuple[object, ...]:
    """Python's own is not looked at: beartype draws from it while it checks types."""
    state: Any = np.random.get_state(legacy=True)
    return (state[1].tobytes(), state[2:])


class _Watching(TorchFunctionMode):
    """Looks after each of torch's functions whether the process is as it was."""

    def __init__(self) -> None:
        super().__init__()
        self.before = _state_of_process()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if _state_of_process() != self.before:
            raise BrokenPromiseError(f"{func.__name__} changed a random state or a setting of the whole process")
        return result


@promise("it leaves global random states and the settings of the process alone, at every moment of a call")
def the_process_stays_as_it_is(trial: Trial) -> None:
    """Another thread may draw, or compute, meanwhile."""
    rollouts = trial.batch(groups=4, size=4)
    for generator in (Generator().manual_seed(0), None):
        of_numpy = _numpys_random_state()
        with _Watching():
            trial.new().curate(rollouts, generator=generator)
        expect(_numpys_random_state() == of_numpy, "numpy's global random state is another after the call")


@promise("the same rollouts and a generator of the same seed give the same curation, in every bit")
def the_same_seed_gives_the_same_bits(trial: Trial) -> None:
    with process_put_back():
        torch.manual_seed(12345)
        np.random.seed(12345)
        random.seed(12345)
        again = trial.decide(trial.batch())
    expect_same(again, trial.expected, "in a second call under other global seeds (draw from `generator` alone)")


@promise("details change nothing else")
def details_change_nothing(trial: Trial) -> None:
    detailed = curate(trial.new(), trial.batch(), details=True)
    expect_same(detailed, trial.expected, "with details=True")


@promise("without a generator torch's seed alone decides")
def torchs_seed_decides_without_a_generator(trial: Trial) -> None:
    rollouts = trial.batch()
    found = []
    for draws in (1, 2):
        torch.manual_seed(5)
        torch.rand(draws)  # how far the global generator has come does not matter
        found.append(trial.new().curate(rollouts))
    expect_same(found[0], found[1], "under the same torch.manual_seed (call self.drawing_from(generator))")


@promise("autocast and inference mode of the caller change nothing")
def modes_of_the_caller_change_nothing(trial: Trial) -> None:
    rollouts = trial.batch()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.inference_mode():
        inside = trial.decide(rollouts)
    expect_same(inside, trial.expected, "under autocast and inference mode")


@promise("torch's default dtype changes nothing")
def the_default_dtype_changes_nothing(trial: Trial) -> None:
    rollouts, expected = trial.batch(), trial.expected
    for dtype in (torch.float64, torch.bfloat16):
        with process_put_back():
            torch.set_default_dtype(dtype)
            found = trial.decide(rollouts)
        expect_same(found, expected, f"under torch.set_default_dtype({dtype})")
