"""Denoise inside TRL: its own advantages reach the loss, and a resumed training ends in the same weights."""

import pytest
import torch
from trl import GRPOTrainer
from trl_parts import Recording, check_resume, curated_batch, same_weights, trainer, weights_of

from geoalign.curators.chain import Chain
from geoalign.curators.denoise import Denoise
from geoalign.errors import ConfigError

BATCH = {"per_device_train_batch_size": 32, "num_generations": 8, "max_completion_length": 10}
# A level at which any agreement opens the gate: two steps of a tiny model have no signal worth the name.
OPEN = {"level": 0.01}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    made = trainer(tmp_path_factory.mktemp("plain"), cls=GRPOTrainer, max_steps=3, **BATCH)
    made.train()
    return weights_of(made)


def test_its_advantages_change_a_real_training(tmp_path, plain):
    made = trainer(tmp_path / "denoise", Denoise(**OPEN), cls=Recording, max_steps=3, **BATCH)
    made.train()
    acted = [step for step in made.steps if step.curation.metrics["states_used"]]
    assert acted
    for step in acted:
        assert step.curation.advantages is not None
        assert not torch.equal(step.curation.rewards, step.rollouts.rewards)
    assert not same_weights(plain, weights_of(made))


def test_without_a_signal_it_is_plain_grpo(tmp_path, plain):
    """The gate at a level that nothing passes: bit for bit TRL's own weights."""
    made = trainer(tmp_path / "denoise", Denoise(level=1 - 1e-12), cls=Recording, max_steps=3, **BATCH)
    made.train()
    assert [step.curation.metrics["states_used"] for step in made.steps] == [0, 0, 0]
    assert same_weights(plain, weights_of(made))


def test_resume_reaches_the_same_weights(tmp_path):
    steps = check_resume(tmp_path, lambda: Denoise(**OPEN), **BATCH)
    assert any(step.curation.advantages is not None for step in steps)


def verdict(completions, **columns):
    """Whether the answer, the first character, is in a vowel's place; wrong where the last one is a digit."""
    return [float((ord(text[:1] or " ") % 3 == 0) != text[-1:].isdigit()) for text in completions]


def bonus(completions, **columns):
    return [0.2 * (len(text) % 2) for text in completions]


def first_curation(folder, curator, reward, **changes):
    fields = {"answers": lambda rows: [row["completion"][:1] for row in rows]}
    made = trainer(folder, curator, cls=Recording, reward=reward, extra={"rollout_fields": fields}, **BATCH, **changes)
    curated_batch(made)
    return made.steps[0]


def test_a_format_bonus_does_not_hide_the_verdict_that_is_named(tmp_path):
    def denoise(**changes):
        return Denoise(geometry="none", answers="shared", **changes)

    both = {"reward": [verdict, bonus], "reward_weights": [1.0, 0.5]}
    alone = first_curation(tmp_path / "alone", denoise(), verdict)
    named = first_curation(tmp_path / "named", denoise(component="verdict"), **both)
    summed = first_curation(tmp_path / "summed", denoise(), **both)
    parts = named.rollouts.components
    assert set(parts) == {"verdict", "bonus"}
    torch.testing.assert_close(parts["verdict"] + parts["bonus"], named.rollouts.rewards)
    assert parts["bonus"].unique().tolist() == pytest.approx([0.0, 0.1])
    assert alone.curation.metrics["mean_change"] > 0.01
    torch.testing.assert_close(named.curation.scores, alone.curation.scores, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(named.curation.rewards, alone.curation.rewards + parts["bonus"], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(summed.curation.rewards, named.curation.rewards, atol=1e-3)


def test_a_component_that_is_no_reward_function(tmp_path):
    curator = Chain([Denoise(component="format")])
    with pytest.raises(ConfigError, match="component: expected one of bonus, verdict; got 'format'"):
        trainer(tmp_path, curator, reward=[verdict, bonus])
