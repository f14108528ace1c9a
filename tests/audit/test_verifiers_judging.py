"""`geoalign audit --verifiers`: who judges which rows, and what becomes of a verifier that fails or is late."""

import json
import signal
import sys
import time

import pandas
import pytest
from dumps import nemo_gym, plain, table, verdicts, write_lines
from judge_server import Reply, completion, judge_on_loopback
from several_verdicts import dump, entry_of

from geoalign import audit
from geoalign.audit.several_verifiers import calls
from geoalign.audit.several_verifiers.calls import OutOfTime, time_limit
from geoalign.checks.rates import modified_wilson
from geoalign.errors import ConfigError

FPR, FNR = "false_positive_rate", "false_negative_rate"
# Of each of eight prompts: rows 0 to 3 answer "a", the gold answer, 4 and 5 "b", 6 and 7 "c".
RIGHT = "11110000"
# The file's reward refuses row 3 and accepts row 5.
REWARD = "11100100"


@pytest.fixture
def server(monkeypatch):
    yield from judge_on_loopback(monkeypatch)


# --- the command ------------------------------------------------------------------------------------------------------


def test_columns_functions_commands_and_math_verify_judge_all_rows(tmp_path, run):
    code = (
        "import json, sys\nfor line in sys.stdin:\n    print(json.dumps({'correct': 'a' in json.loads(line)['id']}))\n"
    )
    (tmp_path / "judge.py").write_text(code)
    names = [
        "math_verify",
        "in_it=geoalign.answers.naive:substring",
        f"none={sys.executable} {tmp_path / 'judge.py'}",
    ]
    rows = dump(tmp_path, judge=RIGHT)
    summary = run(rows, curator="denoise", verifiers=names, fields=["verdict.mine=judge"])["verifiers"]
    shares = {entry["name"]: (entry["kind"], entry["judged"], entry["accepted"]) for entry in summary["table"]}
    assert shares == {
        "reward": ("reward", 64, 0.5),
        "mine": ("column", 64, 0.5),
        "math_verify": ("math_verify", 64, 0.5),
        "in_it": ("function", 64, 1.0),
        "none": ("command", 64, 0.0),
    }
    stored = pandas.read_parquet(tmp_path / "out" / "verdicts.parquet")
    assert stored.columns.tolist() == ["index", "mine", "math_verify", "in_it", "none"]
    assert stored["math_verify"].tolist() == [mark == "1" for mark in RIGHT * 8]
    assert stored["index"].tolist() == [row["index"] for row in table(tmp_path / "out")]


def test_rewards_of_reverify_stand_beside_the_old_ones_of_nemo_gym(tmp_path, run):
    rows = nemo_gym()
    for place, row in enumerate(rows):
        row["reward"] = place % 2
        row["reverified"] = 1 - place % 2
    rows[2]["reverified"] = None
    path = write_lines(tmp_path / "both.jsonl", rows)
    [pair] = run(path, curator="denoise", fields=["verdict.reverified=reverified"])["verifiers"]["pairs"]
    assert (pair["first"], pair["second"]) == ("reward", "reverified")
    assert (pair["both_judged"], pair["agreement"]) == (len(rows) - 1, 0.0)


def test_without_verifiers_the_summary_says_nothing_of_them(tmp_path, run):
    assert run(dump(tmp_path), curator="denoise")["verifiers"] is None
    assert not (tmp_path / "out" / "verdicts.parquet").exists()


def test_a_failing_function_fails_on_its_rows_alone_and_the_others_go_on(tmp_path):
    def picky(prompts, completions, **columns):
        if any(prompt == "question 3" for prompt in prompts):
            raise ValueError("no question 3")
        return [1.0] * len(prompts)

    report = audit(dump(tmp_path), verifiers=[picky, "math_verify"])
    found = {entry["name"]: entry for entry in report.summary["verifiers"]["table"]}
    assert (found["picky"]["failed"], found["picky"]["judged"]) == (8, 56)
    assert found["picky"]["first_failure"] == "ValueError: no question 3"
    assert found["math_verify"]["judged"] == 64
    assert any("'picky' failed on 8 rows (12.5%)" in note for note in report.words.several.notes)
    assert report.verifiers.loc["picky", "failed"] == 8
    assert report.rows["verdict.picky"].isna().sum() == 8
    assert "no question" not in json.dumps(audit(dump(tmp_path), verifiers=[picky], redact=True).summary)


