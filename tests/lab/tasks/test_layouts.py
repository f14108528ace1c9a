import pytest

from geoalign.errors import InputError
from geoalign.lab.config.tasks import MATH_SYSTEM_PROMPT, MathConfig
from geoalign.lab.tasks import make_task
from geoalign.lab.tasks.problem_rows import LAYOUTS, WRAPPERS, bare_problem, recognise
from geoalign.lab.tasks.problems import load_benchmark

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
    "problem and answer, named": {"id": "60", "problem": "p?", "answer": "1", "question": "p?", "solution": BOXED},
    "problem and answer": {"problem": "p?", "answer": "1"},
    "problem and boxed solution": {"id": 1, "problem": "p?", "solution": BOXED},
    "GSM8K": {"question": "p?", "answer": "it is\n#### 1"},
    "question and answer, named": {"id": 0, "question": "p?", "answer": "1"},
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
    task = make_task(MathConfig(train=source), seed=0)
    (problem,) = task.train_problems()
    assert problem.prompt == (
        {"role": "system", "content": MATH_SYSTEM_PROMPT},
        {"role": "user", "content": "p?"},
    )
    boxed = recognise("file", [row]).boxed
    assert problem.answer == ("\\frac{1}{2}" if boxed else "1")
    assert task.notes()[0].startswith(f"{source}: read as {name} (")


def test_the_layout_of_most_rows_counts():
    assert recognise("file", [{"x": 1}, ROWS["GSM8K"], ROWS["question and answer"]]).name == "question and answer"
    assert recognise("file", [{"x": 1}, ROWS["GSM8K"], ROWS["GSM8K"]]).name == "GSM8K"


@pytest.mark.parametrize("row", [{}, {"problem": "p?"}])
def test_an_unknown_layout_lists_columns_and_layouts(write_jsonl, row):
    source = write_jsonl("a.jsonl", [row])
    with pytest.raises(InputError) as caught:
        make_task(MathConfig(train=source), seed=0).train_problems()
    text = str(caught.value)
    assert text.startswith(f"{source}: expected the columns of a known layout (")
    assert "; question and answer (question; answer); " in text
    assert f"got {', '.join(row) or 'no column'}; prompt_field and answer_field name" in text


def test_a_context_stands_before_the_problem(write_jsonl):
    row = {**ROWS["OlympiadBench"], "context": " Given this. "}
    task = make_task(MathConfig(train=write_jsonl("a.jsonl", [row])), seed=0)
    assert task.train_problems()[0].prompt[1]["content"] == "Given this.\n\np?"


def test_rows_that_repeat_a_named_row_are_one_problem(write_jsonl):
    rows = [ROWS["verl"], ROWS["verl"], {**ROWS["verl"], "extra_info": {"index": "y"}}]
    source = write_jsonl("a.jsonl", rows)
    loaded = load_benchmark("aime24", source)
    assert [problem.id for problem in loaded.problems] == ["x", "y"]
    assert f"{source}: 1 rows repeat a row of the same name and are left out" in loaded.notes
    assert loaded.notes[-1] == "benchmark aime24: 2 problems, where AIME24 has 30"


def test_a_name_of_two_different_problems_names_none(write_jsonl):
    rows = [{"id": 0, "question": "p", "answer": "1"}, {"id": 0, "question": "q", "answer": "2"}]
    source = write_jsonl("a.jsonl", rows)
    task = make_task(MathConfig(train=source), seed=0)
    assert [problem.id for problem in task.train_problems()] == ["line 1", "line 2"]
    assert f"{source}, line 2, field id: '0' names another problem too; problems are named by their row" in task.notes()


@pytest.mark.parametrize(("before", "after"), WRAPPERS)
def test_instruction_texts_are_taken_off(before, after):
    assert bare_problem(f"{before}\n\nWhat is 1+1? \n\n{after}") == "What is 1+1?"
    # An instruction alone is no problem, and one in the midst stays.
    for text in (f"{before}{after}", f"a {before} b {after} c", " What is 1+1? "):
        assert bare_problem(text) == text


def test_wrapped_problems_are_counted_and_a_named_field_is_taken_as_it_is(write_jsonl):
    wrapped = f"1+1?\n{WRAPPERS[2][1]}"
    source = write_jsonl("a.jsonl", [{"question": wrapped, "answer": "2"}, {"question": "q", "answer": "1"}])
    task = make_task(MathConfig(train=source), seed=0)
    assert task.train_problems()[0].prompt[1]["content"] == "1+1?"
    assert f"{source}: another instruction text was taken off 1 problems" in task.notes()
    named = make_task(MathConfig(train=source, prompt_field="question"), seed=0)
    assert named.train_problems()[0].prompt[1]["content"] == wrapped
