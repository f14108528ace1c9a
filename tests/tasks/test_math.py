import pytest

from geoalign.config.tasks import MathConfig, MathSetConfig
from geoalign.errors import ConfigError, InputError
from geoalign.tasks import Task, make_task


def _task(train, **values):
    return make_task(MathConfig(train=train, **values), seed=0)


def test_rows_become_problems_in_order(write_jsonl):
    train = write_jsonl("a.jsonl", [{"question": "1+1?", "answer": "2"}, {"question": "2+2?", "answer": 4}])
    problems = _task(train, system_prompt="Use \\boxed{}.").train_problems()
    assert [problem.answer for problem in problems] == ["2", "4"]
    assert [problem.id for problem in problems] == ["line 1", "line 2"]
    assert problems[0].prompt == (
        {"role": "system", "content": "Use \\boxed{}."},
        {"role": "user", "content": "1+1?"},
    )


def test_the_default_system_prompt_asks_for_a_box_and_null_leaves_it_out(write_jsonl):
    train = write_jsonl("a.jsonl", [{"question": "1+1?", "answer": "2"}])
    assert "\\boxed{}" in _task(train).train_problems()[0].prompt[0]["content"]
    assert [message["role"] for message in _task(train, system_prompt=None).train_problems()[0].prompt] == ["user"]


def test_chat_messages_are_taken_as_they_are_and_keep_their_own_system_message(write_jsonl):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "1+1?"}]
    train = write_jsonl("a.jsonl", [{"prompt": messages, "answer": "2"}])
    assert _task(train, prompt_field="prompt").train_problems()[0].prompt == tuple(messages)


def test_dotted_fields_and_a_named_id(write_jsonl):
    row = {
        "prompt": [{"role": "user", "content": "1+1?"}],
        "reward_model": {"ground_truth": "2"},
        "meta": {"key": "x7"},
    }
    task = _task(
        write_jsonl("a.jsonl", [row]),
        prompt_field="prompt.0.content",
        answer_field="reward_model.ground_truth",
        id_field="meta.key",
    )
    (problem,) = task.train_problems()
    assert (problem.id, problem.prompt[-1]["content"], problem.answer) == ("x7", "1+1?", "2")


def test_an_id_twice_is_an_error(write_jsonl):
    rows = [{"question": "a", "answer": "1", "id": "p"}, {"question": "b", "answer": "2", "id": "p"}]
    with pytest.raises(InputError, match=r"a\.jsonl, line 2, field id: expected a name of its own, got 'p' again"):
        _task(write_jsonl("a.jsonl", rows), id_field="id").train_problems()


def test_answer_pattern_takes_the_last_match(write_jsonl):
    rows = [{"question": "q", "answer": "first\n#### 3\nno:\n#### 1,234 "}]
    task = _task(write_jsonl("a.jsonl", rows), answer_pattern=r"####\s*(.+)")
    assert task.train_problems()[0].answer == "1,234"


@pytest.mark.parametrize(
    ("value", "answer"),
    [(["2"], "2"), (["$69$", "$84$"], "$69$, $84$"), (12345678901234567890, "12345678901234567890"), (-1.0, "-1.0")],
)
def test_answers_are_kept_as_text(write_jsonl, value, answer):
    task = _task(write_jsonl("a.jsonl", [{"question": "q", "answer": value}]))
    assert task.train_problems()[0].answer == answer


BAD_ROWS = [
    {"question": "no answer"},
    {"question": "empty answer", "answer": "  "},
    {"question": "a truth value", "answer": True},
    {"question": "an empty list", "answer": []},
    {"question": "a hole in a list", "answer": ["1", None]},
    {"question": "  ", "answer": "1"},
    {"question": [], "answer": "1"},
    {"question": [{"role": "wizard", "content": "x"}], "answer": "1"},
    {"question": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}], "answer": "1"},
    {"question": {"a": 1}, "answer": "1"},
]


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_a_bad_row_is_skipped_and_counted_or_refused(write_jsonl, bad):
    train = write_jsonl("a.jsonl", [{"question": "q", "answer": "1"}, bad])
    task = _task(train)
    assert len(task.train_problems()) == 1
    (note,) = task.notes()
    assert "a.jsonl: 1 rows skipped (1 without a usable" in note
    assert "line 2, field" in note
    with pytest.raises(InputError, match=r"a\.jsonl, line 2, field (question|answer): expected .*, got"):
        _task(train, on_bad_row="error").train_problems()


def test_a_wrong_field_name_shows_the_fields_that_there_are(write_jsonl):
    train = write_jsonl("a.jsonl", [{"problem": "q", "solution": "1"}])
    with pytest.raises(InputError, match=r"field question: expected .*, got None; the row has problem, solution"):
        _task(train).train_problems()


def test_an_empty_file_is_an_error(write_jsonl):
    with pytest.raises(InputError, match="expected at least one usable row; got no row at all"):
        _task(write_jsonl("a.jsonl", [])).train_problems()


