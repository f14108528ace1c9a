import os
import signal
import threading
import time

import pytest

from geoalign.answers import workers as workers_module
from geoalign.answers.verified import VerifiedReward
from geoalign.answers.workers import AnswerWorkers
from geoalign.errors import GeoAlignError, InputError


def _box(answer):
    return f"So the answer is \\boxed{{{answer}}}."


# (gold, answer)
EQUAL = [
    ("81", "81"), ("025", "25"), ("27.0", "27"), ("1,234", "1234"), ("10{,}000", "10000"), ("-0", "0"),
    ("$81$", "81"), ("336^\\circ", "336"), ("\\frac{1}{2}", "0.5"), ("\\frac{1}{2}", "\\dfrac12"),
    ("5", "5\\text{ cm}"), ("\\$5", "5"), ("2\\sqrt{2}", "\\sqrt{8}"),
    ("\\left( 3, \\frac{\\pi}{2} \\right)", "(3, \\pi/2)"), ("$69$,$84$", "$84$, $69$"),
    ("[1,2)", "[1.0, \\frac{4}{2})"), ("(1,2),(3,4)", "(3,4), (1,2)"), ("x^2+2x+1", "(x+1)^2"), ("5", "x=5"),
    ("\\boxed{7}", "7"), ("9" * 5000, "9" * 5000), ("1/3", "0.33333333"), ("4.5e33", "4.5 \\times 10^{33}"),
    ("1e-5", "0.00001"), ("1\\frac{4}{5}", "9/5"), ("\\$32,\\!348", "32348"), ("x=5", "5"),
]  # fmt: skip

DIFFERENT = [
    ("81", "82"), ("9007199254740993", "9007199254740992"), ("9" * 900, "9" * 899 + "8"),
    ("\\frac{1}{2}", "\\frac{1}{3}"), ("1/3", "0.333"), ("1e-8", "2e-8"), ("(1,2)", "(2,1)"),
    ("(1,2),(3,4)", "(3,4),(2,1)"), ("\\pi+2\\sqrt{2}", "\\pi+3\\sqrt{2}"), ("\\text{east}", "\\text{west}"),
    ("5", ""), ("5", "\\text{I do not know}"),
]  # fmt: skip


@pytest.mark.parametrize(("gold", "answer"), EQUAL + DIFFERENT)
def test_equal_answers_are_correct_and_others_wrong(reward, gold, answer):
    assert reward.score([_box(answer)], [gold]) == [float((gold, answer) in EQUAL)]


def test_the_last_box_decides_and_no_box_is_wrong(reward):
    before = dict(reward.counters)
    responses = [r"\boxed{1} or rather \boxed{2}", r"\boxed{2} or rather \boxed{1}", "2", "", r"\boxed{ }"]
    assert reward.score(responses, ["2"] * 5) == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert reward.counters["no_answer"] - before["no_answer"] == 3
    assert reward.counters["scored"] - before["scored"] == 5
    assert reward.counters["correct"] - before["correct"] == 1


@pytest.mark.parametrize(
    "answer",
    ["x" * 1001, "{" * 21 + "1" + "}" * 21, "(" * 21 + "1" + ")" * 21, "\\frac{1}{" * 21 + "1" + "}" * 21],
)
def test_answers_too_long_or_too_deep_are_refused_unread(reward, answer):
    before = dict(reward.counters)
    assert reward.score([_box(answer)], ["1"]) == [0.0]
    assert reward.counters["refused"] - before["refused"] == 1
    assert reward.counters["compared"] == before["compared"]


# (gold, response, reward)
LISTS = [
    ("-2, 1", r"\boxed{-2} and \boxed{1}", 1),
    ("(1,2), (2,1)", r"\boxed{(1,2)}, \boxed{(2,1)}", 1),
    (r"\boxed{-2} and \boxed{1}", r"\boxed{-2, 1}", 1),
    ("-2, 1", r"\boxed{-2}", 0),
    ("-2, 1", r"\boxed{-2}, \boxed{1}, \boxed{3}", 0),
    # Guesses in a list are one wrong answer, wherever the right one stands among them.
    ("3", r"\boxed{1}, \boxed{2}, \boxed{3}", 0),
    ("3", "".join(rf"\boxed{{{guess}}}, " for guess in range(100)), 0),
]


@pytest.mark.parametrize(("gold", "response", "expected"), LISTS)
def test_boxes_listed_at_the_end_are_one_answer_as_math_verify_has_it(reward, gold, response, expected):
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

    assert reward.score([response], [gold]) == [expected]
    if "(1,2)" in gold:
        return  # it reads one pair as an interval and the other as a point
    targets = (LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig())
    boxed = gold if "boxed" in gold else rf"\boxed{{{gold}}}"
    assert verify(parse(boxed, targets), parse(response, targets)) == bool(expected)


