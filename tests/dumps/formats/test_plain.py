from dumps import write_dump
from written import read


def test_verdicts_and_answers_in_lists_of_responses(tmp_path):
    _, found = read(write_dump(tmp_path, "responses"))
    assert found[7].correct is True
    assert found[7].answer == "1"
    assert found[7].final_answer == "3"
    assert found[7].id == "1/3"


def test_ids_of_rollouts(tmp_path):
    _, found = read(write_dump(tmp_path, "plain"))
    assert found[7].id == "1-3"
