import pytest

from geoalign.errors import ConfigError, InputError
from geoalign.lab.data.benchmarks import BENCHMARKS
from geoalign.lab.data.problems import LAYOUTS, WRAPPERS, bare_problem, load_problems, recognise
from geoalign.lab.data.settings import MATH_SYSTEM_PROMPT, MathConfig, MathSetConfig
from geoalign.lab.data.tasks import make_task


def task_of(train, **values):
    return make_task(MathConfig(train=train, **values), seed=0)


def test_rows_become_problems_in_order(write_jsonl):
    train = write_jsonl("a.jsonl", [{"question": "1+1?", "answer": "2"}, {"question": "2+2?", "answer": 4}])
    problems = task_of(train, system_prompt="Use \\boxed{}.").train_problems
    assert [problem.answer for problem in problems] == ["2", "4"]
    assert [problem.id for problem in problems] == ["line 1", "line 2"]
    assert problems[0].prompt == ({"role": "system", "content": "Use \\boxed{}."}, {"role": "user", "content": "1+1?"})


def test_answers_are_kept_as_text(write_jsonl):
    values = {"2": ["2"], "$69$, $84$": ["$69$", "$84$"], "12345678901234567890": 12345678901234567890, "-1.0": -1.0}
    task = task_of(write_jsonl("a.jsonl", [{"question": "q", "answer": value} for value in values.values()]))
    assert [problem.answer for problem in task.train_problems] == list(values)


BAD_ROWS = [
    {"question": "no answer"},
    {"question": "a truth value", "answer": True},
    {"question": "  ", "answer": "1"},
    {"question": [{"role": "wizard", "content": "x"}], "answer": "1"},
    {"question": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}], "answer": "1"},
]


def test_bad_rows_are_skipped_and_counted(write_jsonl):
    train = write_jsonl("a.jsonl", [{"question": "q", "answer": "1"}, *BAD_ROWS])
    task = task_of(train)
    assert len(task.train_problems) == 1
    rows = [{"question": ""}, *({"question": f"q{i}", "answer": str(i)} for i in range(5))]
    first = task_of(write_jsonl("c.jsonl", rows), limit=2)  # the first usable rows
    assert [problem.answer for problem in first.train_problems] == ["0", "1"]
    assert task.notes[1:] == [f"{train}: 5 of 6 rows left out: 2 without a usable answer, 3 without a usable prompt"]
    with pytest.raises(InputError, match=r"expected at least one problem with an answer, got none in 5 rows with the"):
        task_of(write_jsonl("b.jsonl", BAD_ROWS))


def test_evaluation_sets_are_recognised_or_name_their_fields(write_jsonl):
    train = write_jsonl("a.jsonl", [{"text": [{"content": "q"}], "gold": {"truth": "so 1"}}])
    other = write_jsonl("b.jsonl", [{"problem": "p", "result": "2"}])
    known = write_jsonl("c.jsonl", [{"question": "p", "answer": "3"}])
    named = MathSetConfig(path=other, prompt_field="problem", answer_field="result")
    fields = {"prompt_field": "text.0.content", "answer_field": "gold.truth", "answer_pattern": "so (.)"}
    task = task_of(train, **fields, evaluation={"named": named, "known": known})
    assert task.train_problems[0].answer == "1"
    sets = task.evaluation_problems
    assert {name: problems[0].answer for name, problems in sets.items()} == {"named": "2", "known": "3"}


TWICE = [
    {"question": "How many?", "answer": "1", "worked": "One."},
    {"question": "How many?", "answer": "1.0", "worked": "One, again."},
    {"question": "Which?", "answer": "3", "worked": "Three."},
    {"question": "Which?", "answer": "4", "worked": "Four."},
    {"question": "What is x?", "answer": "5", "worked": "Five."},
    {"question": "What is y?", "answer": "6", "worked": "Six."},
]
TESTED = [{"question": "what  is x ?", "answer": "5"}, {"question": "New", "answer": "1"}]


