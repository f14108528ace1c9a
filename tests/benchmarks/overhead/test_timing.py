"""Costs of calls: how often they are made, what is kept, and how a share of a batch counts."""

import math
import time

import pytest
import torch
from benchmarks.overhead.curating import Cost, measure

CPU = torch.device("cpu")


def test_warm_up_calls_are_made_and_not_counted():
    numbers = []

    def call(number):
        numbers.append(number)
        time.sleep(0.3 if number < 2 else 0.0)

    cost = measure(call, repeats=3, warmups=2, device=CPU)
    assert numbers == [0, 1, 2, 3, 4]
    assert len(cost.seconds) == 3
    assert min(cost.seconds) < 0.3
    assert math.isnan(cost.megabytes)


def test_a_call_takes_as_long_as_it_takes():
    cost = measure(lambda _: time.sleep(0.02), repeats=2, warmups=0, device=CPU)
    assert min(cost.seconds) >= 0.02


def test_median_and_scale_by_hand():
    cost = Cost((3.0, 1.0, 2.0), megabytes=7.0)
    assert cost.median == 2.0
    twice = cost.scaled(4.0).scaled(0.5)
    assert twice == Cost((6.0, 2.0, 4.0), megabytes=7.0, scale=2.0)
    assert Cost((1.0, 2.0)).median == pytest.approx(1.5)
