"""The running ridge: against the formula, solved in rows, and what it must never have seen."""

import pytest
import torch

from geoalign.errors import InputError
from geoalign.method.groups import group_centred
from geoalign.noise.ridge import PENALTIES, conjugate_gradients, fold_predictions, predict_next


def batch(seed, rows=24, d=6, noise=0.3):
    """(states, targets, which rows are used, groups of four): the targets are x_0 - x_1 / 2 and noise."""
    draw = torch.Generator().manual_seed(seed)
    group = torch.arange(rows) // 4
    states = group_centred(torch.randn(rows, d, generator=draw), group)
    signal = states[:, 0] - 0.5 * states[:, 1]
    targets = signal + noise * torch.randn(rows, generator=draw)
    return states, targets, torch.ones(rows, dtype=torch.bool), group


def ridge_of_sums(gram, moment, penalty):
    """The ridge by the formula (A + penalty tr(A)/d I) w = b, with A = X^T X and b = X^T y."""
    d = len(gram)
    shift = penalty * gram.trace() / d
    return torch.linalg.solve(gram + shift * torch.eye(d, dtype=gram.dtype), moment)


def solved(states, targets, penalty):
    """The ridge by the formula, in float64."""
    states = states.double()
    targets = targets.double()
    return ridge_of_sums(states.T @ states, states.T @ targets, penalty).float()


def test_running_sums_are_those_of_all_batches_with_decay():
    settings = {"decay": 0.5, "penalties": (0.1,)}
    sums = {}
    gram = torch.zeros(6, 6)
    moment = torch.zeros(6)
    for seed in range(4):
        states, targets, used, group = batch(seed)
        _, sums = predict_next(sums, states, targets, used, group, **settings)
        gram = 0.5 * gram + states.T @ states
        moment = 0.5 * moment + states.T @ targets
    states, targets, used, group = batch(9)
    predicted, _ = predict_next(sums, states, targets, used, group, **settings)
    torch.testing.assert_close(predicted, states @ ridge_of_sums(gram, moment, penalty=0.1))


@pytest.mark.parametrize("start", [0.0, 1.0, 100.0])
def test_each_column_has_its_matrix_and_its_shift(start):
    """Wherever it starts; a column without moments that starts at zero stays there."""
    states, targets, _, _ = batch(0)
    half = states[:12].T @ states[:12]
    whole = states.T @ states
    moment = states.T @ targets
    moments = torch.stack([moment, moment, torch.zeros(6)], dim=1)
    shift = torch.tensor([0.5, 5.0, 1.0])
    diagonal = torch.stack([half.diagonal(), whole.diagonal(), whole.diagonal()], dim=1)

    def product(weights):
        """The first column's matrix is that of half of the rows, that of the others is of all rows."""
        return torch.cat([half @ weights[:, :1], whole @ weights[:, 1:]], dim=1)

    starts = torch.tensor([start, start, 0.0]).expand(6, 3)
    found = conjugate_gradients(product, diagonal, moments, shift, starts)
    first = torch.linalg.solve(half + 0.5 * torch.eye(6), moment)
    second = torch.linalg.solve(whole + 5 * torch.eye(6), moment)
    expected = torch.stack([first, second, torch.zeros(6)], dim=1)
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-3)


def test_hundreds_of_equal_columns_are_no_obstacle():
    """200 copies of each column in float32: the fit of one copy with a 200th of the penalty.

    tr(A)/d is the same for both; w of a copy is a 200th of the single column's.
    """
    states, targets, used, _ = batch(0)
    copies = states.repeat(1, 200)
    first_alone = (torch.arange(len(states)) == 0).long()
    found = fold_predictions(copies, targets, used & (first_alone == 0), first_alone, 10.0)[0]
    expected = states[0] @ solved(states[1:], targets[1:], 10.0 / 200)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-3)


def test_a_sum_that_rounding_made_indefinite_is_solved_where_it_is_positive():
    """Eigenvalues 4 along (1, 1) and -2 along (1, -1): what lies along the second is left at zero, not blown up."""
    gram = torch.tensor([[1.0, 3.0], [3.0, 1.0]])

    def solution(moment):
        shift = torch.tensor([0.1])
        start = torch.zeros(2, 1)
        return conjugate_gradients(gram.matmul, gram.diagonal()[:, None], torch.tensor(moment), shift, start)

    along_the_first = solution([[1.0], [1.0]])
    torch.testing.assert_close(along_the_first, torch.full((2, 1), 1 / 4.1))
    along_the_second = solution([[1.0], [-1.0]])
    assert not along_the_second.any()


def test_rows_left_out_and_constant_states_change_nothing():
    states, targets, used, group = batch(0)
    _, of_half = predict_next({}, states[:12], targets[:12], used[:12], group[:12])
    used[12:] = False
    targets[12:] = 0
    _, of_whole = predict_next({}, states, targets, used, group)
    after_half, _ = predict_next(of_half, *batch(1))
    after_whole, _ = predict_next(of_whole, *batch(1))
    torch.testing.assert_close(after_whole, after_half)
    _, targets, used, group = batch(0)
    _, of_constant = predict_next({}, torch.zeros_like(states), targets, used, group)
    after_constant, _ = predict_next(of_constant, *batch(1))
    assert after_constant.eq(0).all()


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
    one_fold = torch.zeros(4, dtype=torch.long)
    alone = fold_predictions(states[:4], targets[:4], used[:4], one_fold, 1.0)
    assert alone.eq(0).all()


def test_solved_in_rows_or_in_columns_the_fit_is_one():
    """Rows that stand in no fold are predicted by all that are fitted on."""
    states, targets, used, group = batch(0, d=9)
    used[::5] = False
    targets[::5] = 0
    expected = states @ solved(states[used], targets[used], 0.1)
    apart = fold_predictions(states, targets, used, torch.where(used, group, -1), 0.1)
    torch.testing.assert_close(apart[~used], expected[~used], atol=1e-4, rtol=1e-4)
    own = group == 2
    others = used & ~own
    expected = states @ solved(states[others], targets[others], 0.1)
    torch.testing.assert_close(apart[own & used], expected[own & used], atol=1e-4, rtol=1e-4)


def test_states_of_another_width_are_refused_by_name():
    _, sums = predict_next({}, *batch(0))
    with pytest.raises(InputError, match="hidden: expected 6 columns as earlier, got 5"):
        predict_next(sums, *batch(0, d=5))
