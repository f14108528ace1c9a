"""`geoalign audit --second-verifier`: what is asked of whom, what its verdicts change, and which ones are none."""

import json
import sys
from pathlib import Path

import pandas as pd
import pytest
from dumps import plain, table, verdicts, write_lines

from geoalign.answers import verifiers
from geoalign.audit.words.other_findings import second_verifier
from geoalign.audit.words.verifier import verifier
from geoalign.errors import ConfigError, InputError, ServiceError

ROOT = Path(__file__).parents[2]
# A verifier of the user's: the answer is right that is the gold one.
JUDGE = """import json, sys
for line in sys.stdin:
    row = json.loads(line)
    open(sys.argv[1], "a").write(line)
    print(json.dumps({"correct": row["final_answer"] == row["answer"]}))
"""


def written(path, code):
    path.write_text(code, encoding="utf-8")
    return f"{sys.executable} {path}"


def test_the_verdicts_on_rows_that_are_checked_are_labels(tmp_path, run):
    """Rows 3 (right, refused) and 5 (wrong, rewarded) of each of eight prompts are wrong, and no other."""
    dump, asked = write_lines(tmp_path / "d.jsonl", verdicts()), tmp_path / "asked.jsonl"
    command = f"{written(tmp_path / 'judge.py', JUDGE)} {asked}"
    summary = run(dump, curator="denoise", second_verifier=command, budget="100%")
    questions = [json.loads(line) for line in asked.read_text().splitlines()]
    rows = table(tmp_path / "out")
    # Each answer once: rows 0 and 4 are the first to give theirs.
    one_of_each_answer = {f"{prompt}-{place}" for prompt in range(8) for place in (0, 4)}
    assert {row["id"] for row in questions[:16]} == one_of_each_answer
    assert set(questions[0]) == {"prompt", "response", "answer", "final_answer", "reward", "id", "step"}
    assert all(row["trusted"] for row in rows)
    assert [row["new_reward"] for row in rows] == [row["index"] % 8 < 4 for row in rows]
    assert [row["anomalous"] for row in rows] == [row["index"] % 8 in (3, 5) for row in rows]
    found = {name: value for name, value in summary["appeals"].items() if name not in ("verifier", "seconds")}
    assert found == {"budget": "100%", "questions": 64, "rows": 64, "unanswered": 0, "overturned": 16, "lowered": 8,
                     "flagged_before": 16, "flagged_after": 16}  # fmt: skip
    labels = pd.read_csv(tmp_path / "out" / "flagged.csv")
    assert labels["label"].tolist() == [float(row % 8 == 3) for row in labels["index"]]


def test_what_a_second_verifier_proves_is_said_to_rest_on_it(tmp_path, run):
    dump = write_lines(tmp_path / "d.jsonl", verdicts())
    command = f"{written(tmp_path / 'judge.py', JUDGE)} {tmp_path / 'asked.jsonl'}"
    alone = run(dump, curator="denoise")
    checked = run(dump, curator="denoise", second_verifier=command, budget="100%", overwrite=True)
    assert alone["verifier"]["known_truths"] == 0
    assert checked["verifier"]["known_truths"] == 64
    rests_on_it = [any("second verifier gave" in note for note in verifier(found).notes) for found in (alone, checked)]
    assert rests_on_it == [False, True]


@pytest.mark.parametrize(("budget", "is_sample"), [("100%", False), ("6", True)])
def test_a_check_of_all_rewards_is_not_said_to_be_of_some(tmp_path, run, budget, is_sample):
    command = f"{written(tmp_path / 'judge.py', JUDGE)} {tmp_path / 'asked.jsonl'}"
    summary = run(
        write_lines(tmp_path / "d.jsonl", verdicts()), second_verifier=command, budget=budget, curator="denoise"
    )
    assert ("no error rate" in second_verifier(summary)) == is_sample
    if not is_sample:
        # Of 32 wrong answers and as many correct ones eight each were judged wrongly.
        assert [rate.value for rate in verifier(summary).rates] == ["25.0%", "25.0%"]


def test_a_second_verifier_that_judges_nothing_finds_nothing_right(tmp_path, run):
    dump = write_lines(tmp_path / "d.jsonl", verdicts())
    code = "import sys\nfor line in sys.stdin: print('{\"correct\": null}')"
    summary = run(dump, curator="denoise", second_verifier=written(tmp_path / "judge.py", code), budget="3")
    assert summary["appeals"]["rows"] == 0
    assert second_verifier(summary).endswith("gave no verdict on the 3 responses it was asked about.")


