"""The recipe on real rollouts, run as a user would, with a tiny model."""

import json
import sys

import pytest
import torch
from recipe import load
from tiny_models import saved_model


@pytest.fixture
def recipe_output(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["curate_real_rollouts.py", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "120")
        load("curate_real_rollouts").main()
        return capsys.readouterr().out

    return run


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved_model(tmp_path_factory.mktemp("model"), max_length=4096, hidden_size=32, heads=2)


def written(path, problems):
    path.write_text("\n".join(json.dumps(problem) for problem in problems), encoding="utf-8")
    return path


def test_a_line_ends_where_json_lines_do(tmp_path):
    (file := tmp_path / "a.jsonl").write_text(
        '{"query": "a\u2028b", "response": ["x", "y"], "pred_score": [[1], [0]]}', encoding="utf-8"
    )
    assert len(load("curate_real_rollouts").read_responses(file)) == 2


def test_it_prints_the_flagged_responses_with_their_donors(recipe_output, model, tmp_path):
    draw = torch.Generator().manual_seed(0)
    problems = []
    for number in range(12):
        quality = torch.rand(8, generator=draw).tolist()
        texts = ["good " * int(10 * value) + "bad " * int(10 * (1 - value)) + "[red]\x07" for value in quality]
        problems.append({"query": f"problem {number}", "response": texts, "pred_score": [[value] for value in quality]})
        # One response of each problem has the reward of the worst though it is the best.
        problems[-1]["pred_score"][quality.index(max(quality))] = [min(quality) - 0.1]
    file = written(tmp_path / "rollouts.jsonl", problems)
    out = recipe_output(file, "--model", model, "--alpha", "0.5", "--scoring", "cross_fit")
    assert "Flagged responses and their donors" in out
    summary = dict(line.strip("│ \n").split("│", 1) for line in out.splitlines() if line.count("│") == 3)
    figures = {name.strip(): value.strip() for name, value in summary.items()}
    # 12 problems x 28 pairs; texts that came out equal have no displacement.
    assert int(figures["pairs"]) + int(figures["zero_displacements"]) == 336
    assert int(figures["replaced"]) > 0
    assert "\x07" not in out


def test_the_real_rollouts(recipe_output, model, shared_data):
    out = recipe_output(
        shared_data / "rollouts_qwen_rm_maj" / "math_cot_100.jsonl", "--model", model, "--max-tokens", "256"
    )
    # 100 problems x 8 responses; duplicate responses have one state, so some displacements are zero.
    assert "scored_rollouts" in out
    assert "replaced" in out
