"""Reading a curated folder."""

import math

import numpy as np

from geoalign.lab.store.curation import read_inspection


def test_the_columns_of_a_folder(tmp_path, write_inspection):
    def unknown(rows):
        rows[3].update(reward=None, score=None, correct=None)

    found = read_inspection(write_inspection(tmp_path, groups=3, size=4, steps=2, change=unknown))
    scored = found.scored
    assert len(scored) == 24
    # The same group ids in two steps are different groups.
    assert scored["group"].tolist() == [number for number in range(6) for _ in range(4)]
    assert scored["group_id"].tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [0] * 4 + [1] * 4 + [2] * 4
    assert math.isnan(scored["reward"][3])
    assert math.isnan(scored["score"][3])
    assert math.isnan(scored["correct"][3])
    assert np.flatnonzero(scored["anomalous"]).tolist() == [1, 13]
    assert scored["source"][1] == 3
    assert not found.redacted
    assert found.curator["alpha"] == 0.05


def test_groups_are_numbered_by_first_appearance_wherever_their_rows_stand(tmp_path, write_inspection):
    def mixed(rows):
        for row, group in zip(rows, [7, 3, 7, 3, 5, 7], strict=True):
            row["group"] = group

    found = read_inspection(write_inspection(tmp_path, groups=1, size=6, pairs=False, change=mixed))
    assert found.scored["group"].tolist() == [0, 1, 0, 1, 2, 0]
    assert found.pairs is None
    assert found.densities is None
