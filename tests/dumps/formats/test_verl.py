from dumps import each, verl, verl_v1, write_lines
from written import read


def test_verdicts_and_answers(tmp_path):
    rows = [{**row, "geoalign_answer": str(number)} for number, row in enumerate(verl())]
    _, found = read(write_lines(tmp_path / "5.jsonl", rows))
    assert [row.correct for row in found[:4]] == [False, False, True, True]
    assert [row.final_answer for row in found] == [str(number) for number in range(len(rows))]
    assert found[5].answer == "1"


def test_without_uid_prompts_are_groups(tmp_path):
    rows = [{key: value for key, value in row.items() if key != "uid"} for row in verl()]
    _, found = read(write_lines(tmp_path / "5.jsonl", rows))
    assert [row.group_name for row in found] == [f"question {g}" for g, _, _ in each()]


def test_a_uid_with_session_and_index_tells_a_prompt_that_was_drawn_twice(tmp_path):
    rows = [{**row, "input": "question"} for row in verl_v1()]
    _, found = read(write_lines(tmp_path / "5.jsonl", rows))
    assert [row.group_name for row in found] == [f"u-{g}" for g, _, _ in each()]
    assert found[1].id == "u-0_1_0"