@pytest.mark.parametrize(("code", "got"), [
    ("input(); print('{\"correct\": true}')", "1 lines"),
    ("import sys; [print('yes') for _ in sys.stdin]", "'yes', which is no"),
    ('import sys; [print(\'{"reward": "1"}\') for _ in sys.stdin]', "which is no"),
    ("raise SystemExit(3)", "exit status 3"),
    ("import time; time.sleep(60)", "timed out"),
])  # fmt: skip
def test_what_is_no_verdict_on_each_row_is_one_error(tmp_path, monkeypatch, run, code, got):
    monkeypatch.setattr(verifiers, "START_SECONDS", 1.0 if "sleep" in code else 60.0)
    monkeypatch.setattr(verifiers, "ROW_SECONDS", 0.0)
    dump, command = write_lines(tmp_path / "d.jsonl", verdicts()), written(tmp_path / "judge.py", code)
    with pytest.raises(ServiceError, match=rf"--second-verifier: expected a verdict in JSON on each of 6 rows.*{got}"):
        run(dump, curator="denoise", second_verifier=command, budget="6")
    assert not (tmp_path / "out" / "summary.json").exists()


@pytest.mark.parametrize(("asked", "message"), [
    ({"second_verifier": "no-such-command x"}, "--second-verifier: expected math_verify, a function"),
    ({"second_verifier": "http://localhost:1/v1"}, "endpoint.model"),
    ({"budget": "0"}, "--budget: expected a number of rows"),
    ({"budget": "101%"}, "--budget: expected a number of rows"),
    ({"curator": "pair_count"}, "--second-verifier: expected a curator that reads trusted rewards"),
    ({}, "math_verify: expected gold answers"),
])  # fmt: skip
def test_what_cannot_be_asked(tmp_path, run, asked, message):
    dump = write_lines(tmp_path / "d.jsonl", plain())
    with pytest.raises(ConfigError, match=message):
        run(dump, **{"curator": "denoise", "second_verifier": "math_verify", **asked})


def test_math_verify_reads_the_final_answer_and_calls_nothing_wrong_unread():
    deep = "(" * 25 + "x" + ")" * 25
    rows = [
        {"response": "#### 18", "final_answer": "18", "answer": "18"}, {"response": "x", "answer": None},
        {"response": rf"\boxed{{{deep}}}", "answer": "x^2+1"}, {"response": "no box", "answer": "18"},
        {"response": "", "answer": "18"},  # of a dump without texts
    ]  # fmt: skip
    assert verifiers.second_verifier("math_verify", {}, key="", section="")(rows) == [True, None, None, False, None]


def test_a_step_of_refusals_alone_knows_both_rewards(tmp_path, run):
    rows = [
        {"step": step, "prompt": "p", "response": f"r{row}", "answer": "1", "reward": row % 2 * 4.0 * step - 2.0}
        for step in (0, 1) for row in range(4)
    ]  # fmt: skip
    judge = "import sys; [print('{\"correct\": %s}' % str('r1' in line).lower()) for line in sys.stdin]"
    judge = written(tmp_path / "judge.py", judge)
    dump = write_lines(tmp_path / "d.jsonl", rows)
    summary = run(dump, curator="denoise", second_verifier=judge, budget="4")
    assert summary["appeals"]["overturned"] == 2
    assert {row["new_reward"] for row in table(tmp_path / "out") if row["trusted"]} == {-2.0, 2.0}


def test_true_and_false_say_nothing_beside_a_lone_reward_that_is_no_verdict(tmp_path, run):
    rows = [{**row, "reward": 10.0} for row in verdicts()]
    command = f"{written(tmp_path / 'judge.py', JUDGE)} {tmp_path / 'asked.jsonl'}"
    with pytest.raises(InputError, match=r"got true or false\. All rewards are 10, which is no verdict"):
        run(write_lines(tmp_path / "d.jsonl", rows), curator="denoise", second_verifier=command, budget="6")


def test_rewards_of_three_values_have_no_verdicts_in_any_step(tmp_path, run):
    """The first step shows two of them."""
    first = [{**row, "step": 0, "reward": row["reward"] / 2} for row in verdicts()]
    second = [{**row, "step": 1} for row in verdicts()]
    command = f"{written(tmp_path / 'judge.py', JUDGE)} {tmp_path / 'asked.jsonl'}"
    with pytest.raises(InputError, match="expected verdicts that are rewards, got true or false"):
        run(
            write_lines(tmp_path / "d.jsonl", [*first, *second]),
            curator="denoise",
            second_verifier=command,
            budget="6",
        )
    assert len((tmp_path / "asked.jsonl").read_text().splitlines()) == 6


def test_what_ten_percent_of_the_example_find(run, tmp_path):
    """docs/audit.md: a third of the wrong rewards is found directly; nearly nine flags of ten are wrong rewards."""
    path = ROOT / "recipes" / "rollouts" / "substring_reward.jsonl"
    summary = run(path, curator="denoise", second_verifier="math_verify")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    wrong = pd.Series([row["reward"] != row["correct"] for row in rows])
    flagged = pd.read_parquet(tmp_path / "out" / "scores.parquet")["anomalous"]
    asked = summary["appeals"]
    assert asked["questions"] <= len(rows) / 10
    assert round(asked["overturned"] / wrong.sum(), 1) == 0.3
    assert 0.85 < (wrong & flagged).sum() / flagged.sum() < 0.9
