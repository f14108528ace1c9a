"""A probe that labelled rows alone teach, its screening and its penalty; and a concept's direction."""

import math

import pytest
import torch

from geoalign import CURATORS, Rollouts, group_advantages
from geoalign.curators.baselines.labelled import ConceptScore, LabelledProbe, logistic_log_odds


def world(rows=400, d=8, labels=100, seed=0):
    """Groups of 8; a row is right where the first of d coordinates is above 0; half of the wrong ones are rewarded."""
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(rows, d, generator=generator)
    right = hidden[:, 0] > 0
    rewarded = right | (torch.rand(rows, generator=generator) < 0.5)
    trusted = torch.arange(rows) < labels
    rewards = torch.where(trusted, right, rewarded).float()
    return Rollouts(rewards=rewards, groups=torch.arange(rows) // 8, hidden=hidden, trusted=trusted), right


def test_the_logistic_fit_is_the_minimum_of_its_loss():
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(9, 4, generator=generator, dtype=torch.float64)
    positive = torch.tensor([True, True, False, False, False, True, False, False, False])
    # Both kinds have weight 9/2: 3/2 for each of three, 3/4 for each of six. Penalty 0.5 x 4 / 2 |w|^2.
    weights = torch.where(positive, 1.5, 0.75)
    w = torch.zeros(5, dtype=torch.float64, requires_grad=True)

    def loss():
        z = states @ w[:4] + w[4]
        return (weights * torch.nn.functional.softplus(torch.where(positive, -z, z))).sum() + w[:4].square().sum()

    optimizer = torch.optim.LBFGS([w], max_iter=200, tolerance_grad=1e-10, line_search_fn="strong_wolfe")
    optimizer.step(lambda: (optimizer.zero_grad(), loss(), loss().backward())[1])
    expected = states @ w[:4].detach() + w[4].detach()
    torch.testing.assert_close(logistic_log_odds(states, positive, states, penalty=0.5), expected, atol=1e-4, rtol=1e-4)


def test_labels_that_a_line_parts_and_wide_states_stay_finite():
    states = torch.cat([torch.eye(6, 500), -torch.eye(6, 500)]).double() * 1e3
    odds = logistic_log_odds(states, torch.arange(12) < 6, states, penalty=1e-6)
    assert odds.isfinite().all()
    assert ((odds > 0) == (torch.arange(12) < 6)).all()


def test_rewarded_rows_that_the_probe_calls_bad_are_screened_and_no_others():
    rollouts, right = world()
    curation = LabelledProbe().curate(rollouts)
    wrong = (rollouts.rewards == 1) & ~right & ~rollouts.trusted
    hit = curation.anomalous
    assert not hit[rollouts.trusted | (rollouts.rewards == 0)].any()
    assert float(hit[wrong].float().mean()) > 0.85
    assert float(hit[~wrong].float().mean()) < 0.05
    assert torch.equal(curation.weights == 0, hit)
    assert curation.scores[rollouts.trusted].isnan().all()
    dropped = LabelledProbe(strategy="drop").curate(rollouts)
    assert dropped.source.tolist() == (~hit).nonzero()[:, 0].tolist()
    # The score of a row that was refused is the log-odds that it was wrong to: low where the probe calls it bad.
    refused = (rollouts.rewards == 0) & ~rollouts.trusted
    assert float((curation.scores[refused] < 0).float().mean()) > 0.9


def test_the_penalty_subtracts_the_probability_from_every_open_reward():
    rollouts, _ = world()
    screened = LabelledProbe().curate(rollouts)
    lowered = LabelledProbe(strategy="penalty", coefficient=2.0).curate(rollouts)
    open_rows = ~rollouts.trusted
    # In the upper half the score is the log-odds of being bad, in the lower its opposite.
    odds = torch.where(rollouts.rewards == 1, screened.scores, -screened.scores)[open_rows]
    expected = rollouts.rewards[open_rows] - 2 * torch.sigmoid(odds)
    torch.testing.assert_close(lowered.rewards[open_rows], expected)
    assert torch.equal(lowered.rewards[rollouts.trusted], rollouts.rewards[rollouts.trusted])


def test_the_concept_is_subtracted_from_the_advantage():
    # Trusted: state 3 is good and state 1 bad, so standardised +1 and -1 with v = -2. The other group's states 4 and 2
    # are at +2 and 0: c = -4 and 0, of standard deviation 2, so -2 and 0, about their mean -1 and +1. Half of that is
    # taken from GRPO's -+0.7071 (rewards 0 and 1).
    hidden = torch.tensor([[3.0, 5], [1, 5], [4, 5], [2, 5]])
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 0, 0, 1]),
        groups=torch.tensor([0, 0, 1, 1]),
        hidden=hidden,
        trusted=torch.tensor([True, True, False, False]),
    )
    curation = ConceptScore(coefficient=0.5).curate(rollouts)
    assert curation.scores.tolist()[2:] == [-2, 0]
    assert curation.scores[:2].isnan().all()
    assert curation.advantages.tolist() == pytest.approx([0.7071, -0.7071, -0.7071 + 0.5, 0.7071 - 0.5], abs=1e-4)


@pytest.mark.parametrize("name", ["labelled_probe", "concept_score"])
def test_without_labels_of_either_kind_nothing_changes(name):
    rollouts, _ = world(rows=64, labels=0)
    curation = CURATORS[name]().curate(rollouts)
    assert torch.equal(curation.rewards, rollouts.rewards)
    assert (curation.weights == 1).all()
    assert curation.advantages is None or torch.equal(
        curation.advantages, group_advantages(rollouts.rewards, rollouts.groups)
    )
    assert curation.metrics["fitted"] == 0
    assert all(math.isnan(score) for score in curation.scores.tolist())
