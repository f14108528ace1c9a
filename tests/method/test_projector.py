"""Eq. 4: the fast form is the same mathematics as the naive one, and training does what it says."""

import copy

import pytest
import torch
from naive import naive_distil, naive_loss, naive_pairs

from geoalign.method.distillation import CHECK_EVERY, _backward, _batches, _groups_in_step, distil, orientation
from geoalign.method.groups import canonical_order
from geoalign.method.pairs import centred_states, preference_pairs, with_distances
from geoalign.method.projector import Projector, ProjectorConfig, new_probe
from geoalign.testing.synthetic import synthetic_rollouts


def prepared(groups=6, size=4, d=24, seed=0, **kwargs):
    rollouts = synthetic_rollouts(groups, size, d, seed=seed, **kwargs).rollouts
    rows = canonical_order(rollouts.rewards, rollouts.groups, rollouts.hidden)
    states, length = centred_states(rollouts.hidden, rows)
    pairs, directed = with_distances(preference_pairs(rollouts.rewards[rows.order], rows), states, length, rows)
    return rollouts, rows, states, pairs.take(directed)


def projector(d=24, layers=3, seed=0, hidden_dim=16, output_dim=8):
    draw = torch.Generator().manual_seed(seed)
    made = Projector(d, ProjectorConfig(layers=layers, hidden_dim=hidden_dim, output_dim=output_dim), draw)
    return made, new_probe(made.output_dim, draw)


@pytest.mark.parametrize("layers", [1, 2, 5])
def test_gradients_equal_the_naive_ones(layers, monkeypatch):
    # Small blocks: gradients of one step are gathered over several.
    monkeypatch.setattr("geoalign.method.distillation.BLOCK", 7)
    _, _, states, pairs = prepared()
    net, probe = projector(layers=layers)
    other = copy.deepcopy(net)
    mine, theirs = probe.clone().requires_grad_(), probe.clone().requires_grad_()
    loss = _backward(net, mine, states, pairs)
    unit = (states[pairs.winner] - states[pairs.loser]) / pairs.distance[:, None]
    expected = naive_loss(other, theirs, unit)
    expected.backward()
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-6, rtol=1e-4)
    for fast, naive in zip(net.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(fast.grad, naive.grad, atol=1e-6, rtol=1e-4)


def test_training_equals_the_naive_training():
    rollouts, rows, states, pairs = prepared(groups=8, size=4)
    generator = torch.Generator().manual_seed(5)
    fast, _ = projector(seed=1)
    naive = copy.deepcopy(fast)
    # The probe is the first thing that `distil` draws.
    probe = new_probe(fast.output_dim, torch.Generator().manual_seed(5))
    config = ProjectorConfig(steps=20, learning_rate=1e-2, holdout=0.0, target_accuracy=None, groups_per_step=None)
    result = distil(fast, states, rows.offsets, pairs, config, generator)
    last = naive_distil(naive, probe, naive_pairs(rollouts).displacement, steps=20, learning_rate=1e-2)
    assert result.steps == 20
    assert result.loss == pytest.approx(last, rel=1e-3)
    torch.testing.assert_close(result.probe, probe.detach(), atol=1e-3, rtol=1e-2)


def run(states, rows, pairs, net, **changes):
    options = {
        "steps": 40, "learning_rate": 1e-2, "holdout": 0.2, "target_accuracy": None,
        "groups_per_step": None,
    }  # fmt: skip
    config = ProjectorConfig(**{**options, **changes})
    return distil(net, states, rows.offsets, pairs, config, torch.Generator().manual_seed(0))


def test_training_learns_the_orientation_and_stops_early():
    _, rows, states, pairs = prepared(groups=24, size=6, d=32, signal=3.0, corruption=0.0)
    net, _ = projector(d=32)
    result = run(states, rows, pairs, net, target_accuracy=0.9)
    assert result.heldout_accuracy >= 0.9
    assert result.steps < 40
    assert result.steps % CHECK_EVERY == 0
    assert orientation(net, result.probe, states, pairs).mean() > 0.9


def test_heldout_pairs_are_not_trained_on():
    # Reversing the order of a held-out pair must not change what is learned; of a training pair it must.
    _, rows, states, pairs = prepared(groups=8, size=4)
    net, _ = projector()
    held, _ = projector()
    count = len(pairs)
    out = torch.randperm(count, generator=_after_probe(net))[: int(0.2 * count)]
    changed = copy.copy(pairs)
    winner, loser = pairs.winner.clone(), pairs.loser.clone()
    winner[out], loser[out] = pairs.loser[out], pairs.winner[out]
    object.__setattr__(changed, "winner", winner)
    object.__setattr__(changed, "loser", loser)
    first = run(states, rows, pairs, net)
    second = run(states, rows, changed, held)
    assert torch.equal(first.probe, second.probe)
    assert first.heldout_accuracy == pytest.approx(1 - second.heldout_accuracy, abs=1e-6)


def _after_probe(net):
    generator = torch.Generator().manual_seed(0)
    new_probe(net.output_dim, generator)
    return generator


def test_one_pair_is_trained_on_without_holdout():
    _, rows, states, pairs = prepared(groups=1, size=2)
    net, _ = projector()
    result = run(states, rows, pairs, net, holdout=0.9, target_accuracy=0.9)
    assert result.steps == 40
    assert result.heldout_accuracy != result.heldout_accuracy


def test_group_draws_visit_every_group_once_a_round():
    _, rows, states, pairs = prepared(groups=6)
    batches = _batches(states, rows.offsets, pairs, 2, torch.Generator().manual_seed(0))
    seen = torch.cat([next(batches)[1].group.unique() for _ in range(3)])
    assert seen.sort().values.tolist() == list(range(6))


def test_groups_in_step():
    # "auto": 1024 pairs a step; 96 groups with 11,520 pairs hold 120 each, so ceil(1024 / 120) = 9 groups.
    assert _groups_in_step("auto", 96, 11520) == 9
    # 2,016 pairs a group: eight groups at least.
    assert _groups_in_step("auto", 1024, 1024 * 2016) == 8
    assert _groups_in_step("auto", 3, 30) == 3
    assert _groups_in_step(None, 96, 11520) == 96
    assert _groups_in_step(200, 96, 11520) == 96


def test_orientation_of_a_constant_probe_is_chance():
    _, _, states, pairs = prepared()
    net, probe = projector()
    with torch.no_grad():
        for linear in net.linears:
            linear.weight.zero_()
            linear.bias.fill_(1)
    assert orientation(net, probe.abs(), states, pairs).mean() == 0.5


def test_auto_thins_the_steps_of_large_groups(monkeypatch):
    # 8 groups of 120 pairs hold 960: with a bound of 2 x 50 a step takes 100 of them, and rows keep their places.
    seen = []
    monkeypatch.setattr("geoalign.method.distillation.AUTO_PAIRS", 50)
    monkeypatch.setattr(
        "geoalign.method.distillation._backward",
        lambda net, probe, states, pairs: seen.append((len(states), pairs)) or _backward(net, probe, states, pairs),
    )
    _, rows, states, pairs = prepared(groups=12, size=16)
    net, _ = projector()
    run(states, rows, pairs, net, groups_per_step="auto", steps=3, holdout=0.0)
    assert [count for count, _ in seen] == [128] * 3
    for _, batch in seen:
        assert len(batch) == 100
        assert (batch.group[1:] >= batch.group[:-1]).all()
        assert batch.winner.max() < 128


def test_without_a_target_nothing_stops():
    _, rows, states, pairs = prepared(groups=24, size=6, signal=0.0)
    assert run(states, rows, pairs, projector()[0]).steps == 40
