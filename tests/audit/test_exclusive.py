"""Prompts of which several answers may be right: two rewarded answers prove and flag nothing there."""

import json

from dumps import table, write_lines

from geoalign.answers import equivalence


def rollouts(path, judged, prompts=8, **columns):
    """Each prompt with these answers and rewards."""
    rows = [
        {"prompt": f"p{prompt}", "response": rf"\boxed{{{answer}}}", "reward": float(reward), **columns}
        for prompt in range(prompts)
        for answer, reward in judged
    ]
    return write_lines(path, rows)


def test_without_math_verify_two_spellings_of_one_answer_prove_no_error(tmp_path, run, monkeypatch):
    monkeypatch.setattr(equivalence, "math_verify_is_installed", lambda: False)
    path = rollouts(tmp_path / "d.jsonl", [("(x+1)^2", 1), ("x^2+2x+1", 1), ("0.5", 0), ("1/2", 0)])
    summary = run(path, curator="denoise")
    assert summary["verifier"]["errors_at_least"] == 0
    assert summary["counts"]["flagged"] == 0
    found = summary["equal_answers"]
    assert found["undecided_prompts"] == 8
    # The two squares, and each of them and the number, whose spellings are one by their texts.
    assert found["undecided_because"] == {"not_installed": 3}


def test_several_gold_answers_may_both_be_right(tmp_path, run):
    path = rollouts(tmp_path / "d.jsonl", [("a", 1), ("b", 1), ("c", 0)], answer=["a", "b"])
    summary = run(path, curator="denoise", draw_checks=24, check_with="gold")
    assert summary["verifier"]["errors_at_least"] == 0
    assert summary["counts"]["flagged"] == 0
    assert summary["gold_answers"]["several"] == 8
    # Both are right by the checks, which contradicts nothing.
    checks = summary["verifier"]["checks"]
    assert checks["contradicted_prompts"] == 0
    assert checks["false_positive_rate"]["errors"] == checks["false_negative_rate"]["errors"] == 0
    assert [list(row["gold_answers"]) for row in table(tmp_path / "out")] == [["a", "b"]] * 24


def test_one_gold_answer_in_a_list_is_an_ordinary_one(tmp_path, run):
    path = rollouts(tmp_path / "d.jsonl", [("a", 1), ("b", 1), ("c", 0)], answer=["a"])
    assert run(path, curator="denoise")["verifier"]["errors_at_least"] == 8


def test_an_export_keeps_several_gold_answers(tmp_path, run):
    path = rollouts(tmp_path / "d.jsonl", [("a", 1), ("b", 1), ("c", 0)], prompts=1, answer=["a", "b"])
    run(path, curator="denoise", export=tmp_path / "clean.jsonl")
    assert json.loads((tmp_path / "clean.jsonl").read_text())["answer"] == ["a", "b"]