def test_limit_takes_the_first_usable_rows(write_jsonl):
    rows = [{"question": ""}, *({"question": f"q{i}", "answer": str(i)} for i in range(5))]
    task = _task(write_jsonl("a.jsonl", rows), limit=2)
    assert [problem.answer for problem in task.train_problems()] == ["0", "1"]


def test_evaluation_sets_inherit_the_fields_or_name_their_own(write_jsonl):
    train = write_jsonl("a.jsonl", [{"question": "q", "answer": "#### 1"}])
    other = write_jsonl("b.jsonl", [{"problem": "p", "result": "2"}])
    task = _task(
        train,
        answer_pattern=r"####\s*(.+)",
        evaluation={"same": train, "other": {"path": other, "prompt_field": "problem", "answer_field": "result"}},
    )
    sets = task.evaluation_problems()
    assert list(sets) == ["same", "other"]
    assert sets["same"][0].answer == "1"
    # Another field is not read with the training field's pattern.
    assert sets["other"][0].answer == "2"


def test_notes_count_repeated_prompts_and_evaluation_problems_trained_on(write_jsonl):
    train = write_jsonl("a.jsonl", [{"question": "How many?", "answer": "1"}, {"question": "How many?", "answer": "2"}])
    other = write_jsonl("b.jsonl", [{"question": "how  many ?", "answer": "1"}, {"question": "New", "answer": "1"}])
    notes = _task(train, evaluation={"test": other}).notes()
    assert notes[0].endswith("a.jsonl: 1 of 2 prompts stand there before")
    assert notes[1] == "evaluation set test: 1 of 2 are training problems too"


def test_demonstrations_come_from_their_field(write_jsonl):
    rows = [{"question": "q", "answer": "1", "solution": "So \\boxed{1}"}, {"question": "p", "answer": "2"}]
    train = write_jsonl("a.jsonl", rows)
    assert not _task(train).demonstrations()
    task = _task(train, demonstration_field="solution")
    (demonstration,) = task.demonstrations()
    assert demonstration.completion == "So \\boxed{1}"
    assert demonstration.prompt == task.train_problems()[0].prompt
    assert "1 without a usable demonstration" in task.notes()[0]


def test_own_files_need_a_byte_level_tokenizer(write_jsonl):
    assert _task(write_jsonl("a.jsonl", [{"question": "q", "answer": "1"}])).alphabet() is None


@pytest.mark.parametrize("pattern", ["####(", "no group", "(two)(groups)"])
def test_a_pattern_without_exactly_one_group_is_refused(pattern):
    with pytest.raises(ConfigError, match=r"answer_pattern.*expected a regular expression"):
        MathConfig(train="x.jsonl", answer_pattern=pattern)


def test_an_unknown_setting_is_refused():
    with pytest.raises(ConfigError, match="prompt_feild"):
        MathConfig(train="x.jsonl", prompt_feild="q")


def test_gsm8k(shared_data):
    train = str(shared_data / "gsm8k" / "train.jsonl")
    test = str(shared_data / "gsm8k" / "test.jsonl")
    task = _task(train, answer_pattern=r"####\s*(.+)", evaluation={"test": test})
    problems = task.train_problems()
    assert len(problems) == 7473
    assert len(task.evaluation_problems()["test"]) == 1319
    assert problems[0].answer == "72"
    # grep -cP '#### [-0-9]*,[0-9]' finds as many answers with thousands commas.
    assert sum("," in problem.answer for problem in problems) == 79
    assert not [line for line in task.notes() if "skipped" in line]


def test_dapo_math_and_its_overlap_with_the_evaluation_sets(shared_data):
    task = _task(
        str(shared_data / "dapo_math_17k" / "dapo_math_17k.parquet"),
        prompt_field="prompt",
        answer_field="reward_model.ground_truth",
        evaluation={
            "amc23": MathSetConfig(
                path=str(shared_data / "amc23" / "test.jsonl"), prompt_field="problem", answer_field="answer"
            )
        },
    )
    problems = task.train_problems()
    assert len(problems) == 17917
    assert problems[0].answer == "34"
    assert all(isinstance(problem.answer, str) and problem.answer for problem in problems)
    # Of 17,917 rows 17,290 have a prompt of their own: 627 stand there before.
    assert "627 of 17917 prompts stand there before" in task.notes()[0]
    assert "evaluation set amc23: 17 of 40 are training problems too" in task.notes()
    assert task.evaluation_problems()["amc23"][0].answer == "27.0"


def test_final_answers_are_boxed_ones_and_there_is_no_shortcut(write_jsonl):
    task = _task(write_jsonl("a.jsonl", [{"question": "1+1?", "answer": "2"}]))
    assert task.final_answer(r"So it is \boxed{2.0}.") == "2"
    with pytest.raises(ConfigError, match=r"reward\.shortcut: expected a task with a recognisable shortcut, got math"):
        task.takes_shortcut("anything")


def test_a_task_without_final_answers_says_so(write_jsonl):
    task = _task(write_jsonl("a.jsonl", [{"question": "1+1?", "answer": "2"}]))
    with pytest.raises(ConfigError, match="answers: expected a task whose responses have final answers, got math"):
        Task.final_answer(task, "anything")
