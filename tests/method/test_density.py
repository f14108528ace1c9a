import math

import numpy as np
import pytest
import torch
from scipy.stats import gaussian_kde

from geoalign.method import density
from geoalign.method.density import KernelDensity, cap_highest, floor_share, sparse_tail


def drawn(seed=0):
    return np.random.default_rng(seed)


def tail_of(scores, **options):
    return sparse_tail(torch.as_tensor(np.asarray(scores)), **{"alpha": 0.05, **options})


def naive_density(scores, at):
    # Gaussian kernel, Scott: bandwidth = n^(-1/5) * standard deviation (one degree of freedom less).
    width = len(scores) ** -0.2 * np.std(scores, ddof=1)
    found = []
    for x in at:
        kernels = np.exp(-(((x - scores) / width) ** 2) / 2)
        found.append(kernels.mean() / (width * math.sqrt(2 * math.pi)))
    return np.array(found)


@pytest.mark.parametrize("tail", ["pointwise", "first_crossing"])
def test_scores_whose_squares_leave_the_range_have_the_same_tail(tail):
    scores = np.concatenate([drawn().normal(1, 0.1, 200), [3.0, -2.0]])
    usual = tail_of(scores, tail=tail)
    huge = tail_of(scores * 2.0**700, tail=tail)
    assert huge.flagged.tolist() == usual.flagged.tolist()
    assert huge.threshold == pytest.approx(usual.threshold * 2.0**700)


def test_pointwise_against_the_formula():
    scores = np.concatenate([drawn().normal(1, 0.1, 200), [3.0, -2.0]])
    tail = tail_of(scores)
    values = naive_density(scores, scores)
    mode = scores[values.argmax()]
    expected = (scores > mode) & (values < 0.05 * values.max())
    assert tail.flagged.tolist() == expected.tolist()
    # The far low score is as sparse as the far high one, but lies left of the mode.
    assert tail.flagged[200]
    assert not tail.flagged[201]
    assert tail.mode == pytest.approx(mode)
    assert tail.peak == pytest.approx(values.max())
    assert tail.threshold == scores[expected].min()


# Scores with one mode and an upper tail, as GDI is in the paper.
TAIL_OF_TWELVE = drawn(4).uniform(12, 20, 12)
GOLDEN = {
    "gamma": drawn(1).gamma(2, 1, 1536),
    "lognormal": drawn(2).lognormal(0, 0.6, 700),
    "tailed": np.append(drawn(3).normal(5, 1, 1000), TAIL_OF_TWELVE),
    "float32": drawn(5).gamma(3, 2, 300).astype(np.float32).astype(np.float64),
    "few": np.append(np.linspace(0, 0.2, 39), 9.0),
    "tied": np.round(drawn(6).gamma(2, 1, 500), 1),
}


