"""`geoalign audit --draw-checks`, `--checks`, `--check-with`: which rows are drawn, and how labels get to them."""

import sys
from pathlib import Path

import numpy as np
import pandas
import pytest
from dumps import changed, verdicts, write_lines
from files_of_checks import labelled, labels_of_lines, read, write

from geoalign.audit.sample import UniformSample
from geoalign.checks.rates import modified_wilson
from geoalign.dumps.checks_csv import is_right
from geoalign.errors import ConfigError, InputError

FPR, FNR = "false_positive_rate", "false_negative_rate"


# --- the draw ---------------------------------------------------------------------------------------------------------


def test_a_sample_is_the_same_in_whatever_parts_the_rows_come():
    rows = pandas.DataFrame({"row": range(1000)})
    whole = UniformSample(25, seed=3)
    whole.add(rows)
    parts = UniformSample(25, seed=3)
    for start in range(0, 1000, 37):
        parts.add(rows[start : start + 37])
    assert whole.drawn()["row"].tolist() == parts.drawn()["row"].tolist()
    assert parts.seen == 1000
    smaller = UniformSample(10, seed=3)
    smaller.add(rows)
    assert smaller.drawn()["row"].tolist() == whole.drawn()["row"].tolist()[:10]


def test_every_row_is_drawn_equally_often_at_every_place():
    rows = pandas.DataFrame({"row": range(8)})
    times = np.zeros((8, 4))
    for seed in range(2000):
        sample = UniformSample(4, seed)
        sample.add(rows[:3])
        sample.add(rows[3:])
        times[sample.drawn()["row"], range(4)] += 1
    # 250 are expected in each cell, with a standard deviation of 15.
    assert np.abs(times - 250).max() < 5 * 15


def test_the_drawn_rows_are_scored_rows_of_the_file_each_once(tmp_path, run):
    rows = verdicts()
    for row in rows[::3]:
        row["reward"] = None
    run(write_lines(tmp_path / "d.jsonl", rows), curator="denoise", draw_checks=30)
    found = read(tmp_path / "out" / "checks.csv")
    lines = [int(row["line"]) for row in found]
    assert len(set(lines)) == 30
    assert all((line - 1) % 3 for line in lines)
    first = found[0]
    own = rows[int(first["line"]) - 1]
    assert (first["prompt"], first["response"]) == (own["prompt"], own["response"])
    assert (first["answer"], float(first["reward"]), first["label"]) == ("a", own["reward"], "")
    assert (first["draw"], first["drawn_from"]) == ("1", "42")


def test_the_seed_alone_decides_which_rows_are_drawn(drawn):
    ten = [row["line"] for row in drawn(10)]
    assert [row["line"] for row in drawn(20)][:10] == ten
    assert [row["line"] for row in drawn(10, settings=("seed=1",))] != ten


def test_more_than_there_are_are_all(drawn):
    assert {int(row["line"]) for row in drawn(1000)} == set(range(1, 65))


# --- the labels -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("right", "wrong"), [("right", "WRONG"), ("True", "false"), ("1", "0"), ("1.0", "0.0")])
def test_there_and_back(tmp_path, run, dump, drawn, right, wrong):
    """All rows are checked, so that both rates are known: 8 of 32 were rewarded, and 8 of 32 refused."""
    checks = write(tmp_path / "c.csv", labelled(drawn(64), right, wrong))
    verifier = run(dump, curator="denoise", checks=checks, output=tmp_path / "again")["verifier"]
    for name in (FPR, FNR):
        assert verifier["rates"][name] == {"estimate": 0.25, "low": 0.25, "high": 0.25, "by": "checks"}
        assert (verifier["checks"][name]["checked"], verifier["checks"][name]["errors"]) == (32, 8)


