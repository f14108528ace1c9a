"""Rewards that differ by rounding alone are one verdict, in any file of an audit."""

import pytest
from dumps import table, verdicts, write_lines

from geoalign.audit.rounding import rounded_verdicts

# Sums of reward functions that are 1 and 0.3 but for rounding.
ONE = 0.7 + 0.2 + 0.1
THREE_TENTHS = 0.1 + 0.2


@pytest.mark.parametrize(("rewards", "stand_in"), [
    ([0.0, 1.0, ONE], {ONE: 1.0}),
    ([-0.3, 0.3, THREE_TENTHS], {THREE_TENTHS: 0.3}),
    ([1.0, ONE], {ONE: 1.0}),
    # Terms that cancel leave nearly nothing.
    ([0.0, 1.0, THREE_TENTHS - 0.3], {THREE_TENTHS - 0.3: 0.0}),
    ([0.0, 1.0, float("nan")], {}),
    ([], {}),
])  # fmt: skip
def test_the_shortest_of_rewards_that_differ_by_rounding_stands_for_all(rewards, stand_in):
    assert rounded_verdicts(rewards * 10) == stand_in


def test_scores_keep_every_bit():
    assert rounded_verdicts([0.0, 0.5, 1.0, ONE]) == {}


def test_one_huge_reward_makes_no_verdicts_of_others():
    assert rounded_verdicts([-1e7, *[0.0, 1.0, 2.0] * 40]) == {}


@pytest.mark.parametrize("files", [1, 2])
def test_rounding_makes_no_scores_of_verdicts(tmp_path, run, files):
    """In the second half, as a later step of the same training, each accepted response has the sum for its reward."""
    exact = verdicts()
    rounded = [{**row, "reward": ONE if row["reward"] else 0.0} for row in exact[32:]]
    mixed = [*exact[:32], *rounded]
    expected = run(write_lines(tmp_path / "exact.jsonl", exact), curator="denoise", output=tmp_path / "exact")
    parts = [mixed] if files == 1 else [mixed[:32], mixed[32:]]
    paths = [write_lines(tmp_path / f"{place}.jsonl", part) for place, part in enumerate(parts)]
    found = run(*paths, curator="denoise")
    assert found["verifier"] == expected["verifier"]
    assert {row["reward"] for row in table(tmp_path / "out")} == {0.0, 1.0}