def test_a_verifier_that_always_fails_is_given_up(tmp_path):
    calls = []

    def broken(prompts, completions, **columns):
        calls.append(len(prompts))
        raise RuntimeError

    [_, entry] = audit(dump(tmp_path), verifiers={"own name": broken}).summary["verifiers"]["table"]
    assert (entry["name"], entry["failed"]) == ("own name", 64)
    assert len(calls) == 20


def test_a_function_knows_the_gold_answer_under_the_name_of_the_file(tmp_path):
    rows = [{("solution" if name == "answer" else name): value for name, value in row.items()} for row in verdicts()]

    def exact(prompts, completions, solution, **columns):
        return [float(f"{{{gold}}}" in completion) for gold, completion in zip(solution, completions, strict=True)]

    report = audit(write_lines(tmp_path / "d.jsonl", rows), verifiers=exact, fields={"answer": "solution"})
    assert report.verifiers.loc["exact", ["accepted", "agrees_with_reward", "failed"]].tolist() == [0.5, 0.75, 0]


# --- what fails, hangs or answers late --------------------------------------------------------------------------------


def test_a_function_that_hangs_on_a_row_loses_it_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(calls, "START_SECONDS", 0.2)
    monkeypatch.setattr(calls, "ROW_SECONDS", 0.0)
    monkeypatch.setattr(calls, "LONE_ROW_SECONDS", 0.2)

    def hangs(prompts, completions, id, **columns):
        try:
            while "r9" in id:
                time.sleep(0.001)
        except Exception:
            return [0.0] * len(prompts)
        return [1.0] * len(prompts)

    rows = [{**row, "id": f"r{place}"} for place, row in enumerate(verdicts())]
    report = audit(write_lines(tmp_path / "d.jsonl", rows), verifiers={"hangs": hangs, "gold": "math_verify"})
    assert report.verifiers.loc["hangs", ["judged", "failed"]].tolist() == [63, 1]
    assert report.rows["verdict.hangs"].isna().tolist() == [place == 9 for place in range(64)]
    assert report.verifiers.loc["gold", "judged"] == 64
    assert "no verdict within 0.2 seconds" in entry_of(report.summary["verifiers"], "hangs")["first_failure"]


def test_a_limit_of_time_ends_with_its_block():
    before = signal.getsignal(signal.SIGURG)
    with time_limit(0.05):
        pass
    time.sleep(0.1)
    assert signal.getsignal(signal.SIGURG) == before
    with pytest.raises(OutOfTime), time_limit(0.05):
        time.sleep(5)


def right_says(request):
    """The endpoint's model: only "a" is right; of one question the answer is no verdict."""
    asked = request["messages"][-1]["content"]
    if "question 3" in asked:
        return completion("I would rather not say")
    return completion(json.dumps({"correct": "boxed{a}" in asked}))


def test_an_endpoint_judges_all_rows_and_what_is_no_verdict_counts_as_none(tmp_path, run, server):
    server.reply = right_says
    settings = ("endpoint.model=judge",)
    summary = run(dump(tmp_path), curator="denoise", verifiers=[f"llm={server.url}"], settings=settings)["verifiers"]
    found = entry_of(summary, "llm")
    assert (found["kind"], found["judged"], found["failed"], found["accepted"]) == ("endpoint", 56, 0, 0.5)
    assert found["spec"] == server.url
    assert len(server.requests) == 64
    stored = pandas.read_parquet(tmp_path / "out" / "verdicts.parquet")["llm"]
    # It would rather not say of the fourth prompt's rows.
    expected = [mark == "1" for mark in RIGHT * 8]
    expected[24:32] = [None] * 8
    assert stored.tolist() == expected


def test_an_endpoint_that_fails_loses_the_rows_of_its_calls_alone(tmp_path, run, server):
    """It fails on the first question, which is in the first call of fifty rows."""

    def reply(request):
        return Reply(status=401) if "question 0" in request["messages"][-1]["content"] else right_says(request)

    server.reply = reply
    settings = ("endpoint.model=judge",)
    summary = run(dump(tmp_path), curator="denoise", verifiers=[f"llm={server.url}"], settings=settings)["verifiers"]
    found = entry_of(summary, "llm")
    assert (found["judged"], found["failed"]) == (14, 50)
    assert "401" in found["first_failure"]


# --- costly verifiers -------------------------------------------------------------------------------------------------