@pytest.mark.parametrize(("rewards", "means"), [
    ((0, 1), {True: True, False: False}),
    ((-1, 1), {1: True, -1: False, 0: False}),
    ((0, 0.5), {0.5: True, 1: True, 0: False}),
    # As rewards of a third are written into checks.csv.
    ((-1 / 3, 2 / 3), {0.666667: True, -0.333333: False, 0.6667: None}),
    # 1 is the reward of a wrong response here, and 0 that of a right one there.
    ((1, 2), {2: True, 1: False, 0: None}),
    ((-1, 0), {0: True, -1: False, 1: None}),
    ((0, 1), {0.5: None, 2: None}),
])  # fmt: skip
def test_what_a_label_means(rewards, means):
    for label, meaning in means.items():
        if meaning is None:
            with pytest.raises(InputError, match=r"c\.csv, line 2: label: expected right or wrong, or a true reward"):
                is_right(label, *rewards, "c.csv, line 2")
        else:
            assert is_right(label, *rewards, "c.csv, line 2") is meaning
    assert is_right(1.0, 0.0, 1.0, "")
    assert not is_right(0.0, 0.0, 1.0, "")


def test_the_first_labelled_rows_are_a_sample_of_their_own(tmp_path, run, dump, drawn):
    rows = drawn(40)
    checks = write(tmp_path / "c.csv", labelled(rows, until=12)[::-1])
    summary = run(dump, curator="denoise", checks=checks, output=tmp_path / "again")
    assert (summary["checks"]["used"], summary["checks"]["without_label"]) == (12, 0)
    wrong = [row for row in rows[:12] if row["final_answer"] != "a"]
    rate = summary["verifier"]["checks"][FPR]
    assert rate["checked"] == len(wrong)
    assert rate["errors"] == sum(row["reward"] == "1.0" for row in wrong)
    assert (rate["low"], rate["high"]) == modified_wilson(rate["errors"], rate["checked"])


def test_a_row_that_was_passed_over_counts_both_ways(tmp_path, run, dump, drawn):
    rows = labelled(drawn(20))
    rewarded_wrong = [row for row in rows[:-1] if row["label"] == "wrong" and row["reward"] == "1.0"]
    passed_over = rewarded_wrong[0]
    judged = [row for row in rows if row["label"] == "wrong" and row is not passed_over]
    errors = sum(row["reward"] == "1.0" for row in judged)
    passed_over["label"] = ""
    summary = run(dump, curator="denoise", checks=write(tmp_path / "c.csv", rows), output=tmp_path / "again")
    assert (summary["checks"]["used"], summary["checks"]["without_label"]) == (20, 1)
    rate = summary["verifier"]["checks"][FPR]
    # It was rewarded: judged rightly it is no wrong row, judged wrongly it is a wrong one more and an error.
    assert rate["low"] == modified_wilson(errors, len(judged))[0]
    assert rate["high"] == modified_wilson(errors + 1, len(judged) + 1)[1]
    assert rate["estimate"] == errors / len(judged)


@pytest.mark.parametrize("label", ["", "?"])
def test_a_row_without_a_label_takes_the_others_from_no_verifier(tmp_path, run, dump, drawn, label):
    rows = labelled(drawn(20))
    rows[4]["label"] = label
    judge = ("judge=geoalign.answers.naive:substring",)
    checks = write(tmp_path / "c.csv", rows)
    summary = run(dump, curator="denoise", checks=checks, verifiers=judge, output=tmp_path / "again")
    assert summary["checks"]["without_label"] == 1
    for entry in summary["verifiers"]["table"]:
        assert sum(rate["checked"] for rate in entry["checks"].values()) == 19


def test_labels_that_deny_what_is_proved_deny_it_of_every_verifier(tmp_path, run, dump, drawn):
    """All answers to a prompt are called right."""
    checks = write(tmp_path / "c.csv", [{**row, "label": "right"} for row in drawn(64)])
    judge = ("judge=geoalign.answers.naive:substring",)
    summary = run(dump, curator="denoise", checks=checks, verifiers=judge, output=tmp_path / "again")
    assert summary["verifier"]["bounds"] is None
    assert [entry["bounds"] for entry in summary["verifiers"]["table"]] == [None, None]


def other(rows, place, **values):
    return [*rows[:place], {**rows[place], **values}, *rows[place + 1 :]]


def with_a_row_that_was_not_drawn(rows):
    """In place of the fifth one that was drawn."""
    drawn = {row["line"] for row in rows}
    not_drawn = [str(line) for line in range(1, 65) if str(line) not in drawn]
    return other(rows, 4, line=not_drawn[0])


