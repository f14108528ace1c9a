"""The consensus gate: pooled accuracy on new groups against chance."""

import numpy as np
import pytest

from geoalign.lab.analysis.statistics import clustered_proportion
from geoalign.method.consensus_gate import ConsensusGate


def test_closed_before_anything_was_judged():
    gate = ConsensusGate(0.95, 3)
    assert not gate.open
    gate.add(np.zeros(0), np.zeros(0))
    assert not gate.open
    assert np.isnan(gate.accuracy.estimate)


def test_pools_the_groups_of_the_last_calls():
    gate = ConsensusGate(0.9, 2)
    gate.add(np.array([9.0]), np.array([10.0]))  # falls out of the window
    gate.add(np.array([3.0, 4.0]), np.array([4.0, 4.0]))
    gate.add(np.array([5.0]), np.array([6.0]))
    # (3 + 4 + 5) / (4 + 4 + 6) = 12 / 14.
    assert gate.accuracy.estimate == pytest.approx(12 / 14)
    assert gate.accuracy == clustered_proportion(np.array([3.0, 4, 5]), np.array([4.0, 4, 6]), level=0.9)


def test_opens_only_where_the_lower_bound_is_above_chance():
    # Two groups at 60% and 80%: mean .7, residual sd of one group .1 * sqrt(2), standard error .1; Student's t on one
    # degree of freedom reaches 12.7 standard errors at 95%, but .7 at 40% (t = .727), so the bounds are -.57 and .63.
    right, total = np.array([6.0, 8.0]), np.array([10.0, 10.0])
    wide, narrow = ConsensusGate(0.95, 1), ConsensusGate(0.4, 1)
    wide.add(right, total)
    narrow.add(right, total)
    assert not wide.open
    assert narrow.open
    narrow.add(np.array([5.0, 5.0]), np.array([10.0, 10.0]))  # exactly chance, no spread
    assert not narrow.open


def test_one_group_is_no_evidence():
    gate = ConsensusGate(0.95, 5)
    gate.add(np.array([10.0]), np.array([10.0]))
    assert not gate.open


def test_state_round_trip():
    gate, other = ConsensusGate(0.95, 2), ConsensusGate(0.95, 2)
    for right in (2.0, 3.0, 4.0):
        gate.add(np.array([right, 1.0]), np.array([5.0, 5.0]))
    other.load(gate.state())
    assert other.accuracy == gate.accuracy
    other.add(np.array([5.0]), np.array([5.0]))
    gate.add(np.array([5.0]), np.array([5.0]))
    assert other.accuracy == gate.accuracy
