"""Which rollouts are a group: what the file says, else the problem, never the text of its prompt alone."""

import pytest
from written import PROBLEMS, SIZE, by_problem, dump_of, groups_of, rollouts

from geoalign.dumps.field_names import GOLD_ANSWERS, MEDIA, PROBLEM_IDS
from geoalign.errors import InputError

ONE_GROUP = [0] * PROBLEMS * SIZE


@pytest.mark.parametrize("name", ["group", "group_id", "prompt_id", "prompt_uid"])
def test_a_field_of_the_file_names_the_group(tmp_path, name):
    # Also where text and gold answer are the same in all rows.
    dump = dump_of(tmp_path, rollouts(answer="7", **{name: lambda problem, _: problem}))
    assert groups_of(dump) == by_problem()
    assert dump.own_groups
    assert dump.layout.fields["group"] == name


@pytest.mark.parametrize("name", [
    *(name for name in (*GOLD_ANSWERS, *PROBLEM_IDS, *MEDIA) if "." not in name), "answer", "solution", "data_source",
    "environment", "id", "uid", "sample_id", "index",
])  # fmt: skip
def test_equal_texts_of_other_problems_are_other_groups(tmp_path, name):
    dump = dump_of(tmp_path, rollouts(**{name: lambda problem, _: f"p{problem}"}))
    assert groups_of(dump) == by_problem()
    assert not dump.own_groups
    assert dump.layout.fields["group"] == f"prompt+{name}"
    # In any order of rows.
    rows = rollouts(**{name: lambda problem, _: f"p{problem}"})
    mixed = [rows[problem * SIZE + number] for number in range(SIZE) for problem in range(PROBLEMS)]
    assert groups_of(dump_of(tmp_path, mixed)) == list(range(PROBLEMS)) * SIZE