@pytest.mark.parametrize(("change", "message"), [
    # A row that looks wrong, added by hand in place of one that was drawn.
    (with_a_row_that_was_not_drawn, r"line \d+: draw 5 is .*, and this row is of another rollout"),
    (lambda rows: other(rows, 2, response="something else"), r"response: 'something else' is not that of"),
    (lambda rows: [{**row, "drawn_from": "65"} for row in rows], r"drawn from 65 rollouts .* have 64: audit the same"),
    (lambda rows: other(rows, 2, draw="2"), r"line \d+: draw: 2 is that of .*line \d+, too; keep one"),
    (lambda rows: other(rows, 2, draw="0"), r"draw: expected a number from 1, got 0"),
    (lambda rows: other(rows, 2, draw="65"), r"draw 65 of 64 rollouts, seed 0: there is no such draw"),
    (lambda rows: other(rows, 2, seed="7"), r"expected the seed and drawn_from of the first row"),
    (lambda rows: other(rows, 2, label="maybe"), r"label: expected right or wrong, true or false, 1 or 0, or a reward"),
    (lambda rows: other(rows, 2, label="0.5"), r"label: expected right or wrong, or a true reward, 0 or 1, got 0.5"),
    (lambda rows: other(rows, 2, line="x"), r"line: expected a whole number of 64 bits, got 'x'"),
    (lambda rows: [{"step": row["step"], "label": "1"} for row in rows], r"line 1: expected the columns draw, "),
])  # fmt: skip
def test_files_that_tell_no_rate(tmp_path, run, dump, drawn, change, message):
    checks = write(tmp_path / "c.csv", change(labelled(drawn(10))))
    with pytest.raises(InputError, match=message):
        run(dump, curator="denoise", checks=checks, output=tmp_path / "again")
    assert not (tmp_path / "again" / "summary.json").exists()


@pytest.mark.parametrize(("request_", "message"), [
    ({"check_with": "gold"}, r"--check-with: expected --draw-checks N or --checks FILE"),
    ({"draw_checks": 5, "anytime": True}, r"--anytime: expected labelled checks"),
    ({"budget": "5"}, r"--budget: expected with --second-verifier WHO"),
    ({"cache": Path("states")}, r"--cache: expected with --model ID_OR_PATH"),
    ({"draw_checks": 5, "check_with": "no-such-command"}, r"--check-with: expected math_verify, a function"),
    ({"checks": Path("gone.csv")}, r"--checks gone.csv: expected a checks.csv .*, got none there"),
    ({"labels": [Path("gone.csv")]}, r"--labels gone.csv: expected a flagged.csv with labels, got none there"),
])  # fmt: skip
def test_options_that_cannot_be(run, dump, request_, message):
    with pytest.raises(ConfigError, match=message):
        run(dump, curator="denoise", **request_)


def test_scores_have_no_error_rates_to_check(tmp_path, run):
    scores = [{**row, "reward": place / 64} for place, row in enumerate(verdicts())]
    with pytest.raises(ConfigError, match=r"--draw-checks: expected two rewards, .* take more than two values"):
        run(write_lines(tmp_path / "d.jsonl", scores), curator="denoise", draw_checks=5)


def test_labels_are_not_overwritten(tmp_path, run, dump, drawn):
    write(tmp_path / "out" / "checks.csv", labelled(drawn(10), until=1))
    with pytest.raises(ConfigError, match=r"got checks\.csv with labels: move it"):
        run(dump, curator="denoise", overwrite=True)


def test_checks_are_read_with_the_seed_with_which_they_were_drawn(tmp_path, run, dump, drawn):
    rows = labelled(drawn(20, settings=("seed=3",)))
    summary = run(dump, curator="denoise", checks=write(tmp_path / "c.csv", rows), output=tmp_path / "again")
    assert (summary["checks"]["seed"], summary["checks"]["used"]) == (3, 20)
    wrong = [row for row in rows if row["label"] == "wrong"]
    assert summary["verifier"]["checks"][FPR]["checked"] == len(wrong)