def test_a_costly_verifier_judges_drawn_rows_alone_and_the_others_all(tmp_path):
    asked = []

    def costly(prompts, completions, id, **columns):
        asked.extend(id)
        return [float("boxed{a}" in completion) for completion in completions]

    verifiers = {"costly": costly, "gold": "math_verify"}
    report = audit(dump(tmp_path), verifiers=verifiers, verifier_rows={"costly": 20})
    assert report.verifiers.loc["costly", ["drawn", "judged"]].tolist() == [20, 20]
    assert report.verifiers.loc["gold", "judged"] == 64
    rows = report.rows.set_index("id")
    assert set(rows.index[rows["verdict.costly"].notna()]) == set(asked)
    assert len(asked) == 20
    assert (rows["verdict.costly"] == rows["verdict.gold"])[asked].all()
    [row] = [row for row in report.words.several.table if row[0] == "costly"]
    assert row[1].endswith("of 20 drawn rows")


def test_a_file_without_any_reward_leaves_a_costly_verifier_nothing_to_judge(tmp_path):
    rows = [{"prompt": "1 + 1", "response": f"\\boxed{{{number}}}", "reward": None} for number in range(8)]
    path = write_lines(tmp_path / "unscored.jsonl", rows)
    verifiers = {"costly": lambda prompts, **columns: [1.0] * len(prompts)}
    report = audit(path, verifiers=verifiers, verifier_rows={"costly": 4})
    assert report.verifiers.loc["costly", "judged"] == 0


def test_the_seed_decides_which_rows_a_costly_verifier_judges(tmp_path):
    def drawn(count, seed):
        report = audit(
            dump(tmp_path), verifiers={"v": lambda prompts, **_: [1.0] * len(prompts)}, verifier_rows=count,
            settings={"seed": seed},
        )  # fmt: skip
        return set(report.rows.index[report.rows["verdict.v"].notna()])

    assert drawn(10, 0) < drawn(20, 0)
    assert drawn(20, 0) == drawn(20, 0)
    assert drawn(20, 1) != drawn(20, 0)


def test_rows_that_are_checked_are_among_those_that_a_costly_verifier_judges(tmp_path, run):
    checked = run(
        dump(tmp_path), curator="denoise", verifiers=["right=geoalign.answers.naive:substring"], verifier_rows=["10"],
        draw_checks=10, check_with="gold",
    )  # fmt: skip
    rates = entry_of(checked["verifiers"], "right")["checks"]
    assert rates[FPR]["checked"] + rates[FNR]["checked"] == 10
    # Its ten rows are all checked, and yet its rates in the whole file are not known exactly.
    rate = rates[FPR]
    assert (rate["low"], rate["high"]) == modified_wilson(rate["errors"], rate["checked"])


@pytest.mark.parametrize(("asked", "message"), [
    ({"verifier_rows": ["5"]}, "--verifier-rows 5: expected it with --verifiers"),
    ({"verifiers": ["x=false"], "verifier_rows": ["y=5"]}, "of one of these verifiers: x"),
    ({"verifiers": ["x=false"], "verifier_rows": ["x=0"]}, "expected a number of rows or NAME=N, got 'x=0'"),
    ({"verifiers": ["math_verify"]}, "--verifiers math_verify: expected gold answers"),
    ({"verifiers": ["geoalign.answers.naive:strict", "x.y=false", "x.y=false"]}, "got 'x.y' again"),
    ({"verifiers": ["reward=false"]}, "got 'reward' again"),
    ({"verifiers": ["extra=false"], "fields": ["verdict.extra=reward"]}, "expected another name"),
    ({"verifiers": ["no-such-command"]}, "--verifiers: expected math_verify"),
    ({"fields": ["verdict.x=rewards"]}, "verdict.x: expected a field 'rewards'.*did you mean 'reward'"),
])  # fmt: skip
def test_what_cannot_be_asked(tmp_path, run, asked, message):
    with pytest.raises(ConfigError, match=message):
        run(write_lines(tmp_path / "d.jsonl", plain()), curator="denoise", **asked)


@pytest.mark.parametrize("text", ["verdict.=x", "verdict.x=", "verdict=x"])
def test_a_column_of_verdicts_has_two_names(tmp_path, run, text):
    with pytest.raises(ConfigError, match=r"--field: expected ROLE=NAME with a role of .*verdict\.VERIFIER"):
        run(dump(tmp_path), fields=[text])


def test_a_verdict_that_is_a_text_is_one_error(tmp_path):
    rows = [{**row, "judge": "maybe"} for row in verdicts()]
    path = write_lines(tmp_path / "d.jsonl", rows)
    with pytest.raises(ValueError, match=r"d\.jsonl, line 1: judge: expected a number"):
        audit(path, fields={"verdict.mine": "judge"})
