"""The reward model learns what the pairs show, the spurious opener included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import TrainerCallback

from geoalign.lab.config.dialogue import DialogueConfig
from geoalign.lab.config.run import TinyModelConfig
from geoalign.lab.evaluation.scores import pair_accuracy
from geoalign.lab.models.models import initial_model, save
from geoalign.lab.models.process_setup import silence_logs
from geoalign.lab.rewards.reward_model import RewardModelScorer
from geoalign.lab.store.seals import latest_complete
from geoalign.lab.tasks import make_task
from geoalign.lab.train.options import reward_model_options
from geoalign.lab.train.stages.reward_model import first_reward_model, train_reward_model
from geoalign.lab.train.stages.trainers import CompleteCheckpoints


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
    args = reward_model_options(values, seed=0, folder=folder)
    train_reward_model(model, tokenizer, pairs[:2500], args, callbacks=[], resume_from=None)
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
    assert found["pairs"]["with_shortcut"] > 0.9
    # Where the better response lacks the opener, the opener wins all the same.
    assert found["pairs"]["against_shortcut"] < 0.5


def test_a_resumed_training_ends_in_the_same_weights(language_model: Path, tmp_path: Path) -> None:
    pairs = make_task(DialogueConfig(preference_pairs=64), seed=0).preference_pairs()

    def run(folder: Path, steps: int, resume_from: Path | None) -> tuple[dict[str, torch.Tensor], list[float]]:
        torch.manual_seed(0)
        model, tokenizer = first_reward_model(language_model, dtype="float32", seed=0)
        values = {"max_steps": 6, "save_steps": 3, "per_device_train_batch_size": 8, "warmup_steps": 1}
        options = reward_model_options(values, seed=0, folder=folder)
        tokens: list[float] = []
        callbacks = [CompleteCheckpoints(folder, None), _Stop(steps), _Tokens(tokens)]
        train_reward_model(model, tokenizer, pairs, options, callbacks=callbacks, resume_from=resume_from)
        return model.state_dict(), tokens

    expected, counted = run(tmp_path / "whole", 6, None)
    run(tmp_path / "cut", 3, None)
    found, tokens = run(tmp_path / "cut", 6, latest_complete(tmp_path / "cut"))
    assert counted[3:] == tokens
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert not (tmp_path / "whole" / "checkpoint-6" / "README.md").exists()


def test_the_head_is_drawn_from_the_seed_and_nothing_else_is_moved(language_model: Path) -> None:
    before = torch.random.get_rng_state()
    first, again, other = (first_reward_model(language_model, dtype="float32", seed=seed)[0] for seed in (1, 1, 2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(first.score.weight, again.score.weight)
    assert not torch.equal(first.score.weight, other.score.weight)
    assert first.config.num_labels == 1


class _Stop(TrainerCallback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        control.should_training_stop = control.should_training_stop or state.global_step >= self.step


class _Tokens(TrainerCallback):
    def __init__(self, found: list[float]) -> None:
        self.found = found

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs and "num_tokens" in logs:
            self.found.append(logs["num_tokens"])
