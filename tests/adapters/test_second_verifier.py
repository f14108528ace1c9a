"""A second verifier in a training: what it is given, and that none of its failures reaches the training."""

import logging
import math
import sys
import threading
import time

import pytest

from geoalign.adapters.second_verifier import GoldPlaces, make_second_verifier, verifier_of_settings
from geoalign.adapters.settings import EngineSettings
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError

ROWS = [{"prompt": "1 + 1?", "response": f"so \\boxed{{{n}}}", "solution": "2"} for n in (1, 2, 3)]


def asking(verifier, *, seconds=5.0, gold=("solution",), curator="appeals", endpoint=None):
    session = CurationSession(curator, seed=0)
    places = GoldPlaces(gold, "rollout_fields.gold_answers")
    return make_second_verifier(verifier, session, endpoint=endpoint or {}, seconds=seconds, gold=places)


def command(tmp_path, *lines):
    script = tmp_path / "judge.py"
    script.write_text("\n".join(["import json, sys, time", *lines]))
    return f"{sys.executable} {script}"


def test_a_function_gets_columns_and_the_gold_answer_under_one_name():
    def strict(prompts, completions, answer, solution, **columns):
        assert answer == solution
        return [float(gold in text) for gold, text in zip(answer, completions, strict=True)]

    assert asking(strict).verdicts(ROWS) == [0.0, 1.0, 0.0]


def test_math_verify_compares_with_the_gold_answer_alone():
    """A column that happens to be called as the audit calls what a response answers is not taken for it."""
    rows = [{**row, "final_answer": "2"} for row in ROWS]
    assert asking("math_verify").verdicts(rows) == [0.0, 1.0, 0.0]


@pytest.mark.parametrize("gold", ["One and one make \\boxed{2}.", "One and one.\n#### 2", ["2"], 2, ["7", "2"]])
def test_math_verify_reads_the_answer_of_a_whole_solution(gold):
    assert asking("math_verify").verdicts([{**row, "solution": gold} for row in ROWS]) == [0.0, 1.0, 0.0]


def test_the_first_gold_answer_that_is_there_counts():
    gold = GoldPlaces(("answer", "reward_model.ground_truth"), "it")
    assert gold.of({"answer": None, "reward_model": {"ground_truth": "3"}}) == "3"
    assert gold.of({"answer": "4", "reward_model": {"ground_truth": "3"}}) == "4"
    assert gold.of({"reward_model": "no dict"}) is None


@pytest.mark.parametrize(
    ("said", "rewards"),
    [
        (ArithmeticError("no number"), [None] * 3),
        (SystemExit(1), [None] * 3),
        ([1.0, 0.0], [None] * 3),
        (1.0, [None] * 3),
        ([1.0, math.nan, math.inf], [1.0, None, None]),
        ([-1e39, 1e39, -3.0], [None, None, -3.0]),
        ([True, None, 0.25], [1.0, None, 0.25]),
    ],
)
def test_what_is_no_verdict_is_none(said, rewards):
    def judge(prompts, completions, **columns):
        if isinstance(said, BaseException):
            raise said
        return said

    assert asking(judge).verdicts(ROWS) == rewards


def test_a_function_that_takes_too_long_is_left_behind_and_asked_again_once_it_has_ended(caplog):
    goes_on = threading.Event()

    def judge(prompts, completions, **columns):
        goes_on.wait(30)
        return [1.0] * len(completions)

    second = asking(judge, seconds=0.1)
    with caplog.at_level(logging.WARNING):
        started = time.monotonic()
        assert second.verdicts(ROWS) == [None] * 3
        assert time.monotonic() - started < 5
        started = time.monotonic()
        assert second.verdicts(ROWS) == [None] * 3
        assert time.monotonic() - started < 1
    first, later = caplog.messages
    why = "no verdicts within 0.1 s"
    assert first == f"second verifier judge: {why}; 3 of 3 rows stay as they are, and the training goes on"
    assert "an earlier call has not ended" in later
    goes_on.set()
    second._thread.join()
    assert second.verdicts(ROWS) == [1.0] * 3