def test_labels_stay_with_their_rows_when_the_file_of_checks_is_sorted_otherwise(tmp_path, run, dump, drawn):
    rows = labelled(drawn(30))
    in_order = run(dump, curator="denoise", checks=write(tmp_path / "c.csv", rows), output=tmp_path / "in_order")
    by_line = sorted(rows, key=lambda row: int(row["line"]))
    sorted_file = write(tmp_path / "sorted.csv", by_line)
    otherwise = run(dump, curator="denoise", checks=sorted_file, output=tmp_path / "otherwise")
    assert otherwise["verifier"]["checks"] == in_order["verifier"]["checks"]
    larger = run(dump, curator="denoise", checks=sorted_file, draw_checks=40, output=tmp_path / "larger")
    assert larger["checks"]["labelled"] == 30
    kept = read(tmp_path / "larger" / "checks.csv")[:30]
    assert labels_of_lines(kept) == labels_of_lines(rows)


def test_a_larger_sample_keeps_the_labels_of_the_smaller(tmp_path, run, dump, drawn):
    first = labelled(drawn(10))
    first[3]["note"] = "a hard one"
    checks = write(tmp_path / "c.csv", first)
    run(dump, curator="denoise", checks=checks, draw_checks=30, output=tmp_path / "again")
    more = read(tmp_path / "again" / "checks.csv")
    assert len(more) == 30
    assert labels_of_lines(more[:10]) == labels_of_lines(first)
    assert more[3]["note"] == "a hard one"
    assert {row["label"] for row in more[10:]} == {""}


def test_a_redacted_audit_draws_rows_without_texts_and_reads_them_back(tmp_path, run, dump, drawn):
    rows = drawn(20, redact=True)
    assert not {"prompt", "response", "answer", "final_answer"} & set(rows[0])
    checks = write(tmp_path / "c.csv", [{**row, "label": "1"} for row in rows])
    summary = run(dump, curator="denoise", checks=checks, redact=True, output=tmp_path / "again")
    assert summary["checks"]["labelled"] == 20


# --- who labels -------------------------------------------------------------------------------------------------------


def test_gold_answers_label_the_drawn_rows_at_once(tmp_path, run):
    rows = changed(verdicts(), 5, response="no answer")
    dump = write_lines(tmp_path / "d.jsonl", rows)
    summary = run(dump, curator="denoise", draw_checks=64, check_with="gold")
    assert summary["checks"]["by"] == {"gold": 63}
    # Row 5 was rewarded. Without its answer nobody knows whether it is right: 7 errors of 31 or 8 of 32.
    rate = summary["verifier"]["rates"][FPR]
    assert (rate["low"], rate["high"]) == (7 / 31, 8 / 32)
    checks = read(tmp_path / "out" / "checks.csv")
    found = {int(row["line"]): (row["label"], row["by"]) for row in checks}
    assert found[6] == ("", "")
    assert found[1] == ("1", "gold")
    assert found[7] == ("0", "gold")


def test_a_command_labels_the_rows_that_nobody_did(tmp_path, run, dump, drawn):
    judge = tmp_path / "judge.py"
    judge.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({'correct': json.loads(line)['final_answer'] == 'a'}))\n"
    )
    checks = write(tmp_path / "c.csv", labelled(drawn(64), until=20))
    summary = run(
        dump, curator="denoise", checks=checks, check_with=f"{sys.executable} {judge}", output=tmp_path / "again"
    )
    assert sorted(summary["checks"]["by"].values()) == [20, 44]
    assert summary["verifier"]["rates"][FPR]["estimate"] == 0.25


def test_gold_answers_have_to_be_there(tmp_path, run):
    rows = [{name: value for name, value in row.items() if name != "answer"} for row in verdicts()]
    with pytest.raises(ConfigError, match=r"--check-with gold: expected gold answers"):
        run(write_lines(tmp_path / "d.jsonl", rows), curator="denoise", draw_checks=5, check_with="gold")


def test_a_reward_labels_a_row_as_right_if_it_is_nearer_to_that_of_a_right_one(tmp_path, run, dump):
    judge = tmp_path / "judge.py"
    judge.write_text(
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    print(json.dumps({'reward': 0.6 if json.loads(line)['final_answer'] == 'a' else 0.4}))\n"
    )
    summary = run(dump, curator="denoise", draw_checks=64, check_with=f"{sys.executable} {judge}")
    for name in (FPR, FNR):
        rate = summary["verifier"]["checks"][name]
        assert (rate["checked"], rate["errors"]) == (32, 8)
