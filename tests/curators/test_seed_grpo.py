"""Seed-GRPO: values that its own source gives, on three groups of eight rewards."""

import math

import pytest
import torch
from geoalign.method.semantic_entropy import cosine_clusters
from worked_groups import RB, close, generator, group

from geoalign import Rollouts
from geoalign.curators.baselines.seed_grpo import SeedGRPO
from geoalign.errors import ConfigError, InputError

ANSWERS = ["7", "5", "5", "3", "5", "7", "9", None]


LOGPROBS = [-0.2, -0.4, -0.3, -0.9, -0.5, -0.6, -1.1, -0.8]


@pytest.mark.parametrize(
    ("answers", "logprobs", "entropy", "code", "linear"),
    [
        (ANSWERS, [-0.5] * 8, 1.494175, 0.970908, 0.985629),
        (ANSWERS, LOGPROBS, 1.355797, 0.973531, 0.986960),
        (["1"] * 8, LOGPROBS, 0.0, 1.0, 1.0),
        ([str(i) for i in range(8)], [-0.5] * 8, math.log(8), 0.959969, 0.98),
        ([None] * 8, [-0.5] * 8, math.log(8), 0.959969, 0.98),
    ],
)
def test_seed_grpo(answers, logprobs, entropy, code, linear):
    rollouts = group(RB, answers=answers, logprobs=torch.tensor(logprobs))
    curation = SeedGRPO().curate(rollouts)
    assert curation.metrics["entropy"] == pytest.approx(entropy, abs=1e-6)
    close(curation.weights, [code] * 8)
    close(SeedGRPO(mode="paper_linear").curate(rollouts).weights, [linear] * 8)
    # exp(-0.02 H / log 8)
    close(SeedGRPO(mode="paper_exp").curate(rollouts).weights, [math.exp(-0.02 * entropy / math.log(8))] * 8)
    if logprobs == [-0.5] * 8:
        without = group(RB, answers=answers)
        close(SeedGRPO(mass="share").curate(without).weights, [code] * 8)


def test_seed_grpo_options():
    rollouts = group(RB, answers=ANSWERS, logprobs=torch.full((8,), -0.5))
    # Clusters of 2, 3, 1, 1, 1 of 8: the mean of -log p is (log 4 + log 8/3 + 3 log 8) / 5 = 1.721089.
    paper = SeedGRPO(entropy="paper").curate(rollouts)
    assert paper.metrics["entropy"] == pytest.approx(1.721089, abs=1e-6)
    # 1 - 0.5 * 1.494175 / log 8 = 0.640727
    close(SeedGRPO(mode="paper_linear", alpha=0.5).curate(rollouts).weights, [0.640727] * 8)
    close(SeedGRPO(mode="paper_linear", alpha=9.0).curate(rollouts).weights, [0.0] * 8)


def test_seed_grpo_scales_each_group_by_its_own_entropy():
    rollouts = Rollouts(
        rewards=torch.tensor([0.0, 1, 0, 1, 1]),
        groups=torch.tensor([3, 8, 3, 8, 1]),
        answers=["a", "b", "a", "c", None],
        logprobs=torch.zeros(5),
    )
    # Group 8: two clusters of 1/2, H = log 2 = H_max: 1 / (1 + 0.0417). Groups 3 (one cluster) and 1 (one row): 1.
    close(SeedGRPO().curate(rollouts).weights, [1.0, 0.959969, 1.0, 0.959969, 1.0])


