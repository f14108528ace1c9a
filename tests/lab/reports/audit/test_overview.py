import math

import pytest

from geoalign.lab.analysis.audited import audited_consensus
from geoalign.lab.reports.audit.page import counts, facts, steps_of
from geoalign.lab.store.audit import read_audit


def named(items):
    return {item.name: item for item in items}


def test_counts_by_hand(tmp_path, write_audit):
    def change(rows):
        rows[0].update(reward=None, score=None, correct=None)
        rows[2]["source"] = -1
        for row in rows[4:]:
            row.update(group_pairs=0)

    found = named(counts(read_audit(write_audit(tmp_path, groups=2, size=4, change=change)).scored))
    assert found["groups"].value == 2
    assert found["groups"].note.startswith("1 of them")
    assert found["rollouts"].value == 8
    assert found["pairs"].value == 6
    assert (found["flagged"].value, found["flagged"].share) == (1, 1 / 8)
    assert (found["replaced"].value, found["left out"].value, found["unscored rewards"].value) == (1, 1, 1)
    # One of the seven whose correctness is known.
    assert found["correct but flagged"].share == pytest.approx(1 / 7)


def test_estimated_rewards_are_no_alarm(tmp_path, write_audit):
    """`denoise` moves nearly every reward a little: a share of 77% flagged nothing and frightened readers."""

    def change(rows):
        for row in rows:
            row.update(anomalous=False, source=row["index"], new_reward=row["reward"] + 0.01)

    found = counts(read_audit(write_audit(tmp_path, groups=2, size=4, change=change)).scored)
    assert [item.name for item in found if item.value][-1] == "estimated rewards"
    assert math.isnan(found[-1].share)
    assert named(found)["flagged"].value == 0


@pytest.mark.parametrize(
    ("numbers", "level", "words"),
    [
        ((0.62, 0.55, 0.69), "yes", "62.0% of pairs (95% interval over 40 groups: 55.0% to 69.0%; chance 50%)"),
        ((0.52, 0.45, 0.59), "no", "no better than chance"),
        ((0.3, 0.2, 0.4), "against", "30.0%"),
        ((0.62, None, None), "unknown", "(95% interval over 40 groups: –; chance 50%)"),
        ((None, None, None), "unknown", "One <group> only."),
    ],
)
def test_the_verdict_of_page_and_terminal(numbers, level, words):
    keys = ("new_group_accuracy", "new_group_accuracy_low", "new_group_accuracy_high")
    consensus = dict(zip(keys, numbers, strict=True)) | {"groups": 40, "reason": "One <group> only."}
    found = audited_consensus({"consensus": consensus})
    assert found.level == level
    assert words in found.text


def test_facts(tmp_path, write_audit):
    found = dict(facts(read_audit(write_audit(tmp_path, steps=2))))
    assert found["from"] == "dump.jsonl"
    assert found["curator"] == "geoalign"
    assert found["steps"] == "2"


def test_the_folder_as_a_run(tmp_path, write_audit):
    def truth(rows):
        rows[1]["true_reward"] = 1.0
        rows[2]["true_reward"] = rows[2]["reward"]

    folder = write_audit(tmp_path, groups=2, size=4, steps=2, change=truth)
    first, second = steps_of(read_audit(folder))
    assert (first.step, second.step) == (1, 2)
    assert first.flipped.tolist() == [False, True] + [False] * 6
    assert first.flip_known.tolist() == [False, True, True] + [False] * 5
    assert second.replaced.sum() == 1


def test_groups_are_numbered_over_steps_by_first_appearance_and_what_is_unknown_is_nan(tmp_path, write_audit):
    def mixed(rows):
        for row, group in zip(rows, [7, 3, 7, 3, 5, 7] * 2, strict=True):
            row["group"] = group
        rows[3].update(reward=None, score=None, correct=None)

    found = read_audit(write_audit(tmp_path, groups=1, size=6, steps=2, pairs=False, change=mixed))
    assert found.scored["group"].tolist() == [0, 1, 0, 1, 2, 0, 3, 4, 3, 4, 5, 3]
    assert found.scored["group_id"].tolist() == [7, 3, 7, 3, 5, 7] * 2
    assert all(math.isnan(found.scored[name][3]) for name in ("reward", "score", "correct"))
    assert (found.pairs, found.densities, found.redacted) == (None, None, False)
    assert found.curator["alpha"] == 0.05
