import math

import pytest

from geoalign.audit.page.figures import steps_of
from geoalign.audit.page.page import facts, marked, title
from geoalign.audit.results import read_report
from geoalign.audit.words.other_findings import new_prompts


def test_what_the_files_own_marks_say_of_rewards_and_flags(tmp_path, write_audit):
    """Rewards are 0, 1, 0, 1; the file marks rows 1 and 2 of each four as correct; row 2 is flagged once."""

    def change(rows):
        for index, row in enumerate(rows):
            row.update(reward=float(index % 2), correct=index % 4 in (1, 2), anomalous=index == 2)

    said = marked(read_report(write_audit(tmp_path, groups=2, size=4, change=change)))
    assert said.startswith("4 rewards are wrong")
    assert said.rpartition("; ")[2].startswith("1 ")


def test_marks_that_agree_with_the_rewards_are_not_spoken_of(tmp_path, write_audit):
    def change(rows):
        for row in rows:
            row.update(anomalous=False, source=row["index"], new_reward=row["reward"])

    audit = read_report(write_audit(tmp_path, groups=2, size=4, change=change))
    assert marked(audit) == ""


@pytest.mark.parametrize(
    ("numbers", "level", "words"),
    [
        ((0.62, 0.55, 0.69), "yes", "62.0% of pairs (chance 50%; 95% interval 55.0% to 69.0%)"),
        ((0.52, 0.45, 0.59), "no", "52.0%"),
        ((0.3, 0.2, 0.4), "against", "30.0%"),
        ((0.62, None, None), "unknown", "62.0% of pairs (chance 50%)"),
        ((None, None, None), "unmeasured", "One <group> only."),
    ],
)
def test_whether_flags_hold_on_new_prompts(numbers, level, words):
    keys = ("new_group_accuracy", "new_group_accuracy_low", "new_group_accuracy_high")
    consensus = dict(zip(keys, numbers, strict=True)) | {"groups": 40, "reason": "One <group> only."}
    found = new_prompts({"consensus": consensus})
    assert found.level == level
    assert words in found.text


def test_facts(tmp_path, write_audit):
    audit = read_report(write_audit(tmp_path, steps=2))
    assert title(audit) == "Audit of dump.jsonl"
    found = dict(facts(audit))
    assert (found["rollouts"], found["groups"], found["steps"]) == ("144", "24", "2")
    assert found["judged by"] == "geoalign"


def test_the_folder_as_a_run(tmp_path, write_audit):
    def truth(rows):
        rows[1]["true_reward"] = 1.0
        rows[2]["true_reward"] = rows[2]["reward"]

    folder = write_audit(tmp_path, groups=2, size=4, steps=2, change=truth)
    first, second = steps_of(read_report(folder))
    assert (first.step, second.step) == (1, 2)
    assert first.flipped.tolist() == [False, True] + [False] * 6
    assert first.flip_known.tolist() == [False, True, True] + [False] * 5
    assert second.replaced.sum() == 1


def test_what_is_unknown_in_the_rows_is_nan_and_flagged_ones_have_a_reason_and_a_rank(tmp_path, write_audit):
    """Rows 1 and 7 are flagged, of which the second has the higher score."""

    def change(rows):
        rows[3].update(reward=None, score=None, correct=None)
        rows[7].update(anomalous=True, score=9.0)

    found = read_report(write_audit(tmp_path, groups=2, size=6, pairs=False, change=change))
    assert all(math.isnan(found.rows[name][3]) for name in ("reward", "score", "correct"))
    assert found.flagged.index.tolist() == [7, 1]
    assert found.rows["suspicion"].dropna().to_dict() == {1: 1.0, 7: 0.0}
    assert found.rows.index[found.rows["why"].notna()].tolist() == [1, 7]
    assert (found.pairs, found.densities, found.has_texts) == (None, None, True)
    assert found.curator["alpha"] == 0.05
