import math

import pytest
from dumps import changed, trinity, write_lines
from written import read

from geoalign.dumps.layout import find_layout
from geoalign.errors import InputError


def test_ids_lengths_and_what_was_cut_off(tmp_path):
    rows = [
        {**row, "truncate_status": "response_truncated" if number == 1 else None}
        for number, row in enumerate(trinity())
    ]
    path = write_lines(tmp_path / "a.jsonl", rows)
    _, step = find_layout(path)
    _, found = read(path)
    assert step == 3
    assert found[6].tokens == 9
    assert [row.truncated for row in found[:2]] == [None, True]
    assert found[6].id == "3/1/2/0/001002"


def test_an_experience_without_a_reward_was_not_scored(tmp_path):
    _, found = read(write_lines(tmp_path / "a.jsonl", changed(trinity(), 5, reward=...)))
    assert math.isnan(found[5].reward)


def test_a_later_step_of_a_run_is_refused(tmp_path):
    rows = changed(trinity(), 5, eid={**trinity()[5]["eid"], "step": 1})
    with pytest.raises(InputError, match=r"line 6: eid\.step: expected 0: one experience for each run of a"):
        read(write_lines(tmp_path / "a.jsonl", rows))
