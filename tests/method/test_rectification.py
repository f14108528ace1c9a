"""Eq. 8 and the strategies of the ablation."""

from collections import Counter

import pytest
import torch

from geoalign.method.rectification import amplify, replace, rows_with_partner


def bools(*rows, size):
    """True at these rows alone."""
    mask = torch.zeros(size, dtype=torch.bool)
    mask[list(rows)] = True
    return mask


@pytest.mark.parametrize(
    ("donors", "expected"),
    [
        ((3.0, 2.0, 1.0), (400, 200, 200)),
        ((3.0, 3.0, 1.0), (300, 300, 200)),
    ],
)
def test_replace_frequencies(donors, expected):
    # One anomalous row, three donors: shares 1/2, 1/4, 1/4; of two best each counts as the best half of the time.
    rewards = torch.tensor([9.0, *donors])
    group = torch.zeros(4, dtype=torch.long)
    anomalous = bools(0, size=4)
    stable = bools(1, 2, 3, size=4)
    generator = torch.Generator().manual_seed(1)
    seen = Counter()
    for _ in range(800):
        source, without = replace(rewards, group, anomalous, stable, generator)
        assert without == 0
        assert source[1:].tolist() == [1, 2, 3]
        seen[int(source[0])] += 1
    # Standard deviation at most sqrt(800) / 2 = 14; five of them.
    assert all(abs(seen[row] - count) < 71 for row, count in enumerate(expected, 1))


def test_replace_stays_in_the_group_and_counts_groups_without_donor():
    group = torch.tensor([0, 0, 1, 1, 2, 2])
    anomalous = bools(0, 2, 3, size=6)
    stable = bools(1, 4, 5, size=6)
    source, without = replace(torch.arange(6.0), group, anomalous, stable, torch.Generator().manual_seed(0))
    assert source.tolist() == [1, 1, 2, 3, 4, 5]
    assert without == 1


def test_amplify_overwrites_each_stable_row_once():
    group = torch.tensor([0, 0, 0, 1, 1, 1])
    anomalous = bools(0, 3, 4, size=6)
    stable = bools(1, 2, 5, size=6)
    source, without = amplify(group, anomalous, stable, torch.Generator().manual_seed(0))
    assert source[0] == 0
    assert sorted(source[1:3].tolist()) in ([0, 1], [0, 2])
    # Group 1 has two anomalous rows and one stable: the first overwrites it, the second finds none.
    assert source[3:].tolist() == [3, 4, 3]
    assert without == 1


def test_rows_with_partner():
    group = torch.tensor([0, 0, 1, 1])
    hit, without = rows_with_partner(group, bools(0, 2, 3, size=4), bools(1, size=4))
    assert hit.tolist() == [True, False, False, False]
    assert without == 1
