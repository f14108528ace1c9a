"""Denoise inside TRL: its own advantages reach the loss, bit for bit GRPO's where there is no signal."""

import pandas as pd
import pytest
import torch
from monitored import METRICS
from trl import GRPOTrainer
from trl_parts import BATCH, OPEN, Recording, curated_batch, has_digit, same_weights, trainer, weights_of

from geoalign import PODS, Denoise
from geoalign.errors import UnsupportedError


def test_its_advantages_change_a_real_training(tmp_path):
    def trained(curator, cls=Recording):
        made = trainer(tmp_path, curator, cls=cls, **BATCH)
        made.train()
        return made

    plain = trained(None, GRPOTrainer)
    # A gate at a level that anything passes, and one that nothing passes.
    acting, closed = trained(Denoise(**OPEN)), trained(Denoise(level=1 - 1e-12))
    acted = [step for step in acting.steps if step.curation.metrics["states_used"]]
    assert acted
    for step in acted:
        assert step.curation.advantages is not None
        assert not torch.equal(step.curation.rewards, step.rollouts.rewards)
    assert not same_weights(weights_of(plain), weights_of(acting))
    assert [step.curation.metrics["states_used"] for step in closed.steps] == [0, 0]
    assert same_weights(weights_of(plain), weights_of(closed))


@pytest.mark.parametrize("curator", [Denoise(**OPEN), PODS()], ids=["denoise", "pods"])
def test_a_curator_that_watches_changes_nothing_and_says_what_it_saw(tmp_path, curator):
    changes = {"reward": has_digit, "per_device_train_batch_size": 16, "num_generations": 8, "log_completions": True}
    plain = trainer(tmp_path / "plain", cls=GRPOTrainer, **changes)
    plain.train()
    fields = {"answers": lambda rows: [row["completion"][:1] or None for row in rows]}
    extra = {"monitor": True, "rollout_fields": fields, "log_metrics": "all"}
    watched = trainer(tmp_path / "watched", curator, extra=extra, **changes)
    watched.train()
    assert same_weights(weights_of(plain), weights_of(watched))
    # What looks wrong is a share of the rows with a score, and there is none of PODS.
    without_scores = set() if curator.scores_rows else {"geoalign/anomalous_share"}
    assert all(set(log) >= METRICS - without_scores for log in watched.state.log_history[:2])
    tables = [tmp_path / name / "completions" / "completions_00002.parquet" for name in ("plain", "watched")]
    one, other = map(pd.read_parquet, tables)
    assert other[one.columns].equals(one)
    assert other["source"].tolist() == list(range(16))
    assert other["score"].notna().any() == isinstance(curator, Denoise)


def verdict(completions, **columns):
    """Whether the answer, the first character, is in a vowel's place; wrong where the last one is a digit."""
    found = []
    for text in completions:
        first = text[:1] or " "
        right = ord(first) % 3 == 0
        mistaken = text[-1:].isdigit()
        found.append(float(right != mistaken))
    return found


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
    with pytest.raises(UnsupportedError, match="normalize_then_sum"):  # though its advantages are its own
        first_curation(tmp_path / "other", denoise(), **both, multi_objective_aggregation="normalize_then_sum")
