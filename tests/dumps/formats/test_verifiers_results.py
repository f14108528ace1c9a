from dumps import GROUPS, changed, verifiers_results, write_lines
from written import read


def test_examples_are_groups_also_where_their_prompts_are_alike(tmp_path):
    rows = [{**row, "prompt": [{"role": "user", "content": "Go on."}]} for row in verifiers_results()]
    layout, found = read(write_lines(tmp_path / "results.jsonl", rows))
    assert layout.format.name == "verifiers_results"
    assert [row.group_name for row in found] == [str(row["example_id"]) for row in rows]
    assert (found[7].answer, found[7].tokens, found[7].truncated) == ("1", 8, True)


def test_the_assistants_turns_are_the_response(tmp_path):
    turns = [
        {"role": "assistant", "content": None, "tool_calls": ['{"name": "add"}']},
        {"role": "tool", "content": "2"},
        {"role": "assistant", "content": "\\boxed{2}"},
    ]
    _, found = read(write_lines(tmp_path / "results.jsonl", changed(verifiers_results(), 0, completion=turns)))
    assert found[0].response.strip() == "\\boxed{2}"


def test_older_files_number_rows_by_id_and_prompts_are_groups(tmp_path):
    """Their `id` numbers the rows of a prompt's place: 0, 0, 0, 1, while the prompts take turns."""
    by_turns = sorted(verifiers_results(), key=lambda row: row["token_usage"]["output_tokens"])
    rows = [{**row, "id": place // 3} for place, row in enumerate(by_turns)]
    for row in rows:
        del row["example_id"]
    layout, found = read(write_lines(tmp_path / "results.jsonl", rows))
    assert layout.format.name == "plain"
    assert [row.prompt for row in found[:3]] == ["question 0", "question 1", "question 2"]
    assert len({row.group for row in found}) == len({row.prompt for row in found}) == GROUPS
