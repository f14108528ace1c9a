"""Answers whose verdict goes with their spelling, in files as verl writes them: what is shown, flagged and said."""

import json

import pandas
import pytest
from dumps import table, write_lines

from geoalign.audit.results import read_report
from geoalign.audit.spellings import counted_verdicts, goes_with_spelling

SYSTEM = "system\nPlease reason step by step, and put your final answer within \\boxed{}.\nuser\n"
FRACTION = r"\frac{35}{2}"


def dumped(*prompts, gold=True):
    """Rows as verl writes them of prompts, each its gold answer and a list of (answer as it is spelt, reward)."""
    rows = []
    for number, (gold_answer, answers) in enumerate(prompts):
        for place, (answer, reward) in enumerate(answers):
            row = {
                "input": f"{SYSTEM}{number} apples?\nassistant\n",
                "output": f"by way {place} \\boxed{{{answer}}}",
                "score": float(reward),
                "step": 1,
            }
            rows.append({**row, "gts": gold_answer} if gold else row)
    return rows


def usual_prompt(right, wrong):
    """A prompt whose answers are all judged as they should be, but for one refusal of the right one."""
    return right, [(right, 1)] * 4 + [(right, 0)] + [(wrong, 0)] * 3


OTHERS = [usual_prompt("5", "6"), usual_prompt("6", "7"), usual_prompt("7", "8"), usual_prompt("8", "9")]
# The gold answer is refused six times as a decimal.
STRICT = (FRACTION, [("17.5", 0)] * 6 + [(FRACTION, 1), ("17", 0)])


@pytest.fixture
def audited(tmp_path, run):
    def found(*prompts, gold=True, **request):
        path = write_lines(tmp_path / "d.jsonl", dumped(*prompts, gold=gold))
        summary = run(path, curator="denoise", **request)
        return summary, table(tmp_path / "out")

    return found


def flagged(rows, count):
    """Which of the first rows are flagged."""
    return [row["index"] for row in rows[:count] if row["anomalous"]]


def test_the_answer_of_a_response_is_shown_as_it_is_spelt(audited, tmp_path):
    _, rows = audited(STRICT, *OTHERS)
    assert [row["final_answer"] for row in rows[:8]] == ["17.5"] * 6 + [FRACTION, "17"]
    assert len({row["compared_answer"] for row in rows[:7]}) == 1
    cells = pandas.read_csv(tmp_path / "out" / "flagged.csv", dtype=str)
    assert set(cells["final_answer"]) == {"17.5", "5", "6", "7", "8"}


def test_refusals_of_the_gold_answer_are_flagged_and_its_reward_is_not(audited, tmp_path):
    summary, rows = audited(STRICT, *OTHERS)
    assert flagged(rows, 8) == [0, 1, 2, 3, 4, 5]
    assert {row["by_spelling"] for row in rows[:7]} == {"gold"}
    assert rows[7]["by_spelling"] is None
    [found] = summary["spellings"]["listed"]
    assert (found["group"], found["is_gold"]) == (0, True)
    assert found["spellings"] == [
        {"spelling": "17.5", "rewarded": 0, "refused": 6},
        {"spelling": FRACTION, "rewarded": 1, "refused": 0},
    ]
    reason = read_report(tmp_path / "out").rows["why"][0]
    assert "17.5 rewarded 0 of 6" in reason
    assert f"{FRACTION} rewarded 1 of 1" in reason


def test_every_flag_has_a_probability_unless_the_spelling_decided_it(audited):
    _, rows = audited(STRICT, *OTHERS)
    overruled = [row for row in rows if row["probability_wrong"] is None]
    assert {row["by_spelling"] for row in overruled} <= {"gold"}
    for row in rows:
        if row["probability_wrong"] is not None:
            assert row["anomalous"] == (row["probability_wrong"] > 0.5)


def test_no_more_is_proved_than_follows_from_equal_answers(audited):
    """Six refusals are right or the reward is: together with the four others' refusals, five rewards are wrong."""
    summary, _ = audited(STRICT, *OTHERS)
    assert summary["verifier"]["errors_at_least"] == 1 + 4


