"""Counts and quirks of the real sets of problems; the texts themselves are no part of the repository."""

import re

import pytest

from geoalign.lab.data.benchmarks import BENCHMARKS
from geoalign.lab.data.problems import load_problems
from geoalign.lab.data.settings import MATH_SYSTEM_PROMPT, MathConfig
from geoalign.lab.data.sources import rows_of
from geoalign.lab.data.tasks import make_task

ROLL = "aime24_aime25_math500_roll/math_benchmarks.jsonl"
BOTH = "dapo_math_17k/MATH-AIME-Evaluation.jsonl"
PLACES = [
    ("aime24", "aime24/test.jsonl"), ("aime24", "aime24/aime-2024.dapo.parquet"), ("aime24", ROLL), ("aime24", BOTH),
    ("aime25", "aime25/test.jsonl"), ("aime25", "aime25/test2025-I.jsonl aime25/test2025-II.jsonl"),
    ("aime25", ROLL), ("aime25", BOTH), ("amc23", "amc23/test.jsonl"),
    ("math500", "math500/test.jsonl"), ("math500", ROLL), ("math500", BOTH),
    ("minerva", "minerva_math/test.jsonl"), ("minerva", "minerva_math/minerva.rllm.json"),
    ("olympiadbench", "olympiadbench/test.jsonl"),
]  # fmt: skip
ROWS = {"aime24": 30, "aime25": 30, "amc23": 40, "math500": 500, "minerva": 272, "olympiadbench": 675}


def load(shared_data, name, files):
    return load_problems([str(shared_data / file) for file in files.split()], benchmark=BENCHMARKS[name])


@pytest.mark.parametrize(("name", "files"), PLACES)
def test_every_copy_of_every_benchmark(shared_data, name, files):
    rows, notes = load(shared_data, name, files)
    problems = [row.problem for row in rows]
    assert len(problems) == ROWS[name]
    assert len({problem.id for problem in problems}) == ROWS[name]
    assert not [note for note in notes if note.startswith("benchmark") or "without" in note]
    for problem in problems:
        # The paper's prompt: its system message, and the bare problem as the user's.
        assert [message["role"] for message in problem.prompt] == ["system", "user"]
        assert problem.prompt[0]["content"] == MATH_SYSTEM_PROMPT
        assert not re.search(r"step by step|Answer:|final answer within", problem.prompt[1]["content"])
        assert problem.answer == problem.answer.strip() != ""


def test_aime24_of_dapo_is_unwrapped_and_each_problem_taken_once(shared_data):
    source = shared_data / "aime24" / "aime-2024.dapo.parquet"
    raw = {row["extra_info"]["raw_problem"] for _, row in rows_of(source)}
    rows, notes = load_problems(str(source), benchmark=BENCHMARKS["aime24"])
    assert {row.problem.prompt[1]["content"] for row in rows} == raw
    assert f"{source}: 930 of 960 rows left out: 930 repeated" in notes


def test_gsm8k(shared_data):
    train, test = (str(shared_data / "gsm8k" / name) for name in ("train.jsonl", "test.jsonl"))
    task = make_task(MathConfig(train=train, evaluation={"test": test}), seed=0)
    problems = task.train_problems
    assert len(problems) == 7473
    assert len(task.evaluation_problems["test"]) == 1319
    assert problems[0].answer == "72"
    # grep -cP '#### [-0-9]*,[0-9]' finds as many answers with thousands commas.
    assert sum("," in problem.answer for problem in problems) == 79
    assert not [line for line in task.notes if "left out" in line]


def test_dapo_math_and_its_overlap_with_the_evaluation_sets(shared_data):
    files = dict(reversed(PLACES))  # the first file of each
    train = str(shared_data / "dapo_math_17k" / "dapo_math_17k.parquet")
    evaluation = {name: str(shared_data / file.split()[0]) for name, file in reversed(files.items())}
    task = make_task(MathConfig(train=train, evaluation=evaluation), seed=0)
    problems = task.train_problems
    assert len(problems) == 17917
    assert len({problem.prompt[-1]["content"] for problem in problems}) == 17290
    assert problems[0].answer == "34"
    # Kept as text, they are exact beyond 2^53.
    assert max(int(problem.answer) for problem in problems) > 2**53
    notes = [note.rpartition(": ")[2] for note in task.notes if "read as" not in note]
    assert notes == [
        "another instruction text was taken off 20 problems",
        "596 prompts stand there more than once (627 of 17917 rows stand before), 11 of them with conflicting answers "
        "(22 rows)",
        "17 of 40 begin like a training prompt",
        "10 of 500 begin like a training prompt",
        "29 of 675 begin like a training prompt",
    ]
    task = make_task(MathConfig(train=train, evaluation=evaluation, decontaminate="drop"), seed=0)
    assert len(task.train_problems) == 17213
    # 627 rows stand before, 11 of them in the conflicting groups, whose 22 rows go whole: 17917 - 616 - 22 - 66.
    assert (
        f"{train}: 704 of 17917 rows dropped: 616 stand before, 22 conflict with another, 66 stand in an evaluation "
        "set; 17213 left"
    ) in task.notes
    assert not [note for note in task.notes if "training prompt" in note]