def test_the_same_comparison_is_made_once_and_one_of_integers_in_no_process(reward):
    before = reward.counters["compared"]
    assert reward.score([_box(n) for n in range(2000)], ["7"] * 2000).count(1.0) == 1
    assert reward.counters["compared"] == before
    responses = [_box("\\sqrt{289}")] * 6
    assert reward.score(responses, ["17"] * 6) == [1.0] * 6
    assert reward.score(responses, ["17"] * 6) == [1.0] * 6
    assert reward.counters["compared"] == before + 1


def test_a_process_that_is_killed_is_replaced_and_one_of_a_forgotten_reward_ends():
    verified = VerifiedReward(timeout=60, workers=1)
    verified.score([_box("\\sqrt{9}")], ["3"])
    (worker,) = verified.workers._workers
    killer = threading.Timer(0.5, worker._process.kill)
    killer.start()
    assert verified.score([_box("9^{9^{9^9}}")], ["3"]) == [0.0]
    killer.join()
    assert (verified.counters["errors"], verified.counters["timeouts"]) == (1, 0)
    assert verified.score([_box("\\sqrt{4}+1")], ["3"]) == [1.0]
    last = worker._process
    del verified
    assert last.poll() is not None


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_processes_of_its_own():
    with VerifiedReward(timeout=60, workers=1) as source:
        assert source.score([_box("1+x")], ["x+1"]) == [1.0]
        theirs = source.workers._workers[0]._process
        if (child := os.fork()) == 0:
            signal.alarm(120)
            right = source.outcomes([_box("2+x")], ["x+2"]) == ["correct"]
            os._exit(not (right and source.workers._workers[0]._process is not theirs))
        assert os.waitpid(child, 0)[1] == 0
        assert source.score([_box("1/7")], ["\\frac{2}{14}"]) == [1.0]


def test_scoring_works_in_a_thread_where_math_verify_itself_refuses(reward):
    found = []
    thread = threading.Thread(target=lambda: found.extend(reward.score([_box("\\frac{\\sqrt{4}}{4}")], ["1/2"])))
    thread.start()
    thread.join()
    assert found == [1.0]


def test_processes_that_cannot_start_are_an_error_that_says_why(monkeypatch):
    monkeypatch.setattr(workers_module.sys, "executable", "/bin/sh")
    workers = AnswerWorkers(count=2, timeout=1.0)
    with pytest.raises(GeoAlignError, match=r"verified answers: expected a process that runs math-verify, got .+"):
        workers.compare([("1", "\\frac{1}{1}")])


def test_a_gold_answer_of_nothing_is_refused(reward):
    with pytest.raises(InputError, match="answers: expected a gold answer, got ' ' in row 1"):
        reward.score(["a", "b"], ["1", " "])
    assert reward.score([], []) == []


# The first is one call in C: no alarm and no exception would interrupt it.
HOSTILE = ["9^{9^{9^9}}", "\\sum_{i=1}^{10^{12}} i^i", "import os; os.system('exit 1')"]


def test_each_costs_its_limit_at_most_and_the_next_answer_is_read():
    with VerifiedReward(timeout=1.0, workers=2) as reward:
        reward.score(["\\boxed{\\sqrt{4}}", "\\boxed{\\sqrt{9}}"], ["2", "3"])  # starting is not measured
        start = time.perf_counter()
        responses = [f"\\boxed{{{answer}}}" for answer in HOSTILE] + ["\\boxed{\\sqrt{49}}"]
        found = reward.score(responses, ["7"] * len(responses))
        seconds = time.perf_counter() - start
        assert found == [0.0] * len(HOSTILE) + [1.0]
        # Two at a time, and a new process after each that ran out of its limit.
        assert seconds < 10 * len(HOSTILE)
        assert reward.counters["timeouts"] > 0


@pytest.mark.parametrize(
    "response",
    [
        "\\boxed{" + "x" * 50_000 + "}", "\\boxed{" * 8000, "\\boxed{" * 5000 + "}" * 5000,
        "{" * 25_000 + "}" * 25_000, "\\boxed{" + "(" * 25_000 + ")" * 24_000 + "}", "\\" * 50_000,
        "\\boxed{" + "\\frac{1}{" * 5000 + "}" * 5000 + "}",
    ],
)  # fmt: skip
def test_outputs_of_50000_characters_are_read_at_once(response):
    with VerifiedReward(timeout=5) as reward:
        start = time.perf_counter()
        assert reward.score([response], ["7"]) == [0.0]
        assert time.perf_counter() - start < 2
        assert not any(worker._process for worker in reward.workers._workers)