@pytest.mark.parametrize("alpha", [0.05, 0.12, 0.5])
@pytest.mark.parametrize("name", GOLDEN)
def test_flags_are_those_of_scipy(name, alpha):
    scores = GOLDEN[name]
    estimate = gaussian_kde(scores)
    at_scores = estimate(scores)
    mode = scores[at_scores == at_scores.max()].max()
    sparse = at_scores < alpha * at_scores.max()
    tail = tail_of(scores, alpha=alpha)
    assert tail.flagged.numpy().any()
    assert tail.mode == mode
    assert tail.peak == pytest.approx(at_scores.max(), rel=1e-12)
    # Beyond the last score that is not sparse: in a tail that falls all the way, every sparse score right of the mode.
    assert tail.flagged.tolist() == (scores > scores[~sparse].max()).tolist()
    if name in ("gamma", "float32", "few"):
        assert tail.flagged.tolist() == ((scores > mode) & sparse).tolist()
    grid = np.linspace(scores.min(), scores.max(), 200)
    on_grid = estimate(grid)
    crossing = tail_of(scores, alpha=alpha, tail="first_crossing")
    first = grid[(grid > mode) & (on_grid < alpha * at_scores.max())][0]
    assert crossing.threshold == pytest.approx(first, rel=1e-12)
    assert crossing.flagged.tolist() == (scores >= crossing.threshold).tolist()
    points, heights = tail.estimate.curve()
    np.testing.assert_allclose(points.numpy(), grid, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(heights.numpy(), on_grid, rtol=1e-9, atol=1e-14)


def test_a_score_in_a_valley_is_not_in_the_tail():
    low_mode = drawn().normal(0, 1, 200)
    high_mode = drawn(1).normal(20, 1, 60)
    scores = np.concatenate([low_mode, high_mode, [10.0]])
    tail = tail_of(scores)
    assert not tail.flagged.any()
    assert math.isnan(tail.threshold)
    # With one score more, far above both modes, that one is.
    beyond = tail_of([*scores, 60.0])
    assert beyond.flagged.nonzero()[:, 0].tolist() == [261]
    assert beyond.threshold == 60.0


@pytest.mark.parametrize("tail", ["pointwise", "first_crossing"])
@pytest.mark.parametrize("seed", range(4))
def test_all_from_the_threshold_on_is_flagged_and_nothing_else(tail, seed):
    draw = drawn(seed)
    modes = [draw.normal(10 * number, 0.5, draw.integers(3, 200)) for number in range(4)]
    scores = np.concatenate([*modes, draw.uniform(-10, 60, 5)])
    found = tail_of(scores, tail=tail, alpha=0.2)
    assert found.flagged.tolist() == (scores >= found.threshold).tolist()


def test_a_second_cluster_is_spared_pointwise_and_not_by_the_first_crossing():
    draw = drawn()
    scores = np.concatenate([draw.normal(0, 0.05, 300), draw.normal(3, 0.05, 40), [1.5]])
    assert not tail_of(scores).flagged.any()
    crossing = tail_of(scores, tail="first_crossing")
    assert crossing.flagged[300:].all()
    assert not crossing.flagged[:300].any()


def test_order_changes_no_bit():
    scores = GOLDEN["lognormal"]
    order = drawn().permutation(len(scores))
    straight = tail_of(scores)
    mixed = tail_of(scores[order])
    assert straight.flagged.numpy()[order].tolist() == mixed.flagged.tolist()
    assert (straight.mode, straight.peak, straight.threshold) == (mixed.mode, mixed.peak, mixed.threshold)


def test_of_two_equal_modes_the_right_one_is_taken():
    # Symmetric about 0: both modes have the same density, whatever the order of the sums.
    half = drawn(7).normal(3, 0.5, 200)
    assert tail_of(np.concatenate([half, -half])).mode > 0


@pytest.mark.parametrize("scores", [[], [1.0], [2.0] * 40, [2.0 + 1e-9 * i for i in range(40)]])
def test_no_density(scores):
    assert tail_of(np.array(scores, dtype=np.float64)) is None


@pytest.mark.parametrize("block", [1, 7, 1 << 20])
def test_blocks_of_any_size_cover_all_kernels(block, monkeypatch):
    scores = np.sort(GOLDEN["few"])
    monkeypatch.setattr(density, "_BLOCK", block)
    estimate = KernelDensity.from_ascending(torch.from_numpy(scores))
    np.testing.assert_allclose(estimate.at_scores().numpy(), naive_density(scores, scores), rtol=1e-12)
    elsewhere = estimate.at(torch.tensor([0.3], dtype=torch.float64))
    np.testing.assert_allclose(elsewhere.numpy(), naive_density(scores, [0.3]), rtol=1e-12)


def test_grid_and_exact_agree(monkeypatch):
    draw = drawn(1)
    scores = np.concatenate([draw.gamma(2, 1, 3000), draw.uniform(8, 40, 40)])
    exact = tail_of(scores)
    monkeypatch.setattr(density, "EXACT_SCORES", 100)
    grid = tail_of(scores)
    assert exact.flagged.sum() > 20
    assert torch.equal(exact.flagged, grid.flagged)
    assert grid.peak == pytest.approx(exact.peak, rel=1e-3)


def test_cap_keeps_the_highest():
    scores = torch.tensor([5.0, 1.0, 9.0, 7.0, 2.0])
    flagged = torch.tensor([True, False, True, True, False])
    # 0.4 of five scores: two.
    assert cap_highest(scores, flagged, 0.4).tolist() == [False, False, True, True, False]
    assert cap_highest(scores, flagged, 1.0).tolist() == flagged.tolist()
    assert cap_highest(scores, flagged, None).tolist() == flagged.tolist()
    assert cap_highest(scores, flagged, 0.1).tolist() == [False] * 5


@pytest.mark.parametrize(
    ("share", "count", "expected"), [(0.29, 100, 29), (0.07, 100, 7), (0.2, 24, 4), (1.0, 7, 7), (1e-9, 10, 0)]
)
def test_a_share_is_that_of_the_decimal_number(share, count, expected):
    # int(0.29 * 100) is 28: the product lies just below 29.
    assert floor_share(share, count) == expected