def test_an_asynchronous_function_is_cancelled():
    cancelled = threading.Event()

    async def judge(prompts, completions, **columns):
        import asyncio

        try:
            await asyncio.sleep(30)
        finally:
            cancelled.set()
        return [1.0] * len(completions)

    assert asking(judge, seconds=0.1).verdicts(ROWS) == [None] * 3
    assert cancelled.wait(5)


def test_the_verdicts_that_a_command_printed_in_time_count(tmp_path, caplog):
    slow = command(
        tmp_path,
        "for place, line in enumerate(sys.stdin):",
        "    if place == 2: time.sleep(60)",
        "    print(json.dumps({'correct': json.loads(line)['answer'] in json.loads(line)['response']}), flush=True)",
    )
    with caplog.at_level(logging.WARNING):
        assert asking(slow, seconds=2.0).verdicts(ROWS) == [0.0, 1.0, None]
    [said] = [record.getMessage() for record in caplog.records]
    assert "got 2 before it timed out after 2 s; 1 of 3 rows stay as they are" in said


def test_a_failure_is_said_once_as_long_as_it_is_the_same(caplog):
    errors = iter(["a", "a", None, "a", "b"])

    def judge(prompts, completions, **columns):
        error = next(errors)
        if error is not None:
            raise ArithmeticError(error)
        return [1.0] * len(completions)

    second = asking(judge)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            second.verdicts(ROWS)
    assert [record.getMessage().partition("Error: ")[2][0] for record in caplog.records] == ["a", "a", "b"]


def test_without_any_gold_answer_math_verify_says_what_to_set(caplog):
    second = asking("math_verify", gold=("truth",))
    with caplog.at_level(logging.WARNING):
        assert second.verdicts(ROWS) == [None] * 3
    [said] = [record.getMessage() for record in caplog.records]
    assert "needs gold answers: expected one in truth, got none; set rollout_fields.gold_answers" in said


def test_a_data_set_without_gold_answers_is_refused_at_the_start():
    asking("math_verify").check_gold(ROWS)
    asking("math_verify").check_gold([{**ROWS[0], "solution": None}])
    asking("math_verify").check_gold(iter([{}]))  # a stream
    asking("geoalign.answers.naive:strict", gold=()).check_gold([{}])
    with pytest.raises(ConfigError, match="math_verify needs gold answers: expected one in solution, got none; set"):
        asking("math_verify").check_gold([{"prompt": "1 + 1?"}])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"second_verifier": "no-such-command"}, r"geoalign\.second_verifier: expected math_verify, a function"),
        ({"second_verifier": "nowhere:f"}, r"geoalign\.second_verifier: expected MODULE:NAME"),
        ({"second_verifier": "http://localhost:1/v1"}, r"geoalign\.second_verifier_endpoint\.model"),
        (
            {"second_verifier": "math_verify", "second_verifier_endpoint": {"model": "name"}},
            r"geoalign\.second_verifier_endpoint: expected the address .*, got model beside math_verify",
        ),
        (
            {"second_verifier_endpoint": {"model": "name"}},
            r"geoalign\.second_verifier_endpoint: .* got model beside no second verifier",
        ),
        (
            {"second_verifier": "math_verify", "curator": "grpo"},
            r"geoalign\.second_verifier: expected a curator that asks a second verifier, such as appeals, got GRPO",
        ),
    ],
)
def test_mistakes_in_the_settings_are_errors_at_the_start(settings, words):
    given = EngineSettings(**{"curator": "appeals", **settings})
    session = CurationSession(given.curator, seed=0)
    with pytest.raises(ConfigError, match=words):
        verifier_of_settings(given, session, gold=("solution",), path="geoalign")


def test_what_is_neither_a_name_nor_a_function_is_refused():
    with pytest.raises(ConfigError, match="second_verifier: expected a name or a function, got int"):
        asking(3)
    with pytest.raises(ConfigError, match="second_verifier_seconds: expected a positive number, got 0"):
        asking("math_verify", seconds=0)
