import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import naive_pairs

from geoalign.method.groups import canonical_order
from geoalign.method.pairs import centred_states, preference_pairs, with_distances
from geoalign.types import Rollouts


def prepared(rewards, groups, hidden):
    """(rows in canonical order, centred states, pairs with distances, whether a pair has a direction)."""
    rewards = torch.tensor(rewards)
    groups = torch.tensor(groups)
    hidden = torch.tensor(hidden)
    rows = canonical_order(rewards, groups, hidden)
    states, length = centred_states(hidden, rows)
    pairs = preference_pairs(rewards[rows.order], rows)
    pairs, directed = with_distances(pairs, states, length, rows)
    return rows, states, pairs, directed


def test_distances_by_hand():
    # 3-4-5 triangles; the states are divided by the batch's largest entry, 4, so the lengths are 5/4 and 0.
    hidden = [[3.0, 4.0], [0.0, 0.0], [3.0, 4.0]]
    rows, _, pairs, directed = prepared([1.0, 0.0, 0.0], [0, 0, 0], hidden)
    losers = rows.order[pairs.loser].tolist()
    assert dict(zip(losers, pairs.distance.tolist(), strict=True)) == {1: pytest.approx(1.25), 2: 0.0}
    assert dict(zip(losers, directed.tolist(), strict=True)) == {1: True, 2: False}


def test_a_small_displacement_of_large_states_is_exact():
    # Without centring, ||a||^2 + ||b||^2 - 2ab in float32 would lose a displacement of 1 beside entries of 3000.
    hidden = torch.full((2, 64), 3000.0)
    hidden[1, 0] += 1
    *_, pairs, directed = prepared([0.0, 1.0], [0, 0], hidden.tolist())
    assert pairs.distance.tolist() == [pytest.approx(1 / 3001, rel=1e-3)]
    assert directed.all()


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_against_loops(data):
    count = data.draw(st.integers(1, 24))
    any_reward = st.sampled_from([0.0, 0.5, 1.0, float("nan")])
    rewards = data.draw(st.lists(any_reward, min_size=count, max_size=count))
    groups = data.draw(st.lists(st.integers(-2, 3), min_size=count, max_size=count))
    hidden = torch.randn(count, 5, generator=torch.Generator().manual_seed(count))
    rows, states, pairs, directed = prepared(rewards, groups, hidden.tolist())
    naive = naive_pairs(Rollouts(rewards=torch.tensor(rewards), groups=torch.tensor(groups), hidden=hidden))
    winners = rows.order[pairs.winner].tolist()
    losers = rows.order[pairs.loser].tolist()
    found = list(zip(winners, losers, strict=True))
    expected_pairs = list(zip(naive.winner, naive.loser, strict=True))
    assert sorted(found) == sorted(expected_pairs)
    assert pairs.margin.tolist() == [rewards[winner] - rewards[loser] for winner, loser in found]
    assert directed.all()
    assert (pairs.group[1:] >= pairs.group[:-1]).all()
    unit = (states[pairs.winner] - states[pairs.loser]) / pairs.distance[:, None]
    expected_directions = dict(zip(expected_pairs, naive.displacement, strict=True))
    for pair, direction in zip(found, unit, strict=True):
        torch.testing.assert_close(direction, expected_directions[pair], atol=1e-5, rtol=1e-4)
