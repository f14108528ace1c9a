"""Denoise inside TRL: its own advantages reach the loss, and a resumed training ends in the same weights."""

import pytest
import torch
from trl import GRPOConfig, GRPOTrainer, ModelConfig, ScriptArguments, TrlParser
from trl_parts import Recording, check_resume, same_weights, trainer, weights_of

from geoalign.curators.denoise import Denoise, DenoiseConfig

BATCH = {"per_device_train_batch_size": 32, "num_generations": 8, "max_completion_length": 10}
# A level at which any agreement opens the gate: two steps of a tiny model have no signal worth the name.
OPEN = {"level": 0.01}


@pytest.mark.parametrize("strategy", ["soft", "weight", "drop", "replace"])
def test_each_strategy_changes_a_real_training(tmp_path, strategy):
    made = trainer(tmp_path / "denoise", Denoise(strategy=strategy, **OPEN), cls=Recording, max_steps=4, **BATCH)
    made.train()
    acted = [step for step in made.steps if step.curation.metrics["states_used"]]
    assert acted
    for step in acted:
        if strategy == "soft":
            assert step.curation.advantages is not None
            assert not torch.equal(step.curation.rewards, step.rollouts.rewards)
        if strategy == "weight":
            assert (step.curation.weights < 1).any()
    plain = trainer(tmp_path / "plain", cls=GRPOTrainer, max_steps=4, **BATCH)
    plain.train()
    assert not same_weights(weights_of(plain), weights_of(made))


def test_without_a_signal_it_is_plain_grpo(tmp_path):
    """The gate at a level that nothing passes: bit for bit TRL's own weights."""
    made = trainer(tmp_path / "denoise", Denoise(level=1 - 1e-12), cls=Recording, max_steps=3, **BATCH)
    made.train()
    assert [step.curation.metrics["states_used"] for step in made.steps] == [0, 0, 0]
    plain = trainer(tmp_path / "plain", cls=GRPOTrainer, max_steps=3, **BATCH)
    plain.train()
    assert same_weights(weights_of(plain), weights_of(made))


def test_resume_reaches_the_same_weights(tmp_path):
    steps = check_resume(tmp_path, lambda: Denoise(**OPEN), **BATCH)
    assert any(step.curation.advantages is not None for step in steps)


def test_settings_parse_beside_trls(tmp_path):
    parser = TrlParser((ScriptArguments, DenoiseConfig, GRPOConfig, ModelConfig))
    arguments = ["--output_dir", str(tmp_path), "--use_cpu", "--bf16", "false", "--strategy", "weight", "--window", "5"]
    assert parser.parse_args_and_config(arguments)[1] == DenoiseConfig(strategy="weight", window=5)
