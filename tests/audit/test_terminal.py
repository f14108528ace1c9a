"""What the command prints: the finding first, then rates, five rows, what to do next, files, details."""

import json
import re

import numpy as np
import pandas
import pytest
from dumps import plain, verdicts, write_dump, write_lines
from typer.testing import CliRunner

from geoalign.audit.results import read_report
from geoalign.audit.terminal import show_report
from geoalign.audit.words.finding import finding, unread_answers
from geoalign.audit.words.other_findings import filtered
from geoalign.audit.words.reasons import flag_reasons
from geoalign.cli import app
from geoalign.console.terminal import Console
from geoalign.dumps.labels import read_labels

pytestmark = pytest.mark.usefixtures("no_page")


def without_boxes():
    return [{**row, "response": row["response"].replace("boxed", "text")} for row in verdicts()]


def scores():
    return [{**row, "reward": number / 7} for number, row in enumerate(verdicts())]


def clean():
    """Every "a" is right and rewarded, nothing else is."""
    return [{**row, "reward": float("{a}" in row["response"])} for row in verdicts()]


def uneven():
    return [row for row in verdicts() if row["id"] not in ("1-0", "1-1", "4-5")]


CASES = {"verdicts": verdicts, "scores": scores, "clean": clean, "uneven": uneven, "without boxes": without_boxes,
         "of verl's kind": plain}  # fmt: skip
SECOND = ["--second-verifier", "math_verify", "--budget", "1"]


@pytest.fixture
def lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def printed(rows, *options, **more):
        write_lines(tmp_path / "d.jsonl", rows)
        found = CliRunner().invoke(app, ["audit", "d.jsonl", *options], **more)
        assert found.exit_code == 0, found.output
        return found.stdout.splitlines()

    return printed


def result(lines):
    """What is printed of the result: all from the first empty line on, which follows what was read."""
    return lines[lines.index("") + 1 :]


@pytest.mark.parametrize("name", CASES)
def test_the_finding_comes_first(lines, name):
    said = result(lines(CASES[name]()))
    summary = read_report("runs/audit").summary
    flagged = summary["counts"]["flagged"]
    assert said[0].startswith(f"{flagged} of {summary['counts']['scored']} rewards" if flagged else "No reward")


@pytest.mark.parametrize(("name", "options"), [
    *((name, []) for name in CASES), ("verdicts", ["--redact"]), ("clean", SECOND), ("verdicts", SECOND),
])  # fmt: skip
def test_no_line_tells_of_nothing(lines, name, options):
    said = lines(CASES[name](), *options)
    assert not [line for line in said if re.search(r"(^|[ (])0 [a-z]", line) and "0 or 1" not in line]


