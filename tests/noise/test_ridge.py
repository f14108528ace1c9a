"""The running ridge: against the formula, solved in rows, and what it must never have seen."""

import pytest
import torch

from geoalign.errors import InputError
from geoalign.method.groups import group_centred
from geoalign.noise.ridge import PENALTIES, conjugate_gradients, fold_predictions, predict_next


def batch(seed, rows=24, d=6, noise=0.3):
    draw = torch.Generator().manual_seed(seed)
    group = torch.arange(rows) // 4
    states = group_centred(torch.randn(rows, d, generator=draw), group)
    targets = states[:, 0] - 0.5 * states[:, 1] + noise * torch.randn(rows, generator=draw)
    return states, targets, torch.ones(rows, dtype=torch.bool), group


def solved(states, targets, penalty):
    """The ridge by the formula, in float64."""
    states, targets = states.double(), targets.double()
    gram = states.T @ states
    shifted = gram + penalty * gram.trace() / len(gram) * torch.eye(len(gram)).double()
    return torch.linalg.solve(shifted, states.T @ targets).float()


def test_running_sums_are_those_of_all_batches_with_decay():
    sums, settings = {}, {"decay": 0.5, "penalties": (0.1,)}
    seen = [batch(seed) for seed in range(4)]
    for one in seen:
        _, sums = predict_next(sums, *one, **settings)
    gram = sum(0.5 ** (3 - age) * states.T @ states for age, (states, *_) in enumerate(seen))
    moment = sum(0.5 ** (3 - age) * states.T @ targets for age, (states, targets, *_) in enumerate(seen))
    shifted = gram + 0.1 * gram.trace() / len(gram) * torch.eye(len(gram))
    new = batch(9)
    torch.testing.assert_close(predict_next(sums, *new, **settings)[0], new[0] @ torch.linalg.solve(shifted, moment))


@pytest.mark.parametrize("start", [0.0, 1.0, 100.0])
def test_each_column_has_its_matrix_and_its_shift(start):
    """Wherever it starts; a column without moments that starts at zero stays there."""
    states, targets, _, _ = batch(0)
    first, both = states[:12].T @ states[:12], states.T @ states
    moments, shift = (states.T @ targets)[:, None].repeat(1, 3), torch.tensor([0.5, 5.0, 1.0])
    moments[:, 2] = 0
    diagonal = torch.stack([first.diagonal(), both.diagonal(), both.diagonal()], dim=1)

    def product(weights):
        return torch.cat([first @ weights[:, :1], both @ weights[:, 1:]], dim=1)

    found = conjugate_gradients(product, diagonal, moments, shift, torch.tensor([start, start, 0.0]).expand(6, 3))
    expected = [torch.linalg.solve(first + 0.5 * torch.eye(6), moments[:, 0])]
    expected += [torch.linalg.solve(both + 5 * torch.eye(6), moments[:, 1]), torch.zeros(6)]
    torch.testing.assert_close(found, torch.stack(expected, dim=1), atol=2e-4, rtol=1e-3)


def test_hundreds_of_equal_columns_are_no_obstacle():
    """200 copies of each column in float32: the fit of one copy with a 200th of the penalty.

    tr(A)/d is the same for both; w of a copy is a 200th of the single column's.
    """
    states, targets, used, _ = batch(0)
    wide, fold = states.repeat(1, 200), (torch.arange(len(states)) == 0).long()
    found = fold_predictions(wide, targets, used & (fold == 0), fold, 10.0)[0]
    torch.testing.assert_close(found, (states @ solved(states[1:], targets[1:], 10.0 / 200))[0], atol=1e-3, rtol=1e-3)


def test_a_sum_that_rounding_made_indefinite_is_solved_where_it_is_positive():
    """Eigenvalues 4 along (1, 1) and -2 along (1, -1): what lies along the second is left at zero, not blown up."""
    gram, shift, zero = torch.tensor([[1.0, 3.0], [3.0, 1.0]]), torch.tensor([0.1]), torch.zeros(2, 1)
    diagonal = gram.diagonal()[:, None]
    both = conjugate_gradients(gram.matmul, diagonal, torch.tensor([[1.0], [1.0]]), shift, zero)
    torch.testing.assert_close(both, torch.full((2, 1), 1 / 4.1))
    assert not conjugate_gradients(gram.matmul, diagonal, torch.tensor([[1.0], [-1.0]]), shift, zero).any()


def test_rows_left_out_and_constant_states_change_nothing():
    states, targets, used, group = batch(0)
    _, half = predict_next({}, states[:12], targets[:12], used[:12], group[:12])
    used[12:], targets[12:] = False, 0
    _, whole = predict_next({}, states, targets, used, group)
    torch.testing.assert_close(predict_next(whole, *batch(1))[0], predict_next(half, *batch(1))[0])
    _, constant = predict_next({}, torch.zeros_like(states), *batch(0)[1:])
    assert predict_next(constant, *batch(1))[0].eq(0).all()


def test_the_penalty_follows_what_predicted_new_batches():
    """Much noise in many columns: little shrinkage predicts badly. Hardly any noise: it predicts best."""
    chosen = []
    for noise, d in ((0.001, 4), (1.0, 60)):
        sums = {}
        for seed in range(24):
            _, sums = predict_next(sums, *batch(seed, d=d, noise=noise))
        chosen.append(PENALTIES[sums["chosen"]])
    assert chosen[0] == PENALTIES[0] < chosen[1]


def test_no_fold_is_predicted_from_itself():
    states, targets, used, group = batch(0)
    before = fold_predictions(states, targets, used, group, 1.0)
    own = group == 2
    after = fold_predictions(states, torch.where(own, -7.0, targets), used, group, 1.0)
    torch.testing.assert_close(before[own], after[own])
    assert not torch.allclose(before[~own], after[~own])
    alone = torch.zeros(4, dtype=torch.long)
    assert fold_predictions(states[:4], targets[:4], used[:4], alone, 1.0).eq(0).all()


def test_solved_in_rows_or_in_columns_the_fit_is_one():
    """Rows that stand in no fold are predicted by all that are fitted on."""
    states, targets, used, group = batch(0, d=9)
    used[::5] = False
    targets[::5] = 0
    expected = states @ solved(states[used], targets[used], 0.1)
    apart = fold_predictions(states, targets, used, torch.where(used, group, -1), 0.1)
    torch.testing.assert_close(apart[~used], expected[~used], atol=1e-4, rtol=1e-4)
    own, others = group == 2, used & (group != 2)
    expected = states @ solved(states[others], targets[others], 0.1)
    torch.testing.assert_close(apart[own & used], expected[own & used], atol=1e-4, rtol=1e-4)


def test_states_of_another_width_are_refused_by_name():
    _, sums = predict_next({}, *batch(0))
    with pytest.raises(InputError, match="hidden: expected 6 columns as earlier, got 5"):
        predict_next(sums, *batch(0, d=5))
