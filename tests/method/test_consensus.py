import math

import pytest
import torch
from naive import naive_pairs, naive_scores

from geoalign.method.consensus import (
    deviation_index,
    projected_cosines,
    projected_prototype,
    prototype_weights,
    raw_cosines,
    raw_prototype,
)
from geoalign.method.groups import canonical_order
from geoalign.method.pairs import Pairs, centred_states, preference_pairs, with_distances
from geoalign.method.projector import Projector, ProjectorConfig
from geoalign.testing.synthetic import synthetic_rollouts


def hand_pairs():
    # Rows 0..2 with rewards 3, 1, 0 at (1, 0), (0, 0), (0, 1): pairs (0, 1), (0, 2), (1, 2).
    states = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    pairs = Pairs(
        winner=torch.tensor([0, 0, 1]),
        loser=torch.tensor([1, 2, 2]),
        group=torch.tensor([0, 0, 0]),
        margin=torch.tensor([2.0, 3.0, 1.0]),
        distance=torch.tensor([1.0, math.sqrt(2), 1.0]),
    )
    return states, pairs


def test_raw_prototype_and_deviation_by_hand():
    states, pairs = hand_pairs()
    # u: (1, 0), (1, -1)/sqrt(2), (0, -1). Sum of margin * u: (2 + 3/sqrt 2, -3/sqrt 2 - 1) = (4.12132, -3.12132),
    # length 5.16989, so the prototype is (0.797177, -0.603750).
    weights = pairs.margin
    prototype = raw_prototype(states, pairs, weights)
    assert prototype.tolist() == pytest.approx([0.797177, -0.603750], abs=1e-5)
    # Cosines: 0.797177, (0.797177 + 0.603750)/sqrt 2 = 0.990605, 0.603750.
    cosine = raw_cosines(states, pairs, prototype)
    assert cosine.tolist() == pytest.approx([0.797177, 0.990605, 0.603750], abs=1e-5)
    # s: 0.202823, 0.009395, 0.396250. GDI: row 0 s1 + s2, row 1 s1 + s3, row 2 s2 + s3.
    gdi = deviation_index(1 - cosine, pairs, 4, aggregation="sum")
    assert gdi[:3].tolist() == pytest.approx([0.212218, 0.599073, 0.405645], abs=1e-5)
    assert gdi[3].isnan()
    mean = deviation_index(1 - cosine, pairs, 4, aggregation="mean")
    assert mean[:3].tolist() == pytest.approx([0.106109, 0.299537, 0.202823], abs=1e-5)


def test_excess_leaves_out_what_the_pair_count_gives():
    _, pairs = hand_pairs()
    # Three pairs (rows 0-1, 0-2, 1-2) of s = .1, .2, .6, mean .3; in excess: -.2, -.1, .3. Row 0: -.3, 1: .1, 2: .2.
    gdi = deviation_index(torch.tensor([0.1, 0.2, 0.6]), pairs, 4, aggregation="excess")
    assert gdi[:3].tolist() == pytest.approx([-0.3, 0.1, 0.2], abs=1e-6)
    assert gdi[3].isnan()
    # Equal deviations say nothing, however many pairs a row is in.
    of_equal = deviation_index(torch.full((3,), 0.7), pairs, 4, aggregation="excess")
    assert of_equal[:3].abs().max() < 1e-6


def test_unweighted_prototype_by_hand():
    states, pairs = hand_pairs()
    # Sum of u: (1 + 1/sqrt 2, -1/sqrt 2 - 1): the diagonal.
    prototype = raw_prototype(states, pairs, torch.ones(3))
    assert prototype.tolist() == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5)], abs=1e-6)


def test_weights_are_relative_margins():
    _, pairs = hand_pairs()
    assert prototype_weights(pairs.margin).tolist() == pytest.approx([2 / 3, 1, 1 / 3])


def test_projected_scores_equal_the_naive_ones(monkeypatch):
    monkeypatch.setattr("geoalign.method.distillation.BLOCK", 11)
    rollouts = synthetic_rollouts(6, 5, 20, seed=3).rollouts
    rows = canonical_order(rollouts.rewards, rollouts.groups, rollouts.hidden)
    states, length = centred_states(rollouts.hidden, rows)
    pairs = preference_pairs(rollouts.rewards[rows.order], rows)
    pairs, _ = with_distances(pairs, states, length, rows)
    net = Projector(20, ProjectorConfig(hidden_dim=12, output_dim=8), torch.Generator().manual_seed(0))
    with torch.no_grad():
        view = net.on_rollouts(states)
    prototype = projected_prototype(net, view, pairs, prototype_weights(pairs.margin))
    deviation = 1 - projected_cosines(net, view, pairs, prototype)
    scores = torch.empty(len(rollouts))
    scores[rows.order] = deviation_index(deviation, pairs, len(rollouts), aggregation="sum")
    expected = naive_scores(net, naive_pairs(rollouts), len(rollouts))
    torch.testing.assert_close(scores, expected, atol=2e-4, rtol=1e-3)


def test_the_rounding_of_equal_directions_is_no_deviation():
    _, pairs = hand_pairs()
    gdi = deviation_index(torch.tensor([1e-7, 0.0, 3e-7]), pairs, 4, aggregation="sum")
    assert not gdi[:3].any()
