"""The words above the browser: counts, the verdict and where the rollouts come from."""

import pytest

from geoalign.lab.reports.inspection.overview import counts, facts, repeated, skipped, steps_of, verdict
from geoalign.lab.store.curation import read_inspection


def named(items):
    return {item.name: item for item in items}


def test_counts_by_hand(tmp_path, write_inspection):
    def change(rows):
        rows[0].update(reward=None, score=None, correct=None)
        rows[2]["source"] = -1
        for row in rows[4:]:
            row.update(group_pairs=0)

    found = named(counts(read_inspection(write_inspection(tmp_path, groups=2, size=4, change=change)).scored))
    assert found["groups"].value == 2
    assert found["groups"].note.startswith("1 of them")
    assert found["rollouts"].value == 8
    assert found["pairs"].value == 6
    assert (found["flagged"].value, found["flagged"].share) == (1, 1 / 8)
    assert (found["replaced"].value, found["left out"].value, found["unscored rewards"].value) == (1, 1, 1)
    # One of the seven whose correctness is known.
    assert found["correct but flagged"].share == pytest.approx(1 / 7)


def test_counts_that_say_nothing_are_left_out(tmp_path, write_inspection):
    def quiet(rows):
        for row in rows:
            row.update(anomalous=False, source=row["index"], new_reward=row["reward"])

    found = named(counts(read_inspection(write_inspection(tmp_path, change=quiet)).scored))
    assert list(found) == ["groups", "rollouts", "pairs", "flagged"]
    assert found["flagged"].value == 0


@pytest.mark.parametrize(
    ("consensus", "level", "words"),
    [
        ({"new_group_accuracy": 0.62, "new_group_accuracy_low": 0.55, "new_group_accuracy_high": 0.69, "groups": 40},
         "yes", "62.0% of pairs (95% interval over 40 groups: 55.0% to 69.0%; chance 50%)"),
        ({"new_group_accuracy": 0.52, "new_group_accuracy_low": 0.45, "new_group_accuracy_high": 0.59},
         "no", "no better than chance"),
        ({"new_group_accuracy": 0.3, "new_group_accuracy_low": 0.2, "new_group_accuracy_high": 0.4},
         "against", "30.0%"),
        ({"new_group_accuracy": 0.62, "new_group_accuracy_low": None, "new_group_accuracy_high": None},
         "unknown", "(95% interval: –; chance 50%)"),
        ({"new_group_accuracy": None, "reason": "One <group> only."}, "unknown", "One <group> only."),
        ({}, "unknown", ""),
    ],
)  # fmt: skip
def test_the_verdict(tmp_path, write_inspection, consensus, level, words):
    found = verdict(read_inspection(write_inspection(tmp_path, consensus=consensus)))
    assert found.level == level
    assert words in found.text


def test_facts_and_what_was_skipped(tmp_path, write_inspection):
    lines = [{"file": "a.jsonl", "line": 3, "field": "reward", "reason": "expected a number\u202e"}] * 300
    lines[1] = {"file": "a.jsonl", "line": 4, "field": None, "reason": "expected a JSON object"}
    again = [{"file": "b.jsonl\u202e", "same_as": "a.jsonl"}]
    inspection = read_inspection(write_inspection(tmp_path, steps=2, skipped=lines, repeated=again))
    found = dict(facts(inspection))
    assert found["from"] == "dump.jsonl"
    assert found["curator"] == "geoalign"
    assert found["steps"] == "2"
    said, total = skipped(inspection)
    assert (len(said), total) == (200, 300)
    assert said[:2] == [
        "a.jsonl, line 3: reward: expected a number⟨U+202E⟩",
        "a.jsonl, line 4: expected a JSON object",
    ]
    assert repeated(inspection) == ["b.jsonl⟨U+202E⟩: the rollouts of a.jsonl again"]


def test_the_folder_as_a_run(tmp_path, write_inspection):
    def truth(rows):
        rows[1]["true_reward"] = 1.0
        rows[2]["true_reward"] = rows[2]["reward"]

    folder = write_inspection(tmp_path, groups=2, size=4, steps=2, change=truth)
    first, second = steps_of(read_inspection(folder))
    assert (first.step, second.step) == (1, 2)
    assert first.flipped.tolist() == [False, True] + [False] * 6
    assert first.flip_known.tolist() == [False, True, True] + [False] * 5
    assert second.replaced.sum() == 1
