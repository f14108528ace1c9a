"""What a page carries: texts as they were, pairs by whole groups, the worst groups first where room is short."""

import base64
import json
import zlib

import pyarrow
import pyarrow.parquet
import pytest

from geoalign.audit.page import bundle as module
from geoalign.audit.page.bundle import bundle
from geoalign.audit.results import read_report


def opened(piece):
    return json.loads(zlib.decompress(base64.b64decode(piece)))


def texts_of(packed):
    found = []
    for piece in map(opened, packed.texts):
        assert len(set(piece["prompts"])) == len(piece["prompts"])
        prompts = [piece["prompts"][at] for at in piece["prompt"]]
        found += zip(prompts, piece["responses"], strict=True)
    return found


@pytest.mark.parametrize("size", [1, 700, 10**9])
def test_texts_come_back_as_they_were_whatever_the_size_of_a_piece(tmp_path, write_audit, monkeypatch, size):
    monkeypatch.setattr(module, "PIECE_CHARACTERS", size)
    folder = write_audit(tmp_path, groups=5)
    packed = bundle(read_report(folder))
    rows = pyarrow.parquet.read_table(folder / "scores.parquet").to_pylist()
    assert texts_of(packed) == [(row["prompt"], row["response"]) for row in rows]
    starts = opened(packed.columns)["text_starts"]
    assert starts[0] == 0
    assert len(starts) == len(packed.texts)
    sizes = [len(opened(piece)["responses"]) for piece in packed.texts]
    ends = [start + count for start, count in zip(starts, sizes, strict=True)]
    assert ends == [*starts[1:], len(rows)]
    assert {1: len(rows), 10**9: 1}.get(size, len(starts)) == len(starts)


@pytest.mark.parametrize("size", [1, 16, 10**9])
def test_pieces_of_pairs_hold_whole_groups(tmp_path, write_audit, monkeypatch, size):
    monkeypatch.setattr(module, "PIECE_PAIRS", size)
    packed = bundle(read_report(write_audit(tmp_path, groups=5, size=4)))
    pieces = [opened(piece) for piece in packed.pairs]
    # 4 rollouts with different rewards are 6 pairs.
    groups = [group for piece in pieces for group in piece["group"]]
    assert groups == [0] * 6 + [1] * 6 + [2] * 6 + [3] * 6 + [4] * 6
    assert opened(packed.columns)["pair_groups"] == [piece["group"][0] for piece in pieces]
    assert {1: 5, 16: 2}.get(size, 1) == len(pieces)


def test_where_room_is_short_the_most_suspicious_groups_are_kept_whole(tmp_path, write_audit):
    audit = read_report(write_audit(tmp_path, groups=7, size=4))
    packed = bundle(audit, rollouts=15)
    columns = opened(packed.columns)
    # Flagged are groups 0, 3 and 6; three groups of four fit into fifteen.
    assert columns["groups"] == [0, 3, 6]
    assert (packed.rollouts, packed.left_out) == (12, 16)
    assert columns["index"] == [0, 1, 2, 3, 12, 13, 14, 15, 24, 25, 26, 27]
    assert columns["source"] == [0, 3, 2, 3, 4, 7, 6, 7, 8, 11, 10, 11]
    prompts = [prompt for prompt, _ in texts_of(packed)]
    assert prompts[::4] == [
        "Problem 0: find $x_{0}$.",
        "Problem 3: find $x_{3}$.",
        "Problem 6: find $x_{6}$.",
    ]
    pairs = opened(packed.pairs[0])
    assert pairs["group"] == [0] * 6 + [1] * 6 + [2] * 6
    assert set(pairs["better"]) | set(pairs["worse"]) == set(range(12))
    one = bundle(audit, rollouts=4)
    assert opened(one.columns)["groups"] == [6]
    # One that is too long for the page makes room for the others.
    audit.rows.loc[audit.rows["group"] == 6, "characters"] = 10**9
    assert opened(bundle(audit, rollouts=15).columns)["groups"] == [0, 1, 3]


def test_a_page_is_as_large_as_it_may_be_whatever_its_texts(tmp_path, write_audit):
    audit = read_report(write_audit(tmp_path, groups=40, size=4))

    def size(packed):
        return len(packed.columns) + sum(map(len, [*packed.texts, *packed.pairs]))

    whole = size(bundle(audit))
    for room in (whole, whole - 1, whole // 2, 1):
        packed = bundle(audit, size=room)
        assert size(packed) <= room or not packed.rollouts
        assert packed.rollouts % 4 == 0
        assert (packed.rollouts > 0) == (room > 1)
        assert (packed.left_out == 0) == (room == whole)


def test_a_source_outside_the_page_is_told_from_one_left_out(tmp_path, write_audit):
    def elsewhere(rows):
        rows[1]["source"] = 10
        rows[2]["source"] = -1

    audit = read_report(write_audit(tmp_path, groups=4, size=4, change=elsewhere))
    assert opened(bundle(audit).columns)["source"][:4] == [0, 10, -1, 3]
    # Groups 3, the higher score, and 0 are kept.
    smaller = opened(bundle(audit, rollouts=8).columns)
    assert smaller["source"][:4] == [0, -2, -1, 3]


def test_an_empty_folder_and_a_redacted_one(tmp_path, write_audit):
    empty = bundle(read_report(write_audit(tmp_path / "empty", groups=0)))
    assert (empty.texts, empty.pairs, empty.rollouts) == ([], [], 0)
    redacted = bundle(read_report(write_audit(tmp_path / "redacted", redact=True)))
    assert redacted.texts == []
    assert set(opened(redacted.columns)["openings"]) == {""}
    assert redacted.pairs