def test_seed_grpo_with_a_clustering_of_ones_own(unchecked_shapes):
    rollouts = group(RB, logprobs=torch.zeros(8))
    curator = SeedGRPO(clustering=lambda rollouts: ["x"] * 4 + ["y"] * 4)
    assert curator.requires == ("logprobs",)
    assert curator.curate(rollouts).metrics["entropy"] == pytest.approx(math.log(2))
    tensor = SeedGRPO(clustering=lambda rollouts: torch.arange(8) // 4)
    assert tensor.curate(rollouts).metrics["entropy"] == pytest.approx(math.log(2))
    with pytest.raises(InputError, match="expected 8 labels from clustering, got 3"):
        SeedGRPO(clustering=lambda rollouts: [1, 2, 3]).curate(rollouts)
    with pytest.raises(ConfigError, match="clustering to be a function"):
        SeedGRPO(clustering="answers")


def test_seed_grpo_with_hidden_states():
    # Directions at 0, 10, 20, 90 and 180 degrees: steps of 10 degrees (cosine 0.985) chain together, the rest do not.
    angles = torch.tensor([0.0, 10, 20, 90, 180]).deg2rad()
    hidden = torch.stack([angles.cos(), angles.sin()], dim=1)
    # A second group of their opposites makes the mean of the batch zero.
    rollouts = Rollouts(
        rewards=torch.tensor([0.0, 1, 0, 1, 1] * 2),
        groups=torch.arange(2).repeat_interleave(5),
        hidden=torch.cat([hidden, -hidden]),
        logprobs=torch.zeros(10),
    )
    curation = SeedGRPO(clusters="hidden", threshold=0.98).curate(rollouts)
    assert curation.metrics["clusters"] == 3
    # 3/5, 1/5, 1/5: -(0.6 log 0.6 + 0.4 log 0.2) = 0.950271
    assert curation.metrics["entropy"] == pytest.approx(0.950271, abs=1e-6)


@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_seed_grpo_finds_the_meanings_of_states_with_a_large_common_offset(offset):
    # Group i has i + 1 meanings among its 8 rollouts. A state is what all share, its prompt, its meaning, and noise.
    draw, d = generator(3), 256
    prompts, noise = torch.randn(6, d, generator=draw), 0.05 * torch.randn(6, 8, d, generator=draw)
    meanings = torch.randn(6, 6, d, generator=draw)
    which = torch.stack([torch.arange(8) % (number + 1) for number in range(6)])
    states = offset + prompts[:, None] + torch.stack([meanings[i, which[i]] for i in range(6)]) + noise
    fields = {
        "rewards": torch.arange(8.0).repeat(6),
        "groups": torch.arange(6).repeat_interleave(8),
        "logprobs": torch.zeros(48),
    }
    by_state = SeedGRPO(clusters="hidden", alpha=1.0).curate(Rollouts(hidden=states.flatten(0, 1), **fields))
    answers = [str(meaning) for meaning in which.flatten().tolist()]
    by_answer = SeedGRPO(alpha=1.0).curate(Rollouts(answers=answers, **fields))
    assert by_state.metrics["clusters"] == 3.5
    torch.testing.assert_close(by_state.weights, by_answer.weights)
    # As they come, the states of one group are all one cluster once the offset is large.
    assert (len(set(cosine_clusters(states[5], 0.95))) == 1) == (offset > 0)


def test_seed_grpo_takes_equal_states_for_one_meaning():
    rollouts = group([0.0, 1, 1], hidden=torch.full((3, 4), 7.0), logprobs=torch.zeros(3))
    assert SeedGRPO(clusters="hidden").curate(rollouts).metrics["clusters"] == 1


def test_seed_grpo_refuses_to_run_without_answers_or_a_clustering():
    with pytest.raises(InputError, match=r"without a clustering function\) needs the rollout field\(s\) answers"):
        SeedGRPO().curate(group(RB, logprobs=torch.zeros(8)))
    with pytest.raises(InputError, match=r"needs the rollout field\(s\) hidden"):
        SeedGRPO(clusters="hidden").curate(group(RB, logprobs=torch.zeros(8)))
    logprobs = torch.zeros(8)
    logprobs[2] = -math.inf
    with pytest.raises(InputError, match="finite logprobs, got -inf in row 2"):
        SeedGRPO().curate(group(RB, answers=ANSWERS, logprobs=logprobs))
