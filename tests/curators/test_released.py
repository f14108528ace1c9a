"""The released code's rules, where they differ from the paper."""

import math

import pytest
import torch

from geoalign.benchmarks.synthetic import synthetic_rollouts
from geoalign.config import GeoAlignReleasedConfig
from geoalign.curators import GeoAlignReleased
from geoalign.curators.geoalign_released import ReleasedNetwork, _loss, _released_odds
from geoalign.errors import ConfigError
from geoalign.method.pairs import Pairs


def small(**changes):
    return GeoAlignReleased(**{"min_epochs": 2, "max_epochs": 4, "output_dim": 8, **changes})


def curate(curator, seed=0, groups=24, size=8):
    rollouts = synthetic_rollouts(groups, size, 16, seed=seed, signal=2.0).rollouts
    return rollouts, curator.curate(rollouts, generator=torch.Generator().manual_seed(0))


def test_odds_are_left_unnormalised():
    # Every tied best 0.5, the others 0.1.
    assert _released_odds(torch.tensor([1.0, 0.0, 1.0]), None).tolist() == pytest.approx([0.5, 0.1, 0.5])


def test_loss_is_weighted_by_the_margin():
    # All weights zero, head bias 1: both orientations give softplus(-1) + softplus(1) = 0.313262 + 1.313262.
    network = ReleasedNetwork(4, 4, 0.0, None)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.head.bias.fill_(1)
    group, margin = torch.zeros(2, dtype=torch.long), torch.tensor([3.0, 1.0])
    pairs = Pairs(torch.tensor([0, 1]), torch.tensor([1, 2]), group, margin, torch.ones(2))
    assert float(_loss(network, torch.randn(3, 4), pairs, None).detach()) == pytest.approx(1.626523, abs=1e-5)


def test_output_is_not_negative():
    network = ReleasedNetwork(8, 4, 0.1, torch.Generator().manual_seed(0))
    assert network.project(torch.randn(50, 4)).min() >= 0
    assert (network.first.out_features, network.second.out_features) == (4, 4)


def test_fewer_than_the_minimum_flags_nothing():
    _, curation = curate(small(), groups=12)
    assert curation.metrics["scored_rollouts"] == 96
    assert not curation.anomalous.any()


def test_flags_and_caps_and_replaces():
    rollouts, curation = curate(small(max_fraction=0.05, alpha=0.9))
    assert 0 < curation.anomalous.sum() <= int(0.05 * len(rollouts))
    assert curation.metrics["replaced"] == curation.anomalous.sum()
    assert torch.equal(rollouts.groups[curation.source], rollouts.groups)


def test_fallback_is_mean_plus_two_deviations():
    curator = small(min_scores=2, max_fraction=1.0, alpha=1e-6)
    scores = torch.tensor([*torch.linspace(0, 1, 60).tolist(), 1.6])
    # No grid point is sparse at alpha 1e-6, so the bound is mean + 2 sd; 1.6 lies beyond it, 1.0 does not.
    flagged = curator._flag(scores, 61)
    bound = scores.double().mean() + 2 * scores.double().std(correction=0)
    assert 1.0 < bound < 1.6
    assert flagged.tolist() == [False] * 60 + [True]


def test_every_call_starts_afresh():
    curator = small()
    _, one = curate(curator)
    _, other = curate(curator)
    assert torch.equal(one.scores, other.scores)
    assert curator.state_dict() == {}


def test_epochs_and_scheduler():
    # 672 pairs less 67 held out = 605: one batch of 1024 an epoch, 4 epochs, never reaching accuracy 1.
    _, curation = curate(small(target_accuracy=1.0))
    assert curation.metrics["projector_steps"] == 4
    assert 0 <= curation.metrics["heldout_pair_accuracy"] <= 1
    with pytest.raises(ConfigError, match="expected at least min_epochs"):
        GeoAlignReleasedConfig(min_epochs=5, max_epochs=4)


def test_defaults_are_those_of_the_released_code():
    config = GeoAlignReleasedConfig()
    assert (config.min_epochs, config.max_epochs, config.batch_size, config.learning_rate) == (50, 100, 1024, 1e-4)
    assert (config.max_fraction, config.min_scores, config.dropout, config.output_dim) == (0.2, 100, 0.1, 512)
    assert not math.isnan(config.holdout)