@pytest.mark.parametrize("values", [
    {"reward_model": lambda problem, _: {"style": "rule", "ground_truth": str(problem)}},
    {"extra_info": lambda problem, _: {"index": problem, "split": "test"}},
    {"images": lambda problem, _: [{"path": f"{problem}.png"}]},
    # Inside an object of notes.
    {"info": lambda problem, _: {"env_id": f"env{problem}", "docker": "base"}},
    {"metadata": lambda problem, _: {"problem_id": problem}},
    {"extra_info": lambda problem, _: {"image": f"{problem}.png", "split": "test"}},
    # Twice the same answer, in another environment or with another image.
    {"answer": lambda problem, _: str(problem % 3), "env_id": lambda problem, _: f"env{problem // 3}"},
    {"answer": lambda problem, _: "7", "image": lambda problem, _: f"{problem}.png"},
    # The same ids in several data sets.
    {"id": lambda problem, _: problem % 3, "dataset": lambda problem, _: f"set{problem // 3}"},
    {"prompt": lambda problem, _: [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": f"{problem}.png"}}, {"type": "text", "text": "What is it?"}]}]},
])  # fmt: skip
def test_what_else_tells_problems_of_one_text_apart(tmp_path, values):
    assert groups_of(dump_of(tmp_path, rollouts(**values))) == by_problem()


def test_a_message_with_an_image_is_its_text_and_the_word_image(tmp_path):
    content = [{"type": "image", "text": None}, {"type": "text", "text": "What is it?"}]
    dump = dump_of(tmp_path, rollouts(prompt=[{"role": "user", "content": content}]))
    assert dump.frame["prompt"][0] == "<image>What is it?"


def test_texts_that_differ_need_no_more(tmp_path):
    rows = rollouts(prompt=lambda problem, _: f"question {problem}", answer=lambda problem, _: str(problem))
    dump = dump_of(tmp_path, rows)
    assert groups_of(dump) == by_problem()
    assert dump.layout.fields["group"] == "prompt"


def test_verl_groups_by_its_uid_else_by_input_and_gold_answer(tmp_path):
    def verl(**fields):
        rows = rollouts(step=1, **fields)
        for row in rows:
            row["input"] = row.pop("prompt")
            row["output"] = row.pop("response")
            row["score"] = row.pop("reward")
        return rows

    gold = {"gts": lambda problem, _: str(problem)}
    assert groups_of(dump_of(tmp_path, verl(**gold))) == by_problem()
    one_for_all = {"gts": "7", "uid": lambda problem, _: f"u{problem}"}
    assert groups_of(dump_of(tmp_path, verl(**one_for_all))) == by_problem()
    of_rollouts = {**gold, "uid": lambda problem, number: f"u{problem}-{number}"}
    dump = dump_of(tmp_path, verl(**of_rollouts))
    assert groups_of(dump) == by_problem()
    assert dump.layout.fields["group"] == "input+gts"
    assert dump.frame["id"].tolist()[:2] == ["u0-0", "u0-1"]


def test_equal_problems_in_different_steps_stay_apart(tmp_path):
    rows = rollouts(answer=lambda problem, _: str(problem))
    first = [{**row, "step": 1} for row in rows]
    second = [{**row, "step": 2} for row in rows]
    dump = dump_of(tmp_path, [*first, *second])
    assert len(dump.frame.drop_duplicates(["step", "group"])) == 2 * PROBLEMS
    # They are one problem still.
    assert dump.frame["problem"].nunique() == PROBLEMS


def test_the_problem_is_named_alike_whatever_made_the_groups(tmp_path):
    gold = {"answer": lambda problem, _: str(problem)}
    first = dump_of(tmp_path, rollouts(**gold))
    second = dump_of(tmp_path, rollouts(group=lambda problem, _: f"uuid {problem}", **gold))
    assert first.frame["problem"].tolist() == second.frame["problem"].tolist()


def own_answer(row):
    """What stands in the box of its response."""
    return row["response"].partition("{")[2].partition("}")[0]


def with_own_answer(row, **changes):
    return {**row, **changes, "answer": own_answer(row)}


def test_an_answer_that_is_the_responses_own_splits_no_group(tmp_path):
    rows = rollouts(size=8, prompt=lambda problem, _: f"question {problem}")
    for number, row in enumerate(rows):
        row["response"] = f"\\boxed{{{number**2 % 5}}}"
    dump = dump_of(tmp_path, [with_own_answer(row) for row in rows])
    assert groups_of(dump) == by_problem(size=8)
    assert "`answer` differs within prompts" in dump.remark
    # In words without a box, too.
    plain = [with_own_answer(row, response=f"So it is {own_answer(row)}.") for row in rows]
    assert groups_of(dump_of(tmp_path, plain)) == by_problem(size=8)
    # Beside a gold answer it is another field.
    both = [with_own_answer(row, ground_truth=str(number // 8)) for number, row in enumerate(rows)]
    dump = dump_of(tmp_path, both)
    assert dump.layout.fields["answer"] == "ground_truth"
    assert groups_of(dump) == by_problem(size=8)
    # Unless the user says that it is the gold answer.
    asked = dump_of(tmp_path, [with_own_answer(row) for row in rows], fields={"answer": "answer"})
    assert asked.layout.fields["group"] == "prompt+answer"


def test_a_solution_that_the_responses_wrote_splits_no_group(tmp_path):
    def program(problem, number):
        return f"def solve(x):\n    return x * {number % 3} + {problem}  # " + "long " * 60

    rows = rollouts(size=8, prompt=lambda problem, _: f"question {problem}", solution=program)
    for number, row in enumerate(rows):
        row["response"] = f"```python\n{row['solution']}\n```\nThis is {number}."
    assert groups_of(dump_of(tmp_path, rows)) == by_problem(size=8)


def test_what_every_row_has_another_of_splits_no_group(tmp_path):
    rows = rollouts(prompt=lambda problem, _: f"question {problem}", env_id=lambda _, number: number)
    assert groups_of(dump_of(tmp_path, rows)) == by_problem()
    rows = rollouts(prompt=lambda problem, _: f"question {problem}", task_id=lambda problem, number: [problem, number])
    assert groups_of(dump_of(tmp_path, rows)) == by_problem()


def test_groups_of_several_fields_as_the_user_says(tmp_path):
    rows = rollouts(a=lambda problem, _: problem // 2, b=lambda problem, _: problem % 2)
    assert groups_of(dump_of(tmp_path, rows, fields={"group": "a+b"})) == by_problem()


# --- what ids name --------------------------------------------------------------------------------------------------

IDS = ("id", "uid", "sample_id", "example_id", "problem_id", "question_id", "task_id")


@pytest.mark.parametrize("name", IDS)
def test_ids_of_problems_are_groups_and_lose_no_row(tmp_path, name):
    rows = rollouts(**{name: lambda problem, _: f"p{problem}"})
    dump = dump_of(tmp_path, rows)
    assert groups_of(dump) == by_problem()
    assert dump.skipped == ()
    assert dump.frame["id"].is_unique
    # Uneven, at the end of a dump that was cut off.
    cut = dump_of(tmp_path, rows[:-2])
    assert groups_of(cut) == by_problem()[:-2]


@pytest.mark.parametrize("name", IDS)
def test_ids_of_rollouts_split_no_prompt(tmp_path, name):
    rows = rollouts(prompt=lambda problem, _: f"question {problem}", **{name: lambda *place: f"{place}"})
    dump = dump_of(tmp_path, rows)
    assert groups_of(dump) == by_problem()
    assert dump.layout.fields["group"] == "prompt"


def test_ids_that_name_the_problem_beside_a_group_of_the_file(tmp_path):
    rows = rollouts(id=lambda problem, _: problem, group=lambda problem, _: f"g{problem}")
    dump = dump_of(tmp_path, rows)
    assert dump.layout.fields["group"] == "group"
    assert dump.frame["id"].is_unique


def test_numbers_of_rollouts_within_their_problem_are_no_ids(tmp_path):
    rows = rollouts(prompt=lambda problem, _: f"question {problem}", id=lambda _, number: number)
    dump = dump_of(tmp_path, rows)
    assert groups_of(dump) == by_problem()
    assert dump.frame["id"].is_unique


def test_an_id_of_the_problem_where_prompts_go_on_in_their_own_way(tmp_path):
    rows = rollouts(prompt=lambda *place: f"dialogue {place}", problem_id=lambda problem, _: problem,
                    answer=lambda problem, _: str(problem))  # fmt: skip
    assert groups_of(dump_of(tmp_path, rows)) == by_problem()


def test_without_prompts_ids_of_problems_are_groups(tmp_path):
    rows = [{name: value for name, value in row.items() if name != "prompt"}
            for row in rollouts(task_id=lambda problem, _: problem)]  # fmt: skip
    assert groups_of(dump_of(tmp_path, rows)) == by_problem()
    rollout_ids = [{**row, "id": number} for number, row in enumerate(rows)]
    for row in rollout_ids:
        del row["task_id"]
    with pytest.raises(InputError, match="nothing tells which rollouts are of one problem"):
        dump_of(tmp_path, rollout_ids)


def unique_ids():
    return rollouts(
        prompt=lambda problem, _: f"question {problem}",
        id=lambda problem, number: f"u{problem}-{number}",
    )


@pytest.mark.parametrize(
    ("more", "line"),
    [
        (unique_ids()[:2], 16),
        (unique_ids(), 16),
        ([{**unique_ids()[4], "response": "again"}], 16),
    ],
    ids=["some rows again", "all rows again", "another response under an id"],
)
def test_duplicates_are_refused_by_id_and_line_and_can_be_skipped(tmp_path, more, line):
    rows = [*unique_ids(), *more]
    with pytest.raises(InputError, match=rf"line {line}: id: duplicate id 'u\d-\d' \(first on line \d\)") as error:
        dump_of(tmp_path, rows)
    assert "--field group=id" in str(error.value)
    dump = dump_of(tmp_path, rows, skip_bad=True)
    assert len(dump.frame) + len(dump.skipped) == len(rows)
    assert groups_of(dump) == by_problem()
    # The remedy that the message names: all rows are there.
    assert len(dump_of(tmp_path, rows, fields={"group": "id"}).frame) == len(rows)


def test_rows_skipped_as_duplicates_keep_the_places_of_the_others(tmp_path):
    rows = unique_ids()
    dump = dump_of(tmp_path, [rows[0], *rows], skip_bad=True)
    assert dump.frame["position"].tolist() == [0, *range(2, len(rows) + 1)]
    assert [row.line for row in dump.skipped] == [2]
