"""Gold answers that look wrong: which are named, in which order, and what an export makes of them."""

import csv
import json

import pandas
import pytest
from tests.shared.dumps import write_lines

from geoalign.audit.golds import suspicions
from geoalign.audit.words.datasheet import exported
from geoalign.audit.words.golds import golds_table, suspicious_golds
from geoalign.errors import ConfigError

WRONG = (4, 11)


def judged(answers, gold, **verifiers):
    """The table of problems by their answers, one letter a rollout; the verifier compares with the gold answer."""
    rows = [
        {"problem": problem, "answer": answer, "reward": float(answer == gold[problem])}
        for problem, given in enumerate(answers) for answer in given
    ]  # fmt: skip
    table = pandas.DataFrame(rows)
    for name, verdict in verifiers.items():
        table[name] = [float(verdict(row["problem"], row["answer"])) for row in rows]
    return table


def answered(prompts=20, size=8):
    """Rollouts of problems that are right but for one each; the gold answers of WRONG are 9 instead of 7."""
    return [
        {"prompt": f"question {prompt}", "response": f"way {row}: \\boxed{{{10 + row if row == 0 else 7}}}",
         "gold": "9" if prompt in WRONG else "7", "reward": float(row > 0 and prompt not in WRONG),
         "data_source": "sums", "problem_id": f"p{prompt}"}
        for prompt in range(prompts) for row in range(size)
    ]  # fmt: skip


@pytest.fixture
def rollouts(tmp_path):
    return write_lines(tmp_path / "rollouts.jsonl", answered())


def each(golds):
    """One gold answer for each problem."""
    return [[gold] for gold in golds]


def test_a_refused_majority_is_proposed():
    answers = ["aaaaaaab"] * 20 + ["aaaaaabc"]
    golds = ["a"] * 20 + ["x"]
    (row,) = suspicions(judged(answers, golds), each(golds)).to_dict("records")
    assert row["problem"] == 20
    assert row["proposed"] == "a"
    assert row["copies"] == 6
    assert row["rollouts"] == 8
    assert row["gold_copies"] == 0
    assert row["votes"] == {"reward": [0, 6]}
    assert row["score"] > 0.5


def test_a_majority_that_equals_the_gold_answer_is_not_proposed_however_it_is_spelt():
    table = judged(["a" * 8] * 5, ["x"] * 5).assign(answer="0.5")
    assert suspicions(table, [[r"\frac{1}{2}"]] * 5).empty
    assert len(suspicions(table, [["3"]] * 5)) == 5


def test_a_majority_that_equals_any_of_several_gold_answers_is_not_proposed():
    table = judged(["a" * 8] * 5, ["x"] * 5).assign(answer="0.5")
    assert suspicions(table, [["3", "1/2"]] * 5).empty


def test_a_majority_of_which_nobody_can_tell_whether_it_is_the_gold_answer_is_not_proposed():
    class Unsure:
        def equal(self, pairs):
            return [None if pair == ("a", "x") else False for pair in pairs]

    answers = ["aaaaaaab", "bbbbbbba"]
    found = suspicions(judged(answers, ["x", "x"]), [["x"], ["x"]], Unsure())
    assert found["problem"].tolist() == [1]


def test_a_majority_that_is_accepted_is_not_proposed():
    assert suspicions(judged(["aaaabbbb"] * 5, ["a"] * 5), [["some prose"]] * 5).empty
    lenient = judged(["aaaaaaax"] * 5, ["x"] * 5).assign(reward=1.0)
    assert suspicions(lenient, [["x"]] * 5).empty


def test_a_majority_that_math_verify_calls_equal_is_not_proposed():
    class Equal:
        def equal(self, pairs):
            return [pair == ("a", "x") for pair in pairs]

    answers = ["aaaaaaab", "bbbbbbba"]
    found = suspicions(judged(answers, ["x", "x"]), [["x"], ["x"]], Equal())
    assert found["problem"].tolist() == [1]


def test_a_refused_majority_is_proposed_though_the_file_has_no_gold_answer():
    answers = ["aaaaaaab", "aaaaaaab", "aaaaaaaa"]
    table = judged(answers, ["x", "x", "a"])
    found = suspicions(table, [[], ["x"], []])
    assert found["problem"].tolist() == [0, 1]
    assert found["score"].iloc[0] == pytest.approx(found["score"].iloc[1])


