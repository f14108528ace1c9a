import math

import numpy as np
import pytest

from geoalign.method import density
from geoalign.method.density import cap_highest, floor_share, sparse_tail


def naive_density(scores, at):
    # Gaussian kernel, Scott: bandwidth = n^(-1/5) * standard deviation (one degree of freedom less).
    width = len(scores) ** -0.2 * np.std(scores, ddof=1)
    return np.array([np.exp(-(((x - scores) / width) ** 2) / 2).mean() / (width * math.sqrt(2 * math.pi)) for x in at])


def test_pointwise_against_the_formula():
    scores = np.concatenate([np.random.default_rng(0).normal(1, 0.1, 200), [3.0, -2.0]])
    tail = sparse_tail(scores, alpha=0.05)
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


def test_pointwise_spares_a_second_cluster_and_first_crossing_does_not():
    draw = np.random.default_rng(0)
    scores = np.concatenate([draw.normal(0, 0.05, 300), draw.normal(3, 0.05, 40), [1.5]])
    pointwise = sparse_tail(scores, alpha=0.05)
    crossing = sparse_tail(scores, alpha=0.05, tail="first_crossing")
    assert pointwise.flagged[340]
    assert not pointwise.flagged[300:340].any()
    assert crossing.flagged[300:].all()
    assert not crossing.flagged[:300].any()


@pytest.mark.parametrize("scores", [[], [1.0], [2.0] * 40, [2.0 + 1e-9 * i for i in range(40)]])
def test_no_density(scores):
    assert sparse_tail(np.array(scores), alpha=0.05) is None


def test_grid_and_exact_agree(monkeypatch):
    draw = np.random.default_rng(1)
    scores = np.concatenate([draw.gamma(2, 1, 3000), draw.uniform(8, 40, 40)])
    exact = sparse_tail(scores, alpha=0.05)
    monkeypatch.setattr(density, "EXACT_SCORES", 100)
    grid = sparse_tail(scores, alpha=0.05)
    assert exact.flagged.sum() > 20
    assert np.array_equal(exact.flagged, grid.flagged)


def test_cap_keeps_the_highest():
    scores = np.array([5.0, 1.0, 9.0, 7.0, 2.0])
    flagged = np.array([True, False, True, True, False])
    # 0.4 of five scores: two.
    assert cap_highest(scores, flagged, 0.4).tolist() == [False, False, True, True, False]
    assert cap_highest(scores, flagged, None).tolist() == flagged.tolist()
    assert cap_highest(scores, flagged, 0.1).tolist() == [False] * 5


@pytest.mark.parametrize(
    ("share", "count", "expected"), [(0.29, 100, 29), (0.07, 100, 7), (0.2, 24, 4), (1.0, 7, 7), (1e-9, 10, 0)]
)
def test_a_share_is_that_of_the_decimal_number(share, count, expected):
    # int(0.29 * 100) is 28: the product lies just below 29.
    assert floor_share(share, count) == expected
