import io

from rich.console import Console

from geoalign.lab.runs.decline import falls_of_accuracy, last_falls
from geoalign.lab.runs.reading import Evaluation
from geoalign.lab.train.evaluations import warn_of_falls


def line(step, correct, stage="rl", name="test", samples=1):
    return {
        "step": step, "stage": stage, "set": name, "accuracy": correct / 100, "correct": correct, "count": 100,
        "samples": samples,
    }  # fmt: skip


def evaluation(*values, **more):
    return Evaluation(**line(*values, **more))


def test_a_fall_is_below_the_lower_end_of_the_start():
    # Wilson's interval of 20 in 100 begins at 0.1334.
    lines = [evaluation(0, 20, "before_rl"), evaluation(5, 14), evaluation(10, 13), evaluation(15, 30)]
    found = falls_of_accuracy(lines)
    assert [(fall.set, fall.start, fall.accuracy, fall.step) for fall in found] == [("test", 0.2, 0.13, 10)]
    assert str(found[0]) == "Accuracy on test fell from 20.0% before RL to 13.0% at step 10."
    # It has come back since.
    assert last_falls(lines) == []
    assert last_falls(lines[:3]) == found


def test_where_the_start_has_no_interval_nothing_is_said():
    assert falls_of_accuracy([evaluation(0, 20, "before_rl", samples=4), evaluation(5, 0, samples=4)]) == []


def test_it_is_said_once_for_each_set():
    console = Console(file=io.StringIO(), width=300)
    start = [line(0, 20, "before_rl"), line(0, 50, "before_rl", "other")]
    warn_of_falls(console, start, [line(5, 1), line(5, 50, name="other")])
    warn_of_falls(console, [*start, line(5, 1)], [line(10, 0), line(10, 10, name="other")])
    said = console.file.getvalue()
    assert said.count("Accuracy on test fell") == said.count("Accuracy on other fell") == 1
    assert "grpo.learning_rate is too high" in said