def test_duplicates_conflicts_and_overlap_are_reported_or_dropped_with_their_demonstrations(write_jsonl):
    train, test = write_jsonl("a.jsonl", TWICE), write_jsonl("b.jsonl", TESTED)
    task = task_of(train, evaluation={"test": test})
    assert [note for note in task.notes if "read as" not in note] == [
        f"{train}: 2 prompts stand there more than once (2 of 6 rows stand before), 1 of them with conflicting answers "
        "(2 rows)",
        "evaluation set test: 1 of 2 begin like a training prompt",
    ]
    assert len(task.train_problems) == 6
    task = task_of(train, evaluation={"test": test}, decontaminate="drop", demonstration_field="worked")
    assert [problem.answer for problem in task.train_problems] == ["1", "6"]
    assert [demonstration.completion for demonstration in task.demonstrations] == ["One.", "Six."]
    assert [note for note in task.notes if "read as" not in note] == [
        f"{train}: 4 of 6 rows dropped: 1 stand before, 2 conflict with another, 1 stand in an evaluation set; 2 left"
    ]
    assert len(task.evaluation_problems["test"]) == 2
    # The limit counts what is left.
    limited = task_of(train, evaluation={"test": test}, decontaminate="drop", limit=2)
    assert [problem.answer for problem in limited.train_problems] == ["1", "6"]


MIXED = [
    {"data_source": "AIME-2024-30", "question": "p", "ref_answer": "1"},
    {"data_source": "other", "question": "q", "ref_answer": "2"},
]


def test_a_benchmark_takes_its_own_set_of_several_in_a_file(write_jsonl):
    train = write_jsonl("a.jsonl", [{"question": "x", "answer": "1"}])
    mixed = write_jsonl("mixed.jsonl", MIXED)
    task = task_of(train, evaluation={"all": mixed, "aime24": mixed})
    sets = {name: [one.answer for one in problems] for name, problems in task.evaluation_problems.items()}
    assert sets == {"all": ["1", "2"], "aime24": ["1"]}
    assert f"{mixed}: 1 of 2 rows left out: 1 of the set other" in task.notes
    with pytest.raises(InputError, match=r"got none in 2 rows with .*: 1 of the set AIME-2024-30, 1 of the set other"):
        task_of(train, evaluation={"math500": mixed})


def test_demonstrations_come_from_their_field(write_jsonl):
    rows = [{"question": "q", "answer": "1", "solution": "So \\boxed{1}"}, {"question": "p", "answer": "2"}]
    train = write_jsonl("a.jsonl", rows)
    assert not task_of(train).demonstrations
    task = task_of(train, demonstration_field="solution")
    (demonstration,) = task.demonstrations
    assert demonstration.completion == "So \\boxed{1}"
    assert demonstration.prompt == task.train_problems[0].prompt


@pytest.mark.parametrize("pattern", ["####(", "no group", "(two)(groups)"])
def test_a_pattern_without_exactly_one_group_is_refused(pattern):
    with pytest.raises(ConfigError, match=r"answer_pattern.*expected a regular expression"):
        MathConfig(train="x.jsonl", answer_pattern=pattern)


CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "p?"}]
BOXED = "so \\boxed{1}, no: \\boxed{\\frac{1}{2}}"
ROWS = {
    "verl with the raw problem": {
        "prompt": CHAT,
        "reward_model": {"ground_truth": "1"},
        "extra_info": {"raw_problem": "p?", "index": 3},
    },
    "processed DAPO": {
        "prompt": "p?",
        "solution": "1",
        "source_prompt": CHAT,
        "reward_model": {"ground_truth": "1"},
        "extra_info": {"index": "x"},
    },
    "verl": {"prompt": CHAT, "reward_model": {"ground_truth": "1"}, "extra_info": {"index": "x"}},
    "ROLL": {"id": 5, "prompt": "p?", "messages": "[]", "ground_truth": "1", "source": "s"},
    "several sets": {"data_source": "s", "question": "p?", "ref_answer": "1"},
    "OlympiadBench": {"id": 7, "question": "p?", "final_answer": ["1"], "context": None},
    "Minerva": {"problem": "p?", "solution": BOXED, "type": "t", "idx": 0, "answer": ["9", "8"]},
    "MATH-500": {"problem": "p?", "answer": "1", "solution": BOXED, "subject": "s", "level": 2, "unique_id": "u"},
    "problem and answer": {"problem": "p?", "answer": "1"},
    "problem and boxed solution": {"id": 1, "problem": "p?", "solution": BOXED},
    "GSM8K": {"question": "p?", "answer": "it is\n#### 1"},
    "question and answer": {"question": "p?", "answer": "1"},
    "prompt and answer": {"prompt": CHAT, "answer": "1"},
}


