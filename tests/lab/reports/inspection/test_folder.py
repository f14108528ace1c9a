"""Reading a curated folder."""

import math

from geoalign.lab.store.inspection import read_inspection


def test_groups_are_numbered_over_steps_by_first_appearance_and_what_is_unknown_is_nan(tmp_path, write_inspection):
    def mixed(rows):
        for row, group in zip(rows, [7, 3, 7, 3, 5, 7] * 2, strict=True):
            row["group"] = group
        rows[3].update(reward=None, score=None, correct=None)

    found = read_inspection(write_inspection(tmp_path, groups=1, size=6, steps=2, pairs=False, change=mixed))
    assert found.scored["group"].tolist() == [0, 1, 0, 1, 2, 0, 3, 4, 3, 4, 5, 3]
    assert found.scored["group_id"].tolist() == [7, 3, 7, 3, 5, 7] * 2
    assert all(math.isnan(found.scored[name][3]) for name in ("reward", "score", "correct"))
    assert (found.pairs, found.densities, found.redacted) == (None, None, False)
    assert found.curator["alpha"] == 0.05
