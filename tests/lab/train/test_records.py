import json
import math
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from rich.console import Console
from safetensors import safe_open

from geoalign.adapters.trl import CuratedStep
from geoalign.errors import GeoAlignError
from geoalign.files.json_files import append_lines
from geoalign.lab.data.task import EvaluationSet
from geoalign.lab.models.accuracy import counts_by_problem, evaluation_values
from geoalign.lab.models.rows import ResponseRow
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.runs.rollouts import ROLLOUT_SCHEMA
from geoalign.lab.train.page import build_run_report
from geoalign.lab.train.recorder import assignment, record, rollout_columns
from geoalign.lab.train.smoke import check_exercised
from geoalign.lab.train.summary import print_summary, summarise
from geoalign.types import Curation, CurationDetails, DensityDetails, PairDetails, Rollouts


def curated(**changes: object) -> CuratedStep:
    rollouts = Rollouts(
        rewards=torch.tensor([0.0, 1.0, math.nan, 1.0]),
        groups=torch.tensor([7, 7, 3, 7]),
        true_rewards=torch.tensor([0.0, 1.0, math.nan, 0.0]),
    )
    curation = Curation(
        source=torch.tensor([0, 1, 2, 1]),
        rewards=torch.tensor([0.0, 1.0, math.nan, 1.0]),
        weights=torch.tensor([1.0, 1.0, 0.0, 1.0]),
        scores=torch.tensor([0.5, 0.25, math.nan, 2.0]),
        anomalous=torch.tensor([False, False, False, True]),
        **changes,  # type: ignore[arg-type]
    )
    return CuratedStep(
        step=12,
        generation=6,
        rollouts=rollouts,
        curation=curation,
        prompts=["p", "p", "q", "p"],
        responses=["a", "b\x00\u2028", "\ud800", "\U0001f600" * 1000],
        lengths=torch.tensor([1, 2, 3, 4]),
    )


def test_the_table_of_a_step() -> None:
    table = rollout_columns(curated())
    assert {name: values for name, values in table.items() if name not in ("prompt", "response")} == {
        "step": [12] * 4,
        "row": [0, 1, 2, 3],
        "group": [7, 7, 3, 7],
        "sample": [0, 1, 0, 2],
        "reward": [0.0, 1.0, None, 1.0],
        "true_reward": [0.0, 1.0, None, 0.0],
        "corrupted": [False, False, False, True],
        "score": [0.5, 0.25, None, 2.0],
        "anomalous": [False, False, False, True],
        "source": [0, 1, 2, 1],
        "weight": [1.0, 1.0, 0.0, 1.0],
        "tokens": [1, 2, 3, 4],
    }
    assert table["response"][1] == "b\x00\u2028"
    assert table["response"][2] == "?"  # a lone surrogate is no text that a file could hold


def test_a_shorter_curation_names_the_rows_it_keeps() -> None:
    curation = Curation(
        source=torch.tensor([3, 1, 1]),
        rewards=torch.ones(3),
        weights=torch.tensor([0.5, 1.0, 2.0]),
        scores=torch.zeros(4),
        anomalous=torch.zeros(4, dtype=torch.bool),
    )
    assert assignment(curation, 4) == ([-1, 1, -1, 3], [0.0, 3.0, 0.0, 0.5])


