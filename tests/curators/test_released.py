import math

import pytest
import torch

from geoalign.curators.baselines import released
from geoalign.curators.baselines.released import GeoAlignReleased, GeoAlignReleasedConfig, ReleasedNetwork, _loss
from geoalign.errors import ConfigError
from geoalign.method.pairs import Pairs
from geoalign.testing.synthetic import synthetic_rollouts


def small(**changes):
    return GeoAlignReleased(**{"min_epochs": 2, "max_epochs": 4, "output_dim": 8, **changes})


def curate(curator, seed=0, groups=24, size=8):
    rollouts = synthetic_rollouts(groups, size, 16, seed=seed, signal=2.0).rollouts
    return rollouts, curator.curate(rollouts, generator=torch.Generator().manual_seed(0))


def test_loss_is_weighted_by_the_margin():
    # Sums of the projections 7, 5 and 2: softplus(-7) = .000911, softplus(-5) = .006715, softplus(-2) = .126928, and
    # softplus(0) = .693147 for each reversed pair, whose projection is zero. Margins 3, 1, 4: divided by 8.
    states, pairs = three_pairs((3.0, 1.0, 4.0))
    expected = (3 * 0.000911 + 1 * 0.006715 + 4 * 0.126928) / 8 + 0.693147
    loss = _loss(plain_network(), states, pairs, torch.Generator())
    assert float(loss.detach()) == pytest.approx(expected, abs=1e-5)


def test_fallback_is_mean_plus_two_deviations():
    curator = small(min_scores=2, max_fraction=1.0, alpha=1e-6)
    scores = torch.tensor([*torch.linspace(0, 1, 60).tolist(), 1.6])
    # No grid point is sparse at alpha 1e-6, so the bound is mean + 2 sd; 1.6 lies beyond it, 1.0 does not.
    flagged = curator._flag(scores)
    bound = scores.double().mean() + 2 * scores.double().std(correction=0)
    assert 1.0 < bound < 1.6
    assert flagged.tolist() == [False] * 60 + [True]


def test_epochs_and_early_stop():
    # 672 pairs less 67 held out = 605: one batch of 1024 an epoch, 4 epochs; accuracy 1 is never reached in so few.
    _, curation = curate(small(target_accuracy=1.0))
    assert curation.metrics["projector_steps"] == 4
    # Batches of 200: four an epoch. Any accuracy will do after two epochs.
    _, curation = curate(small(target_accuracy=0.01, batch_size=200))
    assert curation.metrics["projector_steps"] == 2 * 4
    with pytest.raises(ConfigError, match="expected at least min_epochs"):
        GeoAlignReleasedConfig(min_epochs=5, max_epochs=4)


def test_the_schedule_steps_with_every_batch_and_has_its_period_in_epochs(monkeypatch):
    rates = []
    step = torch.optim.Adam.step

    def noting_the_rate(self, *args, **kwargs):
        rates.append(self.param_groups[0]["lr"])
        return step(self, *args, **kwargs)

    monkeypatch.setattr(torch.optim.Adam, "step", noting_the_rate)
    curate(small(batch_size=200, target_accuracy=1.0, learning_rate=1e-3))
    # Four epochs of four batches; (1 + cos(pi step / 4)) / 2, so it falls to zero in the first epoch and rises again.
    expected = [1e-3 * (1 + math.cos(math.pi * number / 4)) / 2 for number in range(16)]
    assert rates == pytest.approx(expected, abs=1e-9)


def test_the_best_weights_are_kept(monkeypatch):
    # The second epoch is said to be the best one: its weights score, not those of the last.
    said = iter([0.5, 0.9, 0.6, 0.7])
    weights = []

    def accuracy(network, states, pairs):
        weights.append({name: value.clone() for name, value in network.state_dict().items()})
        return next(said)

    used = []
    cosines = released._cosines

    def noting_the_network(network, *rest):
        used.append(network)
        return cosines(network, *rest)

    monkeypatch.setattr(released, "_accuracy", accuracy)
    monkeypatch.setattr(released, "_cosines", noting_the_network)
    # It is the present accuracy that stops it, past min_epochs.
    _, curation = curate(small(target_accuracy=0.85, min_epochs=3, learning_rate=1e-2))
    assert curation.metrics["heldout_pair_accuracy"] == 0.9
    assert curation.metrics["projector_steps"] == 4
    final = used[0].state_dict()
    assert all(torch.equal(final[name], weights[1][name]) for name in final)
    assert not all(torch.equal(final[name], weights[3][name]) for name in final)


def plain_network():
    """First layer and second the identity, no bias, dimension 2: the projection is ReLU(ReLU(difference))."""
    network = ReleasedNetwork(4, 2, 0.0, torch.Generator())
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
        network.first.weight[:, :2] = torch.eye(2)
        network.second.weight.copy_(torch.eye(2))
        network.head.weight.fill_(1)
    return network


def three_pairs(margins=(1.0, 1.0, 1.0)):
    # Differences (3, 4), (5, 0) and (2, 0), in the first two columns; distances are never looked at.
    states = torch.tensor([[3.0, 4.0, 0, 0], [0, 0, 0, 0], [5.0, 0, 0, 0], [2.0, 0, 0, 0]])
    pairs = Pairs(
        winner=torch.tensor([0, 2, 3]),
        loser=torch.tensor([1, 1, 1]),
        group=torch.zeros(3, dtype=torch.long),
        margin=torch.tensor(margins),
        distance=torch.full((3,), 7.0),
    )
    return states, pairs


def test_the_prototype_is_unweighted():
    # Directions (.6, .8), (1, 0), (1, 0): sum (2.6, .8), length 2.72029; the margins do not enter.
    for margins in ((1.0, 1.0, 1.0), (100.0, 1.0, 1.0)):
        states, pairs = three_pairs(margins)
        cosines = released._cosines(plain_network(), states, pairs)
        assert cosines.tolist() == pytest.approx([2.2 / 2.72029, 2.6 / 2.72029, 2.6 / 2.72029], abs=1e-5)


def test_the_cap_is_a_share_of_the_scored_rollouts():
    # 0.29 of 100 scores is 29, however many rollouts have none; a product of floats falls one short.
    curator = small(min_scores=2, max_fraction=0.29, alpha=0.999)
    scores = torch.full((150,), math.nan)
    scores[:100] = torch.linspace(0, 1, 100) ** 3
    assert int(curator._flag(scores).sum()) == 29