def test_a_vote_for_the_proposed_answer_makes_it_more_suspicious_and_one_against_it_changes_nothing():
    answers = ["aaaaaaab"] * 20 + ["aaaaabcd"] * 3
    golds = ["a"] * 20 + ["x"] * 3
    plain = suspicions(judged(answers, golds), each(golds))
    with_judge = judged(answers, golds, judge=lambda problem, answer: problem == 22 and answer == "a")
    voted = suspicions(with_judge, each(golds))
    assert voted["problem"].iloc[0] == 22
    assert voted["votes"].iloc[0] == {"reward": [0, 5], "judge": [5, 5]}
    before = plain["score"].iloc[0]
    odds = before / (1 - before)
    assert voted["score"].iloc[0] == pytest.approx(4 * odds / (1 + 4 * odds))
    assert voted["score"].iloc[1] == pytest.approx(plain["score"].iloc[0])


def test_an_audit_ranks_them(run, rollouts, tmp_path):
    found = run(rollouts, curator="denoise")["suspicious_golds"]
    assert (found["problems"], found["rivalled"], found["suspicious"]) == (20, 2, 2)
    assert [(row["problem"], row["gold"], row["proposed"]) for row in found["top"]] == [
        ("p4", "9", "7"),
        ("p11", "9", "7"),
    ]
    with (tmp_path / "out" / "golds.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["problem"], row["proposed"], row["prompt"]) for row in rows] == [
        ("p4", "7", "question 4"), ("p11", "7", "question 11"),
    ]  # fmt: skip


def test_rewards_that_are_no_verdicts_make_no_gold_answer_suspicious(run, tmp_path):
    """Two values alone are no verdicts: nothing says that the higher one accepts."""
    rows = [{**row, "reward": 0.45 if row["reward"] else 0.3} for row in answered()]
    summary = run(write_lines(tmp_path / "scores.jsonl", rows))
    assert "not verdicts" in summary["verifier"]["reason"]
    assert summary["suspicious_golds"] is None


@pytest.mark.parametrize("numbers", [(0.0, 1.0), (-1.0, 1.0), (0.0, 10.0)])
def test_votes_count_what_another_verifier_accepts_whatever_its_numbers(run, tmp_path, numbers):
    """It accepts two in seven copies of each proposed answer. Scores have no vote."""
    rows = [{**row, "mine": numbers[place % 8 in (1, 2)], "score": place / 7} for place, row in enumerate(answered())]
    path = write_lines(tmp_path / "rollouts.jsonl", rows)
    run(path, fields=("verdict.mine=mine", "verdict.score=score"))
    with (tmp_path / "out" / "golds.csv").open(encoding="utf-8-sig", newline="") as file:
        votes = [row["votes"] for row in csv.DictReader(file)]
    assert votes == ["reward 0/7; mine 2/7"] * 2


def test_an_answer_that_is_accepted_as_often_as_refused_rivals_no_gold_answer():
    table = judged(["aaaaaaab"] * 20 + ["aaaabbbc"], ["a"] * 20 + ["x"])
    table.loc[table.index[-8:-6], "reward"] = 1.0
    assert suspicions(table, each(["a"] * 20 + ["x"])).empty


def test_a_problem_of_several_steps_counts_once(run, tmp_path):
    rows = [{**row, "step": step} for step in (1, 2) for row in answered()]
    found = run(write_lines(tmp_path / "rollouts.jsonl", rows), curator="denoise")["suspicious_golds"]
    assert (found["problems"], found["rivalled"], found["top"][0]["copies"]) == (20, 2, 14)


def with_few_accepted():
    """The last three answers to each problem are refused, too: 18 * 4 of 160 are accepted."""
    return [{**row, "reward": 0.0} if place % 8 >= 5 else row for place, row in enumerate(answered())]


def test_where_few_answers_are_accepted_the_ranking_is_not_trusted(run, rollouts, tmp_path):
    found = run(rollouts, curator="denoise")
    # 18 of 20 problems have 7 of 8 answers accepted.
    assert found["suspicious_golds"]["accepted"] == pytest.approx(18 * 7 / 160)
    assert found["suspicious_golds"]["trusted"]
    assert "Do not trust" not in suspicious_golds(found)
    refused = write_lines(tmp_path / "refused.jsonl", with_few_accepted())
    found = run(refused, curator="denoise", overwrite=True)
    assert found["suspicious_golds"]["accepted"] == pytest.approx(18 * 4 / 160)
    assert not found["suspicious_golds"]["trusted"]
    assert "only 45.0% of the answers were accepted" in suspicious_golds(found)


