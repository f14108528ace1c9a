"""`geoalign audit` from the command line to a folder with its page; kills; TRL's own tables; real rollouts."""

import gc
import json
import os
import signal
import sys

import pandas
import pyarrow.parquet as pq
import pytest
from command_line import call
from dumps import verdicts, verl, write_dump, write_lines
from tiny_models import saved_model

from geoalign.audit.command import AuditRequest
from geoalign.audit.folder import DENSITIES, PAIRS, SCORES
from geoalign.audit.pipeline import run_audit
from geoalign.audit.results import read_report
from geoalign.audit.settings import load_audit_config

FILES = {"scores.parquet", "flagged.csv", "figures", "report.html", "summary.json"}


def test_from_the_command_line_to_the_page(tmp_path, monkeypatch, capsys):
    (tmp_path / "in").mkdir()
    for step in (9, 10):
        write_lines(tmp_path / "in" / f"{step}.jsonl", verl(step))
    settings = [word for one in ("curator.projector.steps=5", "curator.alpha=0.5") for word in ("--set", one)]
    asked = ("audit", tmp_path / "in", "--output", tmp_path / "out", "--curator", "geoalign")
    assert call(monkeypatch, *asked) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "curator: geoalign needs hidden states (--hidden FILE or --model ID_OR_PATH), got none" in said
    assert call(monkeypatch, *asked, "--model", saved_model(tmp_path / "model", max_length=64), *settings) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "9.jsonl rollout dump of verl (prompt from input, response from output, reward from score" in said
    assert said.index("9.jsonl") < said.index("10.jsonl")
    assert "96 rollouts in 24 groups" in said
    assert "on new prompts" in " ".join(said.split())
    names = {item.name for item in (tmp_path / "out").iterdir()}
    assert {*FILES, "pairs.parquet", "densities.parquet", "states"} <= names
    for name, schema in {"scores": SCORES, "pairs": PAIRS, "densities": DENSITIES}.items():
        assert pq.read_schema(tmp_path / "out" / f"{name}.parquet").equals(schema)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    (tmp_path / "out" / "report.html").unlink()
    assert call(monkeypatch, "report", tmp_path / "out") == 0
    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8") == page


def test_tables_without_states_have_the_columns_of_the_page(tmp_path, run):
    write_dump(tmp_path / "in" / "rollouts", "geoalign")
    (tmp_path / "in" / "metrics.jsonl").write_text("{}\n")
    summary = run(tmp_path / "in")  # a run's folder
    assert pq.read_schema(tmp_path / "out" / "scores.parquet").equals(SCORES)
    assert not (tmp_path / "out" / "pairs.parquet").exists()
    written = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert written == json.loads(json.dumps(summary).replace("NaN", "null"))
    row = pq.read_table(tmp_path / "out" / "scores.parquet").to_pylist()[5]
    # Rewards 0, 0.1, 0.2, 0.3 in the group: mean 0.15, variance (2 * 0.15^2 + 2 * 0.05^2) / 3 = 1/60.
    expected = {"index": 5, "step": 4, "row": 5, "sample": 1, "id": "5", "group": 1, "reward": 0.1, "true_reward": 0.1,
                "correct": None, "characters": len("answer 1.1"), "tokens": 6, "truncated": None, "anomalous": False,
                "source": 5, "weight": 1.0, "new_reward": 0.1, "group_size": 4, "group_pairs": 6,
                "group_flagged": 0}  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert (row["group_mean"], row["group_std"]) == pytest.approx((0.15, (1 / 60) ** 0.5))


def die_at(number, paths, output):
    """Curates in a process that kills itself at file operation `number` inside the output; returns if it lived."""
    child = os.fork()
    if not child:
        seen = 0
        inside = str(output)

        def listen(event, arguments):
            nonlocal seen
            watched = event in ("open", "os.rename", "os.remove", "os.rmdir", "os.mkdir", "shutil.rmtree")
            if watched and arguments and inside in str(arguments[0]):
                seen += 1
                if seen == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(listen)
        code = 1
        try:
            run_audit(load_audit_config("reward_distance", ("curator.alpha=0.1",)), AuditRequest(paths, output))
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return not os.WIFSIGNALED(status)


def test_flagged_rows_are_in_the_order_of_the_report_over_all_steps_and_files(tmp_path, run):
    """What a second verifier overruled comes before all scores."""
    rows = [{**row, "step": 1 + number // 32} for number, row in enumerate(verdicts())]
    first = write_lines(tmp_path / "a.jsonl", rows)
    later = [{**row, "id": f"later {row['id']}", "step": 3} for row in verdicts()]
    second = write_lines(tmp_path / "b.jsonl", later)
    run(first, second, curator="denoise", second_verifier="math_verify", budget="2")
    report = read_report(tmp_path / "out")
    written = pandas.read_csv(tmp_path / "out" / "flagged.csv")
    assert written["index"].tolist() == report.flagged.index.tolist()
    assert not written["step"].is_monotonic_increasing


def test_a_kill_leaves_whole_files_or_none(tmp_path, run):
    path = write_dump(tmp_path / "in", "verl")
    before = path.read_bytes()
    run(path, output=tmp_path / "whole")
    expected = {name: (tmp_path / "whole" / name).stat().st_size for name in ("scores.parquet", "flagged.csv")}
    gc.collect()
    lived = False
    for number in (2, 16, 30, 44, 1000):
        output = tmp_path / f"out{number}"
        lived = die_at(number, [str(path)], output)
        for name, size in expected.items():
            assert not (output / name).exists() or (output / name).stat().st_size == size
        if (output / "summary.json").exists():
            # What is finished has its page.
            assert {item.name for item in output.iterdir()} >= FILES
        else:
            # Whatever is left there, the same call makes it whole.
            run(path, output=output)
            assert {item.name for item in output.iterdir()} >= FILES
            assert not (output / ".partial").exists()
    assert lived
    assert path.read_bytes() == before


def test_a_table_that_trl_itself_wrote(tmp_path, run):
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    from geoalign.pretrained.quiet import silence_logs

    silence_logs()
    folder = saved_model(tmp_path / "model", max_length=64)
    prompts = [[{"role": "user", "content": f"{number}?"}] for number in range(8)]
    arguments = GRPOConfig(
        output_dir=str(tmp_path / "trl"), use_cpu=True, bf16=False, gradient_checkpointing=False, report_to="none",
        save_strategy="no", per_device_train_batch_size=32, num_generations=4, max_completion_length=4, max_steps=2,
        logging_steps=1, log_completions=True, disable_tqdm=True, num_completions_to_print=0,
    )  # fmt: skip

    def share_of_early_letters(completions, **_):
        return [sum(letter < "m" for letter in one[0]["content"]) / 4 for one in completions]

    GRPOTrainer(
        model=str(folder), reward_funcs=share_of_early_letters, args=arguments,
        train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in prompts]),
    ).train()  # fmt: skip
    summary = run(tmp_path / "trl", settings=("curator.min_scores=8",))
    assert [one["format"] for one in summary["inputs"]] == ["trl", "trl"]
    assert summary["inputs"][0]["fields"]["reward"] == "share_of_early_letters"
    assert [one["step"] for one in summary["steps"]] == [1, 2]
    assert summary["counts"]["rows"] == 64
    assert summary["inputs"][0]["group_sizes"] == {"4": 8}
