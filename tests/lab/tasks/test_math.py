import pytest

from geoalign.errors import ConfigError, InputError
from geoalign.lab.config.tasks import MathConfig, MathSetConfig
from geoalign.lab.tasks import make_task


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
    {"question": "a truth value", "answer": True},
    {"question": "  ", "answer": "1"},
    {"question": [{"role": "wizard", "content": "x"}], "answer": "1"},
    {"question": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}], "answer": "1"},
]


@pytest.mark.parametrize("bad", BAD_ROWS)
def test_a_bad_row_is_skipped_and_counted_or_refused(write_jsonl, bad):
    train = write_jsonl("a.jsonl", [{"question": "q", "answer": "1"}, bad])
    task = _task(train)
    assert len(task.train_problems()) == 1
    (_, note) = task.notes()
    assert "a.jsonl: 1 rows skipped (1 without a usable" in note
    assert "line 2, field" in note
    with pytest.raises(InputError, match=r"a\.jsonl, line 2, field (question|answer): expected .*, got"):
        _task(train, on_bad_row="error").train_problems()


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
        evaluation={"same": train, "other": MathSetConfig(path=other, prompt_field="problem", answer_field="result")},
    )
    sets = task.evaluation_problems()
    assert list(sets) == ["same", "other"]
    assert sets["same"][0].answer == "1"
    # Another field is not read with the training field's pattern.
    assert sets["other"][0].answer == "2"


TWICE = [
    {"question": "How many?", "answer": "1", "worked": "One."},
    {"question": "How many?", "answer": "1.0", "worked": "One, again."},
    {"question": "Which?", "answer": "3", "worked": "Three."},
    {"question": "Which?", "answer": "4", "worked": "Four."},
    {"question": "What is x?", "answer": "5", "worked": "Five."},
    {"question": "What is y?", "answer": "6", "worked": "Six."},
]
TESTED = [{"question": "what  is x ?", "answer": "5"}, {"question": "New", "answer": "1"}]


def test_duplicates_conflicts_and_overlap_are_reported(write_jsonl):
    train, test = write_jsonl("a.jsonl", TWICE), write_jsonl("b.jsonl", TESTED)
    task = _task(train, evaluation={"test": test})
    notes = [note for note in task.notes() if "read as" not in note]
    assert notes == [
        f"{train}: 2 prompts stand there more than once (2 of 6 rows stand before), 1 of them with conflicting answers "
        "(2 rows)",
        "evaluation set test: 1 of 2 are training problems too",
    ]
    assert len(task.train_problems()) == 6


def test_duplicates_conflicts_and_overlap_are_dropped_with_their_demonstrations(write_jsonl):
    train, test = write_jsonl("a.jsonl", TWICE), write_jsonl("b.jsonl", TESTED)
    task = _task(train, evaluation={"test": test}, decontaminate="drop", demonstration_field="worked")
    assert [problem.answer for problem in task.train_problems()] == ["1", "6"]
    assert [demonstration.completion for demonstration in task.demonstrations()] == ["One.", "Six."]
    notes = [note for note in task.notes() if "read as" not in note]
    assert notes == [
        f"{train}: 4 of 6 problems dropped: 1 stand before, 2 conflict with another, 1 stand in an evaluation set; "
        "2 left"
    ]
    assert len(task.evaluation_problems()["test"]) == 2
    # The limit counts what is left.
    limited = _task(train, evaluation={"test": test}, decontaminate="drop", limit=2)
    assert [problem.answer for problem in limited.train_problems()] == ["1", "6"]


MIXED = [
    {"data_source": "AIME-2024-30", "question": "p", "ref_answer": "1"},
    {"data_source": "other", "question": "q", "ref_answer": "2"},
]


def test_one_set_of_several_in_a_file(write_jsonl):
    train = write_jsonl("a.jsonl", [{"question": "x", "answer": "1"}])
    mixed = write_jsonl("mixed.jsonl", MIXED)
    task = _task(train, evaluation={"all": mixed, "aime24": mixed, "rest": MathSetConfig(path=mixed, select="Other")})
    sets = {name: [one.answer for one in problems] for name, problems in task.evaluation_problems().items()}
    assert sets == {"all": ["1", "2"], "aime24": ["1"], "rest": ["2"]}
    assert f"{mixed}: holds several sets (AIME-2024-30 1, other 1); all are used" in task.notes()
    assert f"{mixed}: holds several sets (AIME-2024-30 1, other 1); used: other" in task.notes()


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("math500", {}, "field data_source: expected one of math500, math-500, math_500, got AIME-2024-30, other"),
        ("x", {"select": "none"}, "expected one of none, got AIME-2024-30, other"),
        ("x", {"select": "none", "prompt_field": "question", "answer_field": "ref_answer"}, "without them"),
    ],
)
def test_a_set_that_the_file_does_not_hold(write_jsonl, name, settings, message):
    train = write_jsonl("a.jsonl", [{"question": "x", "answer": "1"}])
    given = MathSetConfig(path=write_jsonl("mixed.jsonl", MIXED), **settings)
    with pytest.raises(InputError, match=message):
        _task(train, evaluation={name: given}).evaluation_problems()


def test_fields_of_training_count_where_an_evaluation_set_has_them(write_jsonl):
    train = write_jsonl("a.jsonl", [{"q": "x", "gold": "1", "answer": "no"}])
    same = write_jsonl("b.jsonl", [{"q": "y", "gold": "2", "problem": "other", "answer": "no"}])
    other = write_jsonl("c.jsonl", [{"problem": "z", "answer": "3"}])
    task = _task(train, prompt_field="q", answer_field="gold", evaluation={"same": same, "other": other})
    sets = task.evaluation_problems()
    assert [sets["same"][0].answer, sets["other"][0].answer] == ["2", "3"]


def test_demonstrations_come_from_their_field(write_jsonl):
    rows = [{"question": "q", "answer": "1", "solution": "So \\boxed{1}"}, {"question": "p", "answer": "2"}]
    train = write_jsonl("a.jsonl", rows)
    assert not _task(train).demonstrations()
    task = _task(train, demonstration_field="solution")
    (demonstration,) = task.demonstrations()
    assert demonstration.completion == "So \\boxed{1}"
    assert demonstration.prompt == task.train_problems()[0].prompt
    assert "1 without a usable demonstration" in task.notes()[1]


@pytest.mark.parametrize("pattern", ["####(", "no group", "(two)(groups)"])
def test_a_pattern_without_exactly_one_group_is_refused(pattern):
    with pytest.raises(ConfigError, match=r"answer_pattern.*expected a regular expression"):
        MathConfig(train="x.jsonl", answer_pattern=pattern)


def test_final_answers_are_boxed_ones_and_there_is_no_shortcut(write_jsonl):
    task = _task(write_jsonl("a.jsonl", [{"question": "1+1?", "answer": "2"}]))
    assert task.final_answer(r"So it is \boxed{2.0}.") == "2"
    with pytest.raises(ConfigError, match=r"reward\.shortcut: expected a task with a recognisable shortcut, got math"):
        task.takes_shortcut("anything")
