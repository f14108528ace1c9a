import pytest

from geoalign.method.shares import share_of


@pytest.mark.parametrize(
    ("share", "count", "expected"), [(0.29, 100, 29), (0.07, 100, 7), (0.2, 24, 4), (1.0, 7, 7), (1e-9, 10, 0)]
)
def test_the_share_is_that_of_the_decimal_number(share, count, expected):
    # int(0.29 * 100) is 28: the product lies just below 29.
    assert share_of(share, count) == expected


def test_every_hundredth_of_every_thousand_is_whole():
    assert all(share_of(percent / 100, 1000) == 10 * percent for percent in range(101))
