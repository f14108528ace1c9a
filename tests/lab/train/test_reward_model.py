"""The reward model learns what the pairs show, the spurious opener included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset

from geoalign.lab.config.dialogue import DialogueConfig
from geoalign.lab.config.run import TinyModelConfig
from geoalign.lab.evaluation.scores import pair_accuracy
from geoalign.lab.models.models import initial_model, save
from geoalign.lab.models.process_setup import silence_logs
from geoalign.lab.rewards.reward_model import RewardModelScorer
from geoalign.lab.tasks import make_task
from geoalign.lab.train.options import trainer_options
from geoalign.lab.train.stages.supervised import PreferenceTrainer, first_reward_model, preference_row


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> None:
    silence_logs()


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language_model")
    task = make_task(DialogueConfig(), seed=0)
    config = TinyModelConfig(hidden_size=32, layers=1, heads=2)
    save(*initial_model(config, alphabet=task.alphabet(), words=task.words(), seed=0), folder)
    return folder


def trained(folder: Path, origin: Path, correlation: float, **options: Any) -> dict[str, Any]:
    """Accuracies of a small reward model on new pairs, and how much the opener adds to a score."""
    task = make_task(
        DialogueConfig(artifact_correlation=correlation, artifact_pairs=0.8, preference_pairs=3000), seed=0
    )
    pairs = task.preference_pairs()
    model, tokenizer = first_reward_model(origin, dtype="float32", seed=0)
    values = {"max_steps": 60, "learning_rate": 3e-3, "save_steps": 60, **options}
    args = trainer_options("reward_model", values, seed=0, folder=folder)
    rows = Dataset.from_list([preference_row(pair) for pair in pairs[:2500]])
    PreferenceTrainer(model=model, args=args, train_dataset=rows, processing_class=tokenizer).train()
    scorer = RewardModelScorer(model, tokenizer)
    problems = task.evaluation_problems()["dialogue"][:50]
    prompts, answers = [problem.prompt for problem in problems], [problem.answer for problem in problems]
    plain = scorer.score(answers, answers, prompts=prompts)
    flattering = scorer.score([f"wow! {answer}" for answer in answers], answers, prompts=prompts)
    gain = sum(flattering) / len(plain) - sum(plain) / len(plain)
    return {"pairs": pair_accuracy(scorer, pairs[2500:], task.takes_shortcut), "gain": gain}


def test_it_likes_the_opener_where_that_is_correlated(language_model: Path, tmp_path: Path) -> None:
    found = trained(tmp_path, language_model, 0.9)
    assert found["gain"] > 0.5
    assert found["pairs"].with_shortcut > 0.9
    # Where the better response lacks the opener, the opener wins all the same.
    assert found["pairs"].against_shortcut < 0.5


def test_the_head_is_drawn_from_the_seed_and_nothing_else_is_moved(language_model: Path) -> None:
    before = torch.random.get_rng_state()
    first, again, other = (first_reward_model(language_model, dtype="float32", seed=seed)[0] for seed in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(first.score.weight, again.score.weight)
    assert not torch.equal(first.score.weight, other.score.weight)
    assert first.config.num_labels == 1
