import asyncio
from collections.abc import Callable, Mapping

import pytest

from geoalign.lab.judge.asking import EndpointError, Judge, MemoryAnswers, RequestFailedError, ask_all, read_answers
from geoalign.lab.judge.outcome import Answer
from geoalign.lab.judge.prompt import Comparison
from geoalign.lab.judge.verdict import MAX_CHARACTERS, Verdict

GOOD = '{"overall_winner": "tie", "model_a_score": 0.5, "model_b_score": 0.5}'
TIE = Verdict("tie", 0.5, 0.5)
DOWN = RequestFailedError("HTTP 503: down")


class Scripted(Judge):
    """Says what stands under a comparison's first text, one after another; an error is raised."""

    name = "scripted"

    def __init__(self, script: Mapping[str, list[str | Exception]]) -> None:
        self.script = {key: list(lines) for key, lines in script.items()}
        self.asked: list[str] = []

    def key(self, comparison: Comparison) -> str:
        return comparison.first

    async def ask(self, comparison: Comparison) -> str:
        self.asked.append(comparison.first)
        await asyncio.sleep(0)
        line = self.script[comparison.first].pop(0)
        if isinstance(line, Exception):
            raise line
        return line


def run(
    judge: Scripted,
    kept: MemoryAnswers | None = None,
    *,
    retries: int = 2,
    concurrency: int = 1,
    in_a_row: int = 3,
    settled: Callable[[Answer], None] = lambda answer: None,
) -> dict[str, Answer]:
    return asyncio.run(
        ask_all(
            judge,
            {key: Comparison((), key, "") for key in judge.script},
            MemoryAnswers() if kept is None else kept,
            malformed_retries=retries,
            concurrency=concurrency,
            failures_in_a_row=in_a_row,
            settled=settled,
        )
    )


@pytest.mark.parametrize("concurrency", [1, 3, 50])
def test_malformed_answers_are_asked_for_again(concurrency: int) -> None:
    script: dict[str, list[str | Exception]] = {
        "x": [GOOD],
        "y": ["?", "", GOOD],
        "z": ["1", "", "3"],
        "w": ["?", DOWN],
    }
    judge, seen = Scripted(script), list[Answer]()
    found = run(judge, concurrency=concurrency, settled=seen.append)
    assert found == {
        "x": Answer(TIE, "judged", "", 1, GOOD),
        "y": Answer(TIE, "judged", "", 3, GOOD),
        "z": Answer(None, "malformed", "not one JSON object alone", 3, "3"),
        "w": Answer(None, "failed", "HTTP 503: down", 1, "?"),
    }
    assert sorted(judge.asked) == sorted("xyyyzzzww")
    assert len(seen) == 4
    assert all(answer in found.values() for answer in seen)


def test_kept_answers_are_not_asked_for_again() -> None:
    kept = MemoryAnswers()
    first = run(Scripted({"x": [GOOD], "y": ["1", "2", "3"], "z": ["?", DOWN]}), kept)
    judge = Scripted({"x": [], "y": [], "z": [GOOD]})
    second = run(judge, kept)
    assert judge.asked == ["z"]
    assert (second["x"], second["y"]) == (first["x"], first["y"])
    assert second["z"] == Answer(TIE, "judged", "", 2, GOOD)


def test_more_tries_than_before_are_made_up_fewer_are_enough() -> None:
    kept = MemoryAnswers()
    assert run(Scripted({"x": ["1"]}), kept, retries=0)["x"].status == "malformed"
    assert run(Scripted({"x": [GOOD]}), kept, retries=1)["x"] == Answer(TIE, "judged", "", 2, GOOD)
    # As the first time: the second answer is beyond what was asked for.
    assert run(Scripted({"x": []}), kept, retries=0)["x"].status == "malformed"


def test_a_too_long_answer_is_kept_cut_and_stays_malformed() -> None:
    kept = MemoryAnswers()
    long = GOOD + " " * MAX_CHARACTERS + "x" * 1000
    for script in ([long], []):
        found = run(Scripted({"x": script}), kept, retries=0)["x"]
        assert (found.status, found.reason) == ("malformed", "too long")
        assert len(found.text) == MAX_CHARACTERS + 1


def test_failures_in_a_row_end_it_and_keep_what_came() -> None:
    script: dict[str, list[str | Exception]] = {str(number): [DOWN] for number in range(10)}
    judge, kept = Scripted({"x": [GOOD], **script}), MemoryAnswers()
    with pytest.raises(EndpointError, match=r"got none to 3 judgments in a row, the last time: HTTP 503: down"):
        run(judge, kept)
    assert judge.asked == ["x", "0", "1", "2"]
    assert kept.answers("x") == (GOOD,)


def test_failures_between_answers_do_not() -> None:
    script = {str(number): [DOWN if number % 3 else GOOD] for number in range(12)}
    found = run(Scripted(script))
    assert sum(answer.status == "failed" for answer in found.values()) == 8


def test_another_error_comes_through_as_it_is() -> None:
    with pytest.raises(ZeroDivisionError):
        run(Scripted({"x": [GOOD], "y": [ZeroDivisionError()]}), concurrency=2)


def test_nothing_to_ask() -> None:
    assert run(Scripted({}), concurrency=4) == {}


def test_which_answer_counts() -> None:
    assert read_answers([], tries=1) is None
    assert read_answers(["?"], tries=2) is None
    assert read_answers(["?", GOOD, "?"], tries=3) == Answer(TIE, "judged", "", 2, GOOD)
    assert read_answers(["?", GOOD], tries=1) == Answer(None, "malformed", "not one JSON object alone", 1, "?")
