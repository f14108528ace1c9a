"""A head fitted to pairs on the states of a frozen model."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from geoalign.lab.config.reward_model import RewardHeadConfig
from geoalign.lab.config.run import TinyModelConfig
from geoalign.lab.evaluation.scores import pair_accuracy
from geoalign.lab.models.models import make_tiny_model, make_tokenizer, save
from geoalign.lab.rewards.reward_model import RewardModelScorer
from geoalign.lab.tasks.base import PreferencePair
from geoalign.lab.train.stages.supervised import first_reward_model, fit_head, preference_direction


def columns(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).unsqueeze(1)


def test_a_direction_worked_by_hand() -> None:
    # Chosen 1, rejected 0: s = 0.5, differences / s = 2. softplus(-2 v) + p/2 v^2 has the slope -2 sigmoid(-2 v) + p v.
    # At v = ln(3) / 2 it is -2/4 + p ln(3) / 2, so p = 1 / ln 3 has its minimum there, and w = v / s = ln 3.
    found = preference_direction(columns(1.0, 1.0), columns(0.0, 0.0), 1 / math.log(3))
    assert found.tolist() == pytest.approx([math.log(3)])


def test_what_says_nothing_gets_no_weight() -> None:
    generator = torch.Generator().manual_seed(0)
    chosen, rejected = (torch.randn(40, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    chosen[:, 0], rejected[:, 0] = 7.0, 7.0
    direction = preference_direction(chosen, rejected, 0.1)
    assert direction[0] == 0
    # Pairs the other way round: the opposite direction. Another unit of a coordinate: the same scores.
    assert torch.allclose(preference_direction(rejected, chosen, 0.1), -direction, atol=1e-5)
    units = torch.tensor([1.0, 10.0, 0.1], dtype=torch.float64)
    assert torch.allclose(preference_direction(chosen * units, rejected * units, 0.1) * units, direction, atol=1e-5)


def test_the_head_alone_is_changed_and_tells_the_pairs_apart(tmp_path: Path) -> None:
    tokenizer = make_tokenizer(None, max_length=256)
    config = TinyModelConfig(hidden_size=16, layers=1, heads=1)
    save(make_tiny_model(config, tokenizer, seed=0), tokenizer, tmp_path)
    # Of different lengths, so that batches hold padding.
    pairs = [
        PreferencePair(({"role": "user", "content": "ab" * number},), "yes" * (number % 3 + 1), "no" * (number % 4 + 1))
        for number in range(1, 21)
    ]
    model, tokenizer = first_reward_model(tmp_path, dtype="float32", seed=0)
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    fit_head(model, tokenizer, pairs, RewardHeadConfig(penalty=0.001))
    changed = {name for name, weight in model.state_dict().items() if not weight.equal(before[name])}
    assert changed == {"score.weight"}
    accuracy = pair_accuracy(RewardModelScorer(model, tokenizer, None), pairs, lambda response: False)
    assert accuracy.accuracy == 1.0
    assert accuracy.count == 20
