"""Places along a prototype: by hand, against a loop, and in the states' own terms."""

import pytest
import torch

from geoalign.method.alignment import alignments, all_pairs, along_prototypes, contradiction, others
from geoalign.method.consensus import Consensus, new_consensus
from geoalign.method.groups import canonical_order
from geoalign.method.pairs import centred_states, with_distances
from geoalign.method.projector import ProjectorConfig

NAN = float("nan")


def prepared(rewards, groups, hidden):
    rows = canonical_order(rewards, groups, hidden)
    states, length = centred_states(hidden, rows)
    pairs, directed = with_distances(all_pairs(rewards[rows.order], rows), states, length, rows)
    return rows, rewards[rows.order], states, pairs.take(directed)


def raw(prototype):
    consensus = Consensus()
    consensus.prototype = torch.nn.functional.normalize(prototype, dim=0)
    return consensus


def test_alignments_and_contradictions_by_hand():
    # One group on a line at 3, 0, 1 with rewards 0, 0, 1; the prototype points along the line. Every direction is +-1:
    # the row at 3 is above both others, alignment (1 + 1) / 2 = 1; that at 0 below both, -1; that at 1 between them, 0.
    rewards, hidden = torch.tensor([0.0, 0.0, 1.0]), torch.tensor([[3.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    rows, sorted_rewards, states, pairs = prepared(rewards, torch.zeros(3, dtype=torch.long), hidden)
    fold = torch.zeros(1, dtype=torch.long)
    along = along_prototypes([raw(torch.tensor([1.0, 0.0]))], fold, states, pairs)
    alignment = alignments(along, pairs, sorted_rewards, rows)
    back = torch.empty(3)
    back[rows.order] = alignment
    assert back.tolist() == pytest.approx([1, -1, 0])
    # y: mean 1/3, deviation sqrt((1/9 + 1/9 + 4/9) / 2) = 0.577, so -0.577, -0.577, 1.155. -y t: 0.577 for the
    # wrong row that stands highest, -0.577 for the one that stands lowest, 0 between.
    score = torch.empty(3)
    score[rows.order] = contradiction(alignment, sorted_rewards, rows.group)
    assert score.tolist() == pytest.approx([3**-0.5, -(3**-0.5), 0], abs=1e-4)


def test_identical_rows_and_rows_without_reward_are_left_out():
    # At 0, 0, 4 and one without a reward at 9: n - 1 = 2. Between the equal two there is no direction: -1/2 each, 1.
    hidden = torch.tensor([[0.0, 0.0], [0.0, 0.0], [4.0, 0.0], [9.0, 0.0]])
    rewards = torch.tensor([0.0, 1.0, 2.0, NAN])
    rows, sorted_rewards, states, pairs = prepared(rewards, torch.zeros(4, dtype=torch.long), hidden)
    along = along_prototypes([raw(torch.tensor([1.0, 0.0]))], torch.zeros(1, dtype=torch.long), states, pairs)
    assert alignments(along, pairs, sorted_rewards, rows).tolist() == pytest.approx([-0.5, -0.5, 1.0, 0.0])
    assert others(sorted_rewards, rows).tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("projector", [None, ProjectorConfig(hidden_dim=6, output_dim=4, steps=3)])
def test_alignments_equal_a_loop_and_every_group_is_asked_of_its_fold(projector):
    draw = torch.Generator().manual_seed(0)
    rewards, groups = torch.randn(12, generator=draw).round(), torch.arange(12) % 3
    hidden = torch.randn(12, 5, generator=draw)
    rows, sorted_rewards, states, pairs = prepared(rewards, groups, hidden)
    folds = [new_consensus(5, projector, draw) for _ in range(2)]
    for number, consensus in enumerate(folds):
        consensus.fit(states, rows.offsets, pairs.take(pairs.group != number), draw, scored=False)
        chosen = pairs.take(pairs.group != number)
        consensus.settle(consensus.view(states), chosen, torch.ones(len(chosen)))
    fold = torch.tensor([0, 1, 1])
    fast = alignments(along_prototypes(folds, fold, states, pairs), pairs, sorted_rewards, rows)
    assert fast.abs().max() <= 1
    for row in range(12):
        group = int(rows.group[row])
        consensus, total = folds[int(fold[group])], 0.0
        for other in range(12):
            if other != row and rows.group[other] == group:
                one = type(pairs)(*(torch.tensor([at]) for at in (row, other, group)), torch.ones(1), torch.ones(1))
                two = type(pairs)(*(torch.tensor([at]) for at in (other, row, group)), torch.ones(1), torch.ones(1))
                one.distance[:] = two.distance[:] = (states[row] - states[other]).norm()
                up, down = (consensus.directions(states, each) @ consensus.prototype for each in (one, two))
                total += float((up - down) / 2)
        assert float(fast[row]) == pytest.approx(total / 3, abs=1e-5)