def test_every_layout_has_an_example():
    assert [layout.name for layout in LAYOUTS] == list(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_a_layout_is_recognised_and_gives_the_paper_s_prompt(write_jsonl, name):
    row = ROWS[name]
    assert recognise("file", [row]).name == name
    source = write_jsonl("a.jsonl", [row])
    task = task_of(source)
    (problem,) = task.train_problems
    assert problem.prompt == ({"role": "system", "content": MATH_SYSTEM_PROMPT}, {"role": "user", "content": "p?"})
    boxed = recognise("file", [row]).boxed
    assert problem.answer == ("\\frac{1}{2}" if boxed else "1")
    assert task.notes[0].startswith(f"{source}: read as {name} (")


def test_the_layout_of_most_rows_counts():
    assert recognise("file", [{"x": 1}, ROWS["GSM8K"], ROWS["question and answer"]]).name == "question and answer"
    assert recognise("file", [{"x": 1}, ROWS["GSM8K"], ROWS["GSM8K"]]).name == "GSM8K"


@pytest.mark.parametrize("row", [{}, {"problem": "p?"}])
def test_an_unknown_layout_lists_columns_and_layouts(write_jsonl, row):
    source = write_jsonl("a.jsonl", [row])
    with pytest.raises(InputError) as caught:
        task_of(source)
    text = str(caught.value)
    assert text.startswith(f"{source}: expected the columns of a known layout (")
    assert "; question and answer (question; answer); " in text
    assert f"got {', '.join(row) or 'no column'}; prompt_field and answer_field name" in text


def test_a_context_stands_before_the_problem(write_jsonl):
    row = {**ROWS["OlympiadBench"], "context": " Given this. "}
    task = task_of(write_jsonl("a.jsonl", [row]))
    assert task.train_problems[0].prompt[1]["content"] == "Given this.\n\np?"


def test_a_benchmark_has_each_problem_once(write_jsonl):
    row = ROWS["verl"]
    source = write_jsonl("a.jsonl", [row, row, {**row, "reward_model": {"ground_truth": "2"}}])
    rows, notes = load_problems(source, benchmark=BENCHMARKS["aime24"])
    assert [row.problem.id for row in rows] == ["line 1", "line 3"]
    assert f"{source}: 1 of 3 rows left out: 1 repeated" in notes
    assert notes[-1] == "benchmark aime24: 2 problems, where AIME24 has 30"
    assert len(task_of(source, decontaminate="off").train_problems) == 3


@pytest.mark.parametrize(("before", "after"), WRAPPERS)
def test_instruction_texts_are_taken_off(before, after):
    assert bare_problem(f"{before}\n\nWhat is 1+1? \n\n{after}") == "What is 1+1?"
    # An instruction alone is no problem, and one in the midst stays.
    for text in (f"{before}{after}", f"a {before} b {after} c", " What is 1+1? "):
        assert bare_problem(text) == text


def test_wrapped_problems_are_counted_and_a_named_field_is_taken_as_it_is(write_jsonl):
    wrapped = f"1+1?\n{WRAPPERS[2][1]}"
    source = write_jsonl("a.jsonl", [{"question": wrapped, "answer": "2"}, {"question": "q", "answer": "1"}])
    task = task_of(source)
    assert task.train_problems[0].prompt[1]["content"] == "1+1?"
    assert "another instruction text was taken off 1 problems" in task.notes
    named = task_of(source, prompt_field="question")
    assert named.train_problems[0].prompt[1]["content"] == wrapped