def test_files_of_a_step(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    record(folder, curated())
    assert not folder.details.exists()
    one = torch.tensor([0.5])
    pairs = PairDetails(torch.tensor([1]), torch.tensor([0]), one, one, one, one)
    curve = DensityDetails(grid=one, density=one, peak=0.5, mode=0.5, alpha=0.05, threshold=math.nan)
    record(folder, curated(details=CurationDetails(pairs, curve)))
    table = pq.read_table(tmp_path / "rollouts" / "step-000012.parquet")
    assert table.num_rows == 4
    with safe_open(tmp_path / "details" / "step-000012.safetensors", framework="pt") as file:
        assert file.get_tensor("pairs.winner").tolist() == [1]
        density = json.loads(file.metadata()["density"])
    assert density == {"peak": 0.5, "mode": 0.5, "alpha": 0.05, "threshold": None}
    assert not list(tmp_path.rglob("*.tmp"))


def rollouts(folder: Path, step: int, rows: list[tuple[float | None, bool | None, bool]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table = []
    for number, (score, corrupted, anomalous) in enumerate(rows):
        row = dict.fromkeys(ROLLOUT_SCHEMA.names)
        row.update(score=score, corrupted=corrupted, anomalous=anomalous)
        row.update(row=number, source=number, prompt="", response="")
        # One group in which every reward is another: each row is in a pair.
        row.update(group=0, reward=float(number))
        table.append(row)
    pq.write_table(pa.Table.from_pylist(table, schema=ROLLOUT_SCHEMA), folder / f"step-{step:06d}.parquet")


def test_a_run_in_numbers_and_as_a_table(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.initialise({}, threads=1)
    first = {"stage": "rl", "step": 1, "reward": 0.25, "geoalign/pairs": 10.0, "geoalign/replaced": 2.0}
    third = {**first, "step": 3, "reward": 0.75, "geoalign/new_group_accuracy": 0.75}
    last = {"stage": "rl", "step": 4, "geoalign/new_group_accuracy": math.nan}
    warm = {"stage": "sft", "step": 9, "reward": 7.0}
    append_lines(folder.metrics, [warm, first, {"stage": "rl", "step": 2}, third, last])
    sums = {"step": 0, "set": "sums", "correct": 1, "count": 8, "pass_at_k": {"1": 0.5, "2": 0.75}}
    for stage, accuracy in (("before_rl", 0.125), ("rl", 0.25), ("after_rl", 0.5)):
        append_lines(folder.evaluation, [{**sums, "stage": stage, "accuracy": accuracy}])
    rollouts(folder.rollouts, 0, [(0.9, True, True), (0.1, False, False)])
    found = summarise(folder)
    assert (found["steps"], found["generations"]) == (4, 3)
    assert found["accuracy"] == {"before_rl": {"sums": 0.125}, "after_rl": {"sums": 0.5}}
    assert (found["reward_first"], found["reward_last"]) == (0.5, 0.5)
    expected = {
        "auroc": 1.0, "corrupted_share_of_anomalous": 1.0, "pairs": 20, "replaced": 4, "groups_without_donor": None,
        "new_group_accuracy": 0.75,
    }  # fmt: skip
    assert expected.items() <= found["curator"].items()
    text = printed(found, tmp_path, "geoalign")
    # The finding first.
    assert "sums went from 12.5% to 50.0%" in text.splitlines()[0]
    assert "75.0% at k = 2" in text
    assert re.search(r"rollouts replaced[ │]+4 ", text)
    assert "donor" not in text  # not known
    assert "report.html" in text


def evaluated(stage: str, step: int, right: list[int], samples: int) -> dict[str, Any]:
    """A line of evaluation.jsonl: of each problem's answers so many are right."""
    evaluation_set = EvaluationSet(name="sums", kind="benchmark", problems=[], samples=samples, max_new_tokens=1)
    rows = rows_of(right, samples)
    return {"stage": stage, "step": step, "set": "sums", **evaluation_values(evaluation_set, rows, [None] * len(rows))}


def rows_of(right: list[int], samples: int) -> list[ResponseRow]:
    return [
        ResponseRow(
            model="step-000000",
            set="sums",
            id=str(problem),
            sample=sample,
            prompt="[]",
            response="",
            answer="1",
            reward=float(sample < count),
            correct=sample < count,
            reason=None,
            tokens=1,
            prompt_tokens=1,
            truncated=False,
        )
        for problem, count in enumerate(right)
        for sample in range(samples)
    ]


def test_an_accuracy_has_one_interval_over_problems_wherever_it_is_shown(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.initialise({"task": {"type": "arithmetic"}}, threads=1)
    # 12 of 30 problems always right, then none: 0.213941 to 0.586059 and 0 to 0.113513 (test_intervals.py).
    before = evaluated("before_rl", 0, [64] * 12 + [0] * 18, 64)
    after = evaluated("after_rl", 9, [0] * 30, 64)
    append_lines(folder.evaluation, [before, after])
    found = summarise(folder)
    assert found["accuracy_low"]["before_rl"]["sums"] == pytest.approx(0.213941, abs=1e-6)
    assert found["accuracy_high"]["after_rl"]["sums"] == pytest.approx(0.113513, abs=1e-6)
    direct = counts_by_problem(rows_of([64] * 12 + [0] * 18, 64)).accuracy()
    assert found["accuracy_low"]["before_rl"]["sums"] == direct.low
    assert found["accuracy_high"]["before_rl"]["sums"] == direct.high
    assert "0.0% to 11.4%" in printed(found, tmp_path)
    page = build_run_report(tmp_path).read_text(encoding="utf-8")
    assert page.count("21.4% to 58.6%") == page.count("0.0% to 11.4%") == 1


def test_a_run_that_fell_below_its_start_says_so_on_the_page_and_at_its_end(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.initialise({"task": {"type": "arithmetic"}}, threads=1)
    append_lines(folder.evaluation, [evaluated("before_rl", 0, [1] * 20 + [0] * 80, 1)])
    append_lines(folder.evaluation, [evaluated("after_rl", 9, [0] * 100, 1)])
    found = summarise(folder)
    assert found["fell_below_start"] == {"sums": {"set": "sums", "start": 0.2, "accuracy": 0.0, "step": 9}}
    fell = "Accuracy on sums fell from 20.0% before RL to 0.0% at step 9."
    assert fell in printed(found, tmp_path)
    assert fell in build_run_report(tmp_path).read_text(encoding="utf-8")


def test_runs_of_earlier_versions_have_no_interval_where_there_are_several_answers(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.initialise({"task": {"type": "arithmetic"}}, threads=1)
    for name, samples in (("several", 2), ("one", 1)):
        line = {"stage": "before_rl", "step": 0, "set": name, "accuracy": 0.5, "correct": 5, "count": 10}
        append_lines(folder.evaluation, [{**line, "samples": samples}])
    page = build_run_report(tmp_path).read_text(encoding="utf-8")
    # Wilson's of 5 in 10 problems.
    assert page.count("23.7% to 76.3%") == 1
    assert "made by an earlier version" in page


def test_a_continuous_reward_shows_proxy_and_gold_side_by_side(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.initialise({}, threads=1)
    none = {"accuracy": None, "correct": None, "pass_at_k": None, "samples": 1, "count": 8, "set": "chats"}
    append_lines(
        folder.evaluation,
        [
            {**none, "stage": "before_rl", "step": 0, "reward": 0.5, "gold_utility": 0.25, "count": 4},
            {**none, "stage": "rl", "step": 5, "reward": 9.0, "gold_utility": 9.0},
            {**none, "stage": "after_rl", "step": 9, "reward": 3.5, "gold_utility": -0.125},
        ],
    )
    found = summarise(folder)
    assert found["accuracy"] == {"before_rl": {}, "after_rl": {}}
    assert found["reward"] == {"before_rl": {"chats": 0.5}, "after_rl": {"chats": 3.5}}
    assert found["gold_utility"] == {"before_rl": {"chats": 0.25}, "after_rl": {"chats": -0.125}}
    text = printed(found, tmp_path)
    # The truth first.
    assert text.index("chats went from 0.25 to -0.12") < text.index("chats went from 0.50 to 3.50")
    assert "ccuracy" not in text


def printed(summary: dict[str, Any], folder: Path, curator: str = "grpo") -> str:
    console = Console(record=True, width=120, file=(folder / "out").open("w"))
    print_summary(console, summary, curator, folder)
    console.file.close()
    return console.export_text()


def test_a_smoke_test_that_exercised_nothing_fails(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.summary.write_text(json.dumps({"curator": {"pairs": 5, "replaced": 0}}))
    append_lines(folder.metrics, [{"stage": "rl", "step": 1, "frac_reward_zero_std": 1.0}])
    with pytest.raises(GeoAlignError, match="smoke test: expected groups whose rewards differ"):
        check_exercised(folder, Console())
    append_lines(folder.metrics, [{"stage": "rl", "step": 2, "frac_reward_zero_std": 0.5}])
    check_exercised(folder, Console(quiet=True))
