"""Pairs of several batches: numbered on, weighed by age, and the same as one batch that holds all of their groups."""

import pytest
import torch

from geoalign.errors import ConfigError
from geoalign.method.consensus import raw_prototype
from geoalign.method.groups import canonical_order
from geoalign.method.pairs import Pairs, centred_states, preference_pairs, with_distances
from geoalign.method.pooling import PairPool, WeighedPairs, joined


def prepared(rewards, groups, hidden, weights=None):
    rows = canonical_order(rewards, groups, hidden)
    states, length = centred_states(hidden, rows)
    pairs, directed = with_distances(preference_pairs(rewards[rows.order], rows), states, length, rows)
    pairs = pairs.take(directed)
    return WeighedPairs(states, rows.offsets, pairs, torch.ones(len(pairs)) if weights is None else weights)


def line(*places):
    """One group on a line, rewards 0, 1, 2 ... at these places."""
    hidden = torch.tensor([[float(place), 0.0] for place in places])
    return prepared(torch.arange(float(len(places))), torch.zeros(len(places), dtype=torch.long), hidden)


def test_batches_are_numbered_on_and_weigh_less_with_age_by_hand():
    # Two rows and one pair; then three rows and three pairs: (1, 0) becomes (1, 0), (3, 2) and so on behind two rows.
    whole = joined([line(0, 1), line(0, 1, 5), line(2, 3)], decay=0.5)
    assert whole.offsets.tolist() == [0, 2, 5, 7]
    assert whole.pairs.winner.tolist() == [1, 3, 4, 4, 6]
    assert whole.pairs.loser.tolist() == [0, 2, 2, 3, 5]
    assert whole.pairs.group.tolist() == [0, 1, 1, 1, 2]
    # Distances are in units of each batch's own scale: those of the second are as 1 to 5 to 4.
    assert (whole.pairs.distance[1:4] / whole.pairs.distance[1]).tolist() == pytest.approx([1, 5, 4])
    assert whole.weights.tolist() == [0.25, 0.5, 0.5, 0.5, 1.0]


def test_a_batch_alone_is_itself():
    batch = line(0, 1)
    assert joined([batch], decay=0.5) is batch
    empty = PairPool(0, 0.5)
    empty.add(batch)
    assert empty.joined_with(batch) is batch
    assert empty.state() == []


def test_without_decay_the_prototype_is_that_of_one_batch_with_all_groups():
    draw = torch.Generator().manual_seed(0)
    rewards, hidden = torch.randn(24, generator=draw), torch.randn(24, 5, generator=draw)
    groups = torch.arange(24) // 4
    parts = [slice(0, 8), slice(8, 12), slice(12, 24)]
    whole = joined([prepared(rewards[part], groups[part], hidden[part]) for part in parts], decay=1.0)
    once = prepared(rewards, groups, hidden)
    for name in ("winner", "loser", "group"):
        assert torch.equal(getattr(whole.pairs, name), getattr(once.pairs, name))
    prototypes = [raw_prototype(each.states, each.pairs, each.weights) for each in (whole, once)]
    torch.testing.assert_close(*prototypes)


def test_a_pool_keeps_the_latest_and_goes_on_from_its_state():
    pool = PairPool(2, 0.5)
    for rows in (3, 2, 4):
        pool.add(line(*range(rows)))
    # Of batches of 3, 2 and 4 rows the last two are kept: 1 and 6 pairs, then 1 of a fourth batch.
    whole = pool.joined_with(line(0, 8))
    assert whole.offsets.tolist() == [0, 2, 6, 8]
    assert whole.weights.tolist() == [0.25, *[0.5] * 6, 1.0]
    other = PairPool(2, 0.5)
    other.load(pool.state())
    assert torch.equal(other.joined_with(line(0, 8)).weights, whole.weights)
    assert torch.equal(other.joined_with(line(0, 8)).states, whole.states)
    assert isinstance(other._kept[0].pairs, Pairs)
    with pytest.raises(ConfigError, match="pooled: expected a state of at most 1 earlier batches, got 2"):
        PairPool(1, 0.5).load(pool.state())