@pytest.mark.parametrize("width", [60, 80])
def test_at_most_five_rows_of_at_most_five_columns_with_whole_names(lines, capsys, width):
    lines(verdicts())
    audit = read_report("runs/audit")
    show_report(Console(width=width, force_terminal=False), audit)
    said = capsys.readouterr().out.splitlines()
    head = next(line for line in said if line.strip().startswith("where "))
    columns = re.split(r" {2,}", head.strip())
    assert len(columns) <= 5
    assert {"where", "answer", "reward", "why it looks wrong"} <= set(columns)
    rows = [line for line in said if re.match(r"  line \d+ ", line)]
    assert len(rows) == 5
    # Each of another prompt.
    assert len({(int(line.split()[1]) - 1) // 8 for line in rows}) == 5


def test_every_flag_has_its_reason(lines):
    lines(verdicts())
    rows = read_report("runs/audit").rows
    assert rows["why"].notna().equals(rows["anomalous"])
    # Row 3 of a prompt is right and refused, row 5 wrong and rewarded.
    assert {index % 8: reason for index, reason in rows["why"].dropna().items()} == {
        3: "the same answer was rewarded 3 times",
        5: "the same answer was refused once",
    }


def one_refused_of_identical_responses():
    """To each prompt five responses in the same words, the fourth of them refused, and three others."""
    return [
        {
            **row,
            "response": "the same" if number % 8 < 5 else f"way {number}",
            "reward": float(number % 8 in (0, 1, 2, 4)),
        }
        for number, row in enumerate(verdicts())
    ]


def test_an_identical_response_with_the_other_verdict_is_named_as_the_reason(lines):
    lines(one_refused_of_identical_responses())
    reasons = read_report("runs/audit").rows["why"]
    assert reasons[3] == "4 identical responses (as line 1) were rewarded"
    assert reasons[11] == "4 identical responses (as line 9) were rewarded"


def test_a_single_identical_response_is_named_by_its_line(lines):
    rows = one_refused_of_identical_responses()
    lines(rows)
    audit = read_report("runs/audit")
    # As if the rewarded one were the odd one out.
    rows = audit.rows.assign(anomalous=audit.rows.index == 0)
    reasons = flag_reasons(rows, audit.summary, compares_states=False)
    assert reasons == {0: "an identical response (line 4) was refused"}


def test_responses_that_the_dump_does_not_have_are_not_called_identical(lines):
    rows = [{**row, "response": "", "said": row["response"][-2]} for row in verdicts()]
    lines(rows, "--field", "final_answer=said")
    audit = read_report("runs/audit")
    # No answer contradicts this one.
    rows = audit.rows.assign(anomalous=audit.rows["anomalous"] | (audit.rows["final_answer"] == "c"))
    assert "identical" not in " ".join(flag_reasons(rows, audit.summary, compares_states=False).values())


def test_without_texts_the_reason_counts_the_other_rewards_of_the_prompt(lines):
    lines(one_refused_of_identical_responses(), "--redact")
    reasons = read_report("runs/audit").rows["why"]
    assert reasons[3] == "4 of the 7 other responses to its prompt were rewarded"


@pytest.mark.parametrize(("rows", "options", "following"), [
    (verdicts, [], "geoalign audit d.jsonl --second-verifier math_verify --overwrite"),
    (without_boxes, ["--overwrite"], "geoalign audit d.jsonl --overwrite --field final_answer=NAME"),
    (plain, [], "geoalign audit d.jsonl --model ID_OR_PATH --overwrite"),
])  # fmt: skip
def test_the_command_that_would_tell_more(lines, monkeypatch, rows, options, following):
    monkeypatch.setattr("sys.argv", ["geoalign", "audit", "d.jsonl", *options])
    assert f"    {following}" in lines(rows(), *options)


def own_answers():
    """As verl's reward functions write them: `answer` is what the response said, and the response has no box."""
    return [
        {**row, "answer": row["response"][-2], "response": row["response"].replace("boxed", "text")}
        for row in verdicts()
    ]


def test_a_field_of_the_responses_own_answers_is_offered_by_its_name_and_works(lines, monkeypatch):
    monkeypatch.setattr("sys.argv", ["geoalign", "audit", "d.jsonl"])
    offered = next(line for line in lines(own_answers()) if "final_answer=" in line and line.startswith("    geoalign"))
    options = offered.split()[3:]
    assert "final_answer=answer" in options
    lines(own_answers(), *options)
    assert read_report("runs/audit").summary["counts"]["answered"] == 64


@pytest.mark.parametrize("mine", [[], ["--output", "mine"], ["--output=mine"]])
def test_the_command_for_labels_writes_into_a_folder_of_its_own(lines, monkeypatch, mine):
    monkeypatch.setattr("sys.argv", ["geoalign", "audit", "d.jsonl", *mine])
    output = "mine-labelled" if mine else "runs/audit-labelled"
    expected = f"    geoalign audit d.jsonl --labels labels.csv --output {output}"
    assert expected in lines(verdicts(), *mine)


def test_commands_replace_what_this_call_exported(lines, monkeypatch):
    monkeypatch.setattr("sys.argv", ["geoalign", "audit", "d.jsonl", "--export", "clean.jsonl"])
    commands = [line for line in lines(verdicts(), "--export", "clean.jsonl") if line.startswith("    geoalign audit")]
    assert len(commands) == 3
    assert all("--overwrite" in command for command in commands)


def test_after_labels_the_next_step_is_printed_and_more_labels_go_into_a_second_file(lines, monkeypatch, tmp_path):
    lines(verdicts())
    flagged = pandas.read_csv("runs/audit/flagged.csv", dtype=str)
    flagged.assign(label="1").head(1).to_csv(tmp_path / "labels.csv", index=False)
    options = ["--labels", "labels.csv", "--output", "mine"]
    monkeypatch.setattr("sys.argv", ["geoalign", "audit", "d.jsonl", *options])
    said = lines(verdicts(), *options)
    again = "    geoalign audit d.jsonl --labels labels.csv"
    assert f"{again} --output mine --second-verifier math_verify --overwrite" in said
    assert f"{again} --labels labels-2.csv --output mine-labelled" in said


def test_the_next_command_leaves_labelled_checks_where_they_are(lines, monkeypatch, tmp_path):
    lines(verdicts(), "--draw-checks", "4")
    drawn = pandas.read_csv("runs/audit/checks.csv", dtype=str)
    drawn.assign(label="right").to_csv(tmp_path / "c.csv", index=False)
    options = ["--draw-checks", "8", "--checks", "c.csv", "--output", "mine"]
    monkeypatch.setattr("sys.argv", ["geoalign", "audit", "d.jsonl", *options])
    offered = next(line.split() for line in lines(verdicts(), *options) if "--second-verifier" in line)
    lines(verdicts(), *offered[3:])


def test_of_scores_the_table_for_labels_is_flagged_csv(lines, monkeypatch):
    """The page has no buttons for them."""
    monkeypatch.setattr("sys.argv", ["geoalign", "audit", "d.jsonl"])
    lines(verdicts())
    audit = read_report("runs/audit")
    audit.rows["reward"] += audit.rows.index / 100
    console = Console(width=200, record=True, quiet=False)
    with console.capture() as printed:
        show_report(console, audit)
    path = re.search(r"--labels (\S+)", printed.get())[1]
    labels = read_labels(audit.folder / path.rsplit("/", 1)[-1])
    assert len(labels) == audit.summary["counts"]["flagged"]


def test_math_verify_is_offered_where_gold_answers_are_maths_and_not_where_they_are_prose(lines):
    prose = [{**row, "answer": "The author blames the weather."} for row in verdicts()]
    assert "math_verify" not in " ".join(lines(prose))
    # Of the prompts, eight rows each, every second one has a gold answer that is maths.
    half = [{**row, "answer": "12" if number % 16 < 8 else "Paris"} for number, row in enumerate(verdicts())]
    assert "--second-verifier math_verify" in " ".join(lines(half, "--overwrite"))


def test_a_curator_that_reads_no_trusted_rewards_is_offered_no_labels(lines):
    assert "--labels" not in " ".join(lines(verdicts(), "--curator", "pair_count"))


def test_a_curator_that_judges_nothing_is_named_with_the_one_that_does(lines):
    said = " ".join(" ".join(lines(verdicts(), "--curator", "pods")).split())
    assert "The curator `pods` gave no reward a score" in said
    assert "If you name no curator, `denoise` judges the rewards." in said


def test_a_file_without_recognised_answers_says_where_they_are_read_from(lines):
    said = " ".join(" ".join(lines(without_boxes())).split())
    assert r"read from \boxed{...} in a response, or from a field: --field final_answer=NAME" in said
    assert "`answer` is read as the gold answer" in said


def identical_without_answers():
    """Four responses to each prompt in the same words, of which the verifier refused one, and no answer is read."""
    return [{**row, "response": f"#### {row['response'][-2]}"} for row in verdicts()]


def test_where_no_answer_is_read_the_finding_says_so_and_rests_on_identical_responses(lines):
    said = result(lines(identical_without_answers()))
    summary = read_report("runs/audit").summary
    assert summary["counts"]["flagged"]
    assert "equal answers" not in finding(summary).reason
    told = unread_answers(summary)
    assert "--field final_answer=NAME" in told
    # Before anything else is told.
    finding_block = " ".join(" ".join(said[: said.index("")]).split())
    assert finding_block.endswith(told)
    assert "answers and identical" not in summary["hidden"]["note"]


def few_answers(rows):
    """The first two responses to each prompt alone have a box."""
    found = []
    for number, row in enumerate(rows):
        answer = row["response"][-2]
        found.append(row if number % 8 < 2 else {**row, "response": f"#### {answer}"})
    return found


def test_where_most_answers_are_not_read_the_numbers_are_told(lines):
    lines(few_answers(verdicts()))
    assert "16 of 64" in unread_answers(read_report("runs/audit").summary)
    lines(verdicts(), "--overwrite")
    assert unread_answers(read_report("runs/audit").summary) == ""


def test_a_curator_that_flags_nothing_does_not_say_that_no_reward_looks_wrong(lines):
    said = result(lines(verdicts(), "--curator", "answer_mean"))
    summary = read_report("runs/audit").summary
    assert summary["verifier"]["errors_at_least"]
    assert summary["counts"]["changed"] == 6 * 8
    assert "answer_mean" in said[0]
    assert f"change {summary['counts']['changed']} rewards" in finding(summary).reason


def test_proved_errors_are_not_contradicted_by_the_finding(lines):
    lines(verdicts())
    summary = {**read_report("runs/audit").summary}
    summary["counts"] = {**summary["counts"], "flagged": 0}
    assert finding(summary).level == "none"
    assert "at least 16 wrong rewards" in finding(summary).reason


def rewarded_alike(reward):
    return [{**row, "reward": reward} for row in verdicts()]


@pytest.mark.parametrize("reward", [0.0, 1.0, 0.37])
def test_where_no_rewards_differ_hidden_states_are_not_advised(lines, reward):
    lines(rewarded_alike(reward))
    audit = read_report("runs/audit")
    assert finding(audit.summary).level == "unjudged"
    assert "--hidden" not in finding(audit.summary).reason
    # Rewards of 0 and 1 are verdicts, of which checked rows tell how many are wrong.
    assert ("--draw-checks" in audit.words.verifier.next_command) == (reward != 0.37)
    assert (audit.summary["verifier"].get("errors_at_least") is not None) == (reward == 1)


def test_checked_rows_tell_of_rewards_that_are_all_alike(lines):
    lines(rewarded_alike(1.0), "--draw-checks", "64", "--check-with", "gold")
    checks = read_report("runs/audit").summary["verifier"]["checks"]
    # Of the 64 rows 32 answer "a", which is right.
    assert (checks["false_positive_rate"]["errors"], checks["false_positive_rate"]["checked"]) == (32, 32)
    assert (checks["false_negative_rate"]["errors"], checks["false_negative_rate"]["checked"]) == (0, 32)


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_without_hidden_states_none_are_named_as_evidence(lines, reward):
    """A second verifier contradicts rewards that are all alike."""
    lines(rewarded_alike(reward), "--second-verifier", "math_verify", "--budget", "16")
    audit = read_report("runs/audit")
    assert len(audit.flagged)
    assert "hidden" not in f"{finding(audit.summary).reason} {' '.join(audit.flagged['why'])}"


def test_hidden_states_that_predict_nothing_are_not_named_as_evidence(lines, tmp_path):
    states = np.random.default_rng(0).normal(size=(64, 4))
    np.save(tmp_path / "h.npy", states.astype(np.float32))
    lines(verdicts(), "--hidden", "h.npy")
    audit = read_report("runs/audit")
    [step] = audit.summary["steps"]
    assert step["metrics"]["geoalign/states_used"] == 0
    assert "idden state" not in f"{finding(audit.summary).reason} {' '.join(audit.flagged['why'])}"
    assert any("hidden states did not predict" in line for line in audit.words.compared)
    step["metrics"]["geoalign/states_used"] = 1
    assert "Hidden states" in finding(audit.summary).reason


@pytest.mark.parametrize(("options", "changed", "advised"), [
    ([], 0, True),
    (["--set", "curator.unidentified=modelled"], 64, False),
    (["--second-verifier", "math_verify", "--budget", "100%"], 16, False),
])  # fmt: skip
def test_what_became_of_the_rewards_is_said_of_the_filtered_file(lines, options, changed, advised):
    said = " ".join(" ".join(lines(verdicts(), "--filtered", *options)).split())
    summary = read_report("runs/audit").summary
    assert summary["counts"]["changed"] == changed
    told = filtered(summary)
    assert told in said
    assert "holds 64 rollouts" in told
    assert (f"{changed} with" in told) == bool(changed)
    assert ("--second-verifier" in told) == advised


def test_nothing_is_said_of_a_filtered_file_that_was_not_asked_for(lines):
    lines(verdicts())
    assert filtered(read_report("runs/audit").summary) == ""


def test_groups_of_one_are_given_as_the_reason_with_what_they_were_made_by(lines):
    # The fourth rollout of each prompt, rewarded on the first four prompts.
    one_each = [row for row in verdicts() if row["id"].endswith("-3")]
    for row in one_each:
        row["reward"] = float(row["id"] < "4")
    said = " ".join(" ".join(lines(one_each)).split())
    assert "Every group holds one rollout, for no two have the same `prompt`" in said
    in_own_groups = [{**row, "group": row["id"]} for row in one_each]
    own = " ".join(" ".join(lines(in_own_groups, "--overwrite")).split())
    assert "no two have the same `group`" in own
    assert "Every group holds" not in " ".join(lines(verdicts(), "--overwrite"))


def test_an_answer_that_is_no_gold_answer_is_said(lines):
    rows = [{**row, "answer": row["response"][-2]} for row in verdicts()]
    said = " ".join(" ".join(lines(rows)).split())
    assert "`answer` differs within prompts and is what refused responses answered, so it splits no group" in said


@pytest.mark.parametrize("written", [json.dumps, lambda rows: pandas.DataFrame(rows).to_csv(index=False)])
def test_an_array_and_csv_on_standard_input(tmp_path, monkeypatch, written):
    monkeypatch.chdir(tmp_path)
    said = CliRunner().invoke(app, ["audit", "-", "--json"], input=written(verdicts()).encode())
    assert json.loads(said.stdout)["counts"]["groups"] == 8


def test_csv_files_beside_dumps_are_no_dumps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_dump(tmp_path / "in", "plain")
    (tmp_path / "in" / "flagged.csv").write_text("step,line,sample,label\n1,1,0,1\n")
    said = json.loads(CliRunner().invoke(app, ["audit", str(tmp_path / "in"), "--json"]).stdout)
    assert [entry["format"] for entry in said["inputs"]] == ["plain"]


@pytest.mark.parametrize("name", ["verl", "plain", "trl", "slime", "trackio"])
def test_standard_input_is_a_file(tmp_path, lines, name):
    data = write_dump(tmp_path / "in", name).read_bytes()
    said = CliRunner().invoke(app, ["audit", "-", "--json"], input=data)
    [found] = json.loads(said.stdout)["inputs"]
    assert (found["format"], found["file"].split(".")[0]) == (name, "stdin")  # no temporary path
