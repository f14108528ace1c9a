"""The mean state of a reply, and reward models that score it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from geoalign.errors import ConfigError
from geoalign.lab.config.reward_model import RewardHeadConfig
from geoalign.lab.config.run import TinyModelConfig
from geoalign.lab.models.models import make_tiny_model, make_tokenizer, save
from geoalign.lab.rewards.reward_model import RewardModelScorer, mark_mean, mean_reply_states, reads_mean, reply_start
from geoalign.lab.tasks.base import PreferencePair
from geoalign.lab.train.stages.supervised import first_reward_model, fit_head


@pytest.fixture
def classifier(tmp_path: Path) -> tuple[Any, Any]:
    tokenizer = make_tokenizer(None, max_length=256)
    config = TinyModelConfig(hidden_size=16, layers=3, heads=1)
    save(make_tiny_model(config, tokenizer, seed=0), tokenizer, tmp_path)
    return first_reward_model(tmp_path, dtype="float32", seed=0)


def test_means_are_those_of_each_reply_alone(classifier: tuple[Any, Any]) -> None:
    model, _ = classifier
    rows, starts = [[7, 8, 9, 10], [11, 12], [7, 8, 9, 10, 11, 12, 13]], [1, 0, 5]
    batched = mean_reply_states(model, rows, starts)
    for row, start, mean in zip(rows, starts, batched, strict=True):
        with torch.no_grad():
            states = model.base_model(input_ids=torch.tensor([row])).last_hidden_state[0]
        naive = sum(states[place] for place in range(start, len(row))) / (len(row) - start)
        assert torch.allclose(mean, naive, atol=1e-5)
    # A reply of no token at all: the last one of its dialogue.
    with torch.no_grad():
        last = model.base_model(input_ids=torch.tensor([[11, 12]])).last_hidden_state[0, 1]
    assert torch.allclose(mean_reply_states(model, [[11, 12]], [2])[0], last, atol=1e-5)


def test_a_reply_starts_where_the_template_lets_it(classifier: tuple[Any, Any]) -> None:
    _, tokenizer = classifier
    dialogue = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    ids = tokenizer.apply_chat_template(dialogue, tokenize=True, return_dict=True)["input_ids"]
    assert tokenizer.decode(ids[reply_start(tokenizer, dialogue) :]) == "yes<|end|>"


def test_a_marked_model_scores_the_mean_and_another_one_the_last_token(classifier: tuple[Any, Any]) -> None:
    model, tokenizer = classifier
    prompt = [{"role": "user", "content": "hi"}]
    dialogue = [*prompt, {"role": "assistant", "content": "yes"}]
    ids = tokenizer.apply_chat_template(dialogue, tokenize=True, return_dict=True)["input_ids"]
    with torch.no_grad():
        states = model.base_model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        weights = model.score.weight[0].detach()
    assert not reads_mean(model)
    (last,) = RewardModelScorer(model, tokenizer).score(["yes"], [""], prompts=[prompt])
    assert last == pytest.approx(float(weights @ states[-1]), abs=1e-5)
    mark_mean(model)
    (mean,) = RewardModelScorer(model, tokenizer).score(["yes"], [""], prompts=[prompt])
    assert mean == pytest.approx(float(weights @ states[reply_start(tokenizer, dialogue) :].mean(dim=0)), abs=1e-5)


def test_a_cut_model_is_saved_with_what_its_head_reads(classifier: tuple[Any, Any], tmp_path: Path) -> None:
    model, tokenizer = classifier
    prompt = ({"role": "user", "content": "hi"},)
    pairs = [PreferencePair(prompt, "yes", "no"), PreferencePair(prompt, "ja", "nein")]
    fit_head(model, tokenizer, pairs, RewardHeadConfig(layers=2))
    save(model, tokenizer, tmp_path / "fitted")
    scorers = RewardModelScorer(model, tokenizer), RewardModelScorer.load(tmp_path / "fitted")
    scores, again = (each.score(["yes", "no"], [""] * 2, prompts=[list(prompt)] * 2) for each in scorers)
    assert scores[0] > scores[1]
    assert again == pytest.approx(scores, abs=1e-6)
    with pytest.raises(ConfigError, match=r"reward_head\.layers: expected at most the model's 2, got 4"):
        fit_head(model, tokenizer, pairs, RewardHeadConfig(layers=4))