def test_without_a_gold_answer_the_refused_spelling_of_the_only_rewarded_answer_is_flagged(audited, tmp_path):
    summary, rows = audited(STRICT, *OTHERS, gold=False)
    assert flagged(rows, 8) == [0, 1, 2, 3, 4, 5]
    assert summary["spellings"]["listed"][0]["is_gold"] is None
    assert "one of the two is wrong" in read_report(tmp_path / "out").rows["why"][0]


def test_a_reward_for_another_answer_than_the_gold_one_is_not_flagged_for_another_spellings_refusals(audited):
    other_gold = ("4", [("17.5", 0)] * 6 + [(FRACTION, 1), ("4", 0)])
    summary, rows = audited(other_gold, *OTHERS)
    assert {row["by_spelling"] for row in rows[:7]} == {"not gold"}
    assert 6 not in flagged(rows, 8)
    assert summary["spellings"]["gold"] == 0


def test_a_second_rewarded_answer_still_contradicts_a_reward_of_one_spelling(audited):
    second_answer = ("4", [("17.5", 0)] * 3 + [(FRACTION, 1)] + [("4", 1)] * 4)
    _, rows = audited(second_answer, *OTHERS)
    assert 3 in flagged(rows, 8)


def test_verdicts_that_differ_on_one_spelling_do_not_go_with_it(audited):
    both_ways = (FRACTION, [("17.5", 0)] * 4 + [("17.5", 1), (FRACTION, 1), (FRACTION, 0)])
    summary, rows = audited(both_ways, *OTHERS)
    assert summary["spellings"] == {"prompts": 0, "answers": 0, "gold": 0, "listed": []}
    # Spelt like the gold answer and rewarded: another refusal of the same answer speaks against that refusal.
    assert 5 not in flagged(rows, 7)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ({"a": (0, 6), "b": (1, 0)}, True),
        ({"a": (1, 6), "b": (1, 0)}, False),
        ({"a": (1, 6), "b": (0, 1)}, False),
        ({"a": (2, 0), "b": (1, 0)}, False),
        ({"a": (1, 1)}, False),
    ],
)
def test_when_verdicts_go_with_the_spelling(verdicts, expected):
    assert goes_with_spelling(verdicts) == expected


def test_verdicts_are_counted_by_spelling_the_most_frequent_first():
    counted = counted_verdicts("abb", [1, 0, 0])
    assert list(counted.items()) == [("b", (0, 2)), ("a", (1, 0))]


def test_labels_tell_more_than_spellings(audited, tmp_path):
    """A label that the decimal is wrong leaves the flags to the curator."""
    labels = tmp_path / "labels.csv"
    labels.write_text("step,line,sample,label\n1,1,0,0\n")
    _, rows = audited(STRICT, *OTHERS, labels=[labels])
    assert 0 not in flagged(rows, 8)
    assert 6 in flagged(rows, 8)


def test_a_redacted_folder_has_no_spelling_but_says_that_it_decided(audited, tmp_path):
    summary, rows = audited(STRICT, *OTHERS, redact=True)
    assert "17.5" not in json.dumps(summary)
    assert {row["final_answer"] for row in rows} == {row["compared_answer"] for row in rows} == {None}
    assert flagged(rows, 8) == [0, 1, 2, 3, 4, 5]
    assert "in another spelling" in read_report(tmp_path / "out").rows["why"][0]


def test_curators_that_compare_no_answers_keep_their_flags(tmp_path, run, monkeypatch):
    def no_call(*found, **more):
        raise AssertionError("flags of a curator that compares no answers")

    monkeypatch.setattr("geoalign.audit.step.flags_by_spelling", no_call)
    summary = run(write_lines(tmp_path / "d.jsonl", dumped(STRICT, *OTHERS)), curator="reward_distance")
    assert summary["spellings"]["answers"] == 1
