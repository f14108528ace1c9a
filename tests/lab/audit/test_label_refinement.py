"""`geoalign audit --curator label_refinement`: a prompt is known again by its text."""

import pyarrow.parquet as pq
import pytest
from dumps import write_lines

SETTINGS = ("curator.start=1", "curator.slope=0.1")


def step(number, answers, rewards, *, group):
    return [
        {"id": f"{number}-{row}", "step": number, "group": group, "prompt": "question",
         "response": f"\\boxed{{{answer}}}", "reward": float(reward)}
        for row, (answer, reward) in enumerate(zip(answers, rewards, strict=True))
    ]  # fmt: skip


@pytest.mark.parametrize("files", [1, 2])
def test_a_prompt_is_known_again_by_its_text(tmp_path, run, files):
    first, second = step(1, "aabc", (0, 0, 1, 0), group="x"), step(2, "aaab", (0, 0, 0, 1), group="y")
    if files == 1:
        paths = [write_lines(tmp_path / "d.jsonl", first + second)]
    else:
        paths = [write_lines(tmp_path / f"{number}.jsonl", rows) for number, rows in enumerate((first, second))]
    run(*paths, curator="label_refinement", settings=SETTINGS)
    rows = pq.read_table(tmp_path / "out" / "scores.parquet").to_pylist()
    assert [row["new_reward"] for row in rows] == [0, 0, 1, 0, 1, 1, 1, 0]
    assert [row["anomalous"] for row in rows] == [False] * 4 + [True] * 4