@pytest.mark.parametrize("rows", [answered(), with_few_accepted()], ids=["ranked", "not trusted"])
def test_of_a_file_without_gold_answers_only_the_verifier_s_own_is_spoken_of(run, tmp_path, rows):
    without = [{name: value for name, value in row.items() if name != "gold"} for row in rows]
    summary = run(write_lines(tmp_path / "rollouts.jsonl", without), curator="denoise")
    said = suspicious_golds(summary)
    assert "the gold answer" not in said
    assert "to have a wrong gold answer" not in said
    assert "gold" not in golds_table(summary, most=5)


def test_texts_are_left_out_of_a_redacted_audit(run, rollouts, tmp_path):
    found = run(rollouts, curator="denoise", redact=True)["suspicious_golds"]
    assert found["suspicious"] == 2
    assert found["top"][0]["gold"] is None
    assert found["top"][0]["proposed"] is None
    assert not (tmp_path / "out" / "golds.csv").exists()


def test_an_export_leaves_suspicious_prompts_out(run, rollouts, tmp_path):
    summary = run(rollouts, curator="denoise", export=tmp_path / "clean.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "clean.jsonl").read_text().splitlines()]
    assert len(lines) == 18
    assert lines[4] == {"prompt": "question 5", "answer": "7", "data_source": "sums", "problem_id": "p5"}
    assert summary["export"]["suspicious"] == 2
    assert "18 prompts" in (tmp_path / "datasheet.md").read_text()


def test_an_export_may_give_them_the_proposed_answer(run, rollouts, tmp_path):
    run(rollouts, curator="denoise", export=tmp_path / "clean.jsonl", export_relabel=True)
    lines = [json.loads(line) for line in (tmp_path / "clean.jsonl").read_text().splitlines()]
    assert [line["answer"] for line in lines] == ["7"] * 20


@pytest.mark.parametrize("relabel", [False, True])
def test_an_export_changes_nothing_by_a_ranking_that_is_not_trusted(run, tmp_path, relabel):
    refused = write_lines(tmp_path / "refused.jsonl", with_few_accepted())
    summary = run(refused, curator="denoise", export=tmp_path / "clean.jsonl", export_relabel=relabel, export_above=0.0)
    assert summary["export"]["suspicious"] > 0
    assert summary["export"]["changed"] == 0
    lines = [json.loads(line) for line in (tmp_path / "clean.jsonl").read_text().splitlines()]
    assert [line["answer"] for line in lines] == ["9" if prompt in WRONG else "7" for prompt in range(20)]
    for said in (exported(summary), (tmp_path / "datasheet.md").read_text()):
        assert "not to be trusted here" in said


def test_the_threshold_of_an_export_may_be_another(run, rollouts, tmp_path):
    run(rollouts, curator="denoise", export=tmp_path / "clean.jsonl", export_above=1.0)
    assert len((tmp_path / "clean.jsonl").read_text().splitlines()) == 20


@pytest.mark.parametrize(
    ("request_", "what"),
    [
        ({"export": "clean.csv"}, "ends in .jsonl"),
        ({"export": "out/clean.jsonl"}, "outside of the audit's folder"),
        ({"export": "nowhere/clean.jsonl"}, "there is no folder"),
        ({"export": "rollouts.jsonl"}, "another file than the inputs"),
        ({"export": "there.jsonl"}, "--overwrite replaces it"),
        ({"export": "clean.jsonl", "redact": True}, "without --redact"),
        ({"export": "clean.jsonl", "export_above": 2.0}, "from 0 to 1"),
        ({"export_relabel": True}, "--export-relabel: expected with --export FILE"),
        ({"export_above": 0.9}, "--export-above: expected with --export FILE"),
    ],
)
def test_an_export_that_cannot_be_is_refused(run, rollouts, tmp_path, request_, what):
    (tmp_path / "there.jsonl").write_text("")
    if "export" in request_:
        request_ = {**request_, "export": tmp_path / request_["export"]}
    with pytest.raises(ConfigError, match=what):
        run(rollouts, curator="denoise", **request_)
