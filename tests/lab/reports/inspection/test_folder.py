"""Reading a curated folder: what is missing or contradicts itself is named."""

import json
import math

import numpy as np
import pyarrow.parquet
import pytest

from geoalign.errors import RunFolderError
from geoalign.lab.store.inspection import read_inspection


def rewrite(path, change):
    """Alters a parquet file's table."""
    pyarrow.parquet.write_table(change(pyarrow.parquet.read_table(path)), path)


def test_the_columns_of_a_folder(tmp_path, write_inspection):
    def unknown(rows):
        rows[3].update(reward=None, score=None, correct=None)

    found = read_inspection(write_inspection(tmp_path, groups=3, size=4, steps=2, change=unknown))
    scored = found.scored
    assert len(scored) == 24
    # The same group ids in two steps are different groups.
    assert scored.group.tolist() == [number for number in range(6) for _ in range(4)]
    assert scored.group_id.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [0] * 4 + [1] * 4 + [2] * 4
    assert scored.first.tolist() == [0, 4, 8, 12, 16, 20]
    assert math.isnan(scored.reward[3])
    assert math.isnan(scored.score[3])
    assert math.isnan(scored.correct[3])
    assert np.flatnonzero(scored.anomalous).tolist() == [1, 13]
    assert scored.source[1] == 3
    assert not found.redacted
    assert found.curator["alpha"] == 0.05


def test_groups_are_numbered_by_first_appearance_wherever_their_rows_stand(tmp_path, write_inspection):
    def mixed(rows):
        for row, group in zip(rows, [7, 3, 7, 3, 5, 7], strict=True):
            row["group"] = group

    found = read_inspection(write_inspection(tmp_path, groups=1, size=6, pairs=False, change=mixed))
    assert found.scored.group.tolist() == [0, 1, 0, 1, 2, 0]
    assert found.pairs is None
    assert found.densities is None


def test_a_redacted_folder_has_no_texts(tmp_path, write_inspection):
    assert read_inspection(write_inspection(tmp_path, redact=True)).redacted


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "scores.parquet").unlink(), "scores.parquet: expected a parquet file, got none"),
        (lambda folder: (folder / "scores.parquet").write_bytes(b"PAR1"), "scores.parquet: expected a whole"),
        (lambda folder: rewrite(folder / "scores.parquet", lambda table: table.drop_columns("weight")),
         "columns: expected weight as well"),
        (lambda folder: (folder / "summary.json").unlink(), "summary.json: expected a readable file, got none"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(tmp_path, write_inspection, spoil, message):
    folder = write_inspection(tmp_path / "dump", groups=3, size=4)
    spoil(folder)
    with pytest.raises(RunFolderError) as caught:
        read_inspection(folder)
    assert message in str(caught.value)
    assert "dump" in str(caught.value)


def test_other_columns_do_not_disturb(tmp_path, write_inspection):
    folder = write_inspection(tmp_path, groups=1, size=4)
    rewrite(folder / "scores.parquet", lambda table: table.append_column("more", pyarrow.array(["x"] * 4)))
    (folder / "summary.json").write_text(json.dumps({}))
    assert len(read_inspection(folder).scored) == 4
