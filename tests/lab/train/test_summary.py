import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from geoalign.lab.store.json_files import append_lines
from geoalign.lab.store.rollouts import ROLLOUT_SCHEMA
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.train.summary import detection, print_summary, summarise


def rollouts(folder: Path, step: int, rows: list[tuple[float | None, bool | None, bool]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    columns = {name: [None] * len(rows) for name in ROLLOUT_SCHEMA.names}
    for place, name in enumerate(("score", "corrupted", "anomalous")):
        columns[name] = [row[place] for row in rows]  # type: ignore[misc]
    texts = [""] * len(rows)
    columns.update(row=list(range(len(rows))), source=list(range(len(rows))), prompt=texts, response=texts)
    # One group in which every reward is another: each row is in a pair.
    columns.update(group=[0] * len(rows), reward=[float(row) for row in range(len(rows))])
    pq.write_table(pa.table(columns, schema=ROLLOUT_SCHEMA), folder / f"step-{step:06d}.parquet")


def test_detection_by_hand(tmp_path: Path) -> None:
    # First generation: the corrupted 0.9 beats both clean scores: 1.0. Second: 0.2 beats one of 0.1, 0.5: 0.5.
    rollouts(tmp_path, 0, [(0.9, True, True), (0.1, False, False), (0.3, False, True), (None, True, False)])
    rollouts(tmp_path, 2, [(0.2, True, False), (0.1, False, False), (0.5, False, False)])
    rollouts(tmp_path, 4, [(0.2, False, False), (0.1, False, False)])  # nothing corrupted: no AUROC
    found = detection(tmp_path)
    assert found["auroc"] == pytest.approx(0.75)
    assert found["auroc_generations"] == 2
    assert found["corrupted_share"] == pytest.approx(3 / 9)
    assert found["corrupted_share_of_anomalous"] == pytest.approx(1 / 2)


def test_a_run_in_numbers_and_as_a_table(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    append_lines(
        folder.metrics,
        [
            {"stage": "sft", "step": 9, "reward": 7.0},
            {"stage": "rl", "step": 1, "reward": 0.25, "geoalign/pairs": 10.0, "geoalign/replaced": 2.0},
            {"stage": "rl", "step": 2},
            {
                "stage": "rl",
                "step": 3,
                "reward": 0.75,
                "geoalign/pairs": 5.0,
                "geoalign/replaced": 1.0,
                "geoalign/new_group_accuracy": 0.75,
            },
            {"stage": "rl", "step": 4, "geoalign/new_group_accuracy": math.nan},
        ],
    )
    append_lines(
        folder.evaluation,
        [
            {"stage": stage, "step": 0, "set": "sums", "accuracy": accuracy, "correct": 1, "count": 8}
            for stage, accuracy in (("before_rl", 0.125), ("rl", 0.25), ("after_rl", 0.5))
        ],
    )
    rollouts(folder.rollouts, 0, [(0.9, True, True), (0.1, False, False)])
    found = summarise(folder)
    assert found["steps"] == 4
    assert found["generations"] == 3
    assert found["accuracy"] == {"before_rl": {"sums": 0.125}, "after_rl": {"sums": 0.5}}
    assert (found["reward_first"], found["reward_last"]) == (0.5, 0.5)
    assert found["curator"]["pairs"] == 15
    assert found["curator"]["replaced"] == 3
    assert found["curator"]["groups_without_donor"] is None
    assert found["curator"]["new_group_accuracy"] == 0.75
    console = Console(record=True, width=120, file=(tmp_path / "out").open("w"))
    print_summary(console, found, "geoalign", tmp_path)
    console.file.close()
    text = console.export_text()
    for part in (
        "accuracy before; after RL (sums)",
        "12.5%; 50.0%",
        "geoalign: rollouts replaced",
        "report.html",
    ):
        assert part in text


def test_a_continuous_reward_shows_proxy_and_gold_side_by_side(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
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
    for part in (
        "proxy reward before; after RL (chats)",
        "0.50; 3.50",
        "gold utility before; after RL (chats)",
        "0.25; -0.12",
    ):
        assert part in text
    assert "accuracy" not in text


def test_pass_at_k_is_shown_where_several_answers_were_drawn(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    line = {"stage": "after_rl", "step": 9, "set": "sums", "accuracy": 0.5, "correct": 8, "count": 16, "reward": 0.5}
    append_lines(folder.evaluation, [{**line, "samples": 2, "pass_at_k": {"1": 0.5, "2": 0.75}}])
    found = summarise(folder)
    assert found["pass_at_k"] == {"sums": {"1": 0.5, "2": 0.75}}
    text = printed(found, tmp_path)
    assert "pass@1, 2 after RL (sums)" in text
    assert "50.0%; 75.0%" in text


def printed(summary: dict[str, Any], folder: Path) -> str:
    console = Console(record=True, width=120, file=(folder / "out").open("w"))
    print_summary(console, summary, "grpo", folder)
    console.file.close()
    return console.export_text()
