"""Reference rewards: sampled once from the warm-started model, kept, and given to the curator."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from geoalign.lab.train.rewards import rollout_fields
from geoalign.lab.train.stages import evaluations

Train = Callable[..., dict[str, Any]]
Tiny = Callable[..., dict[str, Any]]

PAR = {"curator": {"type": "par"}, "reward": {"flip": 0.3, "references": 3}}


def kept(root: Path) -> dict[str, Any]:
    return json.loads((root / "reference_rewards.json").read_text())


@pytest.fixture
def run(tiny: Tiny, train_here: Train, tmp_path: Path) -> Path:
    train_here(tiny(**PAR), tmp_path / "run")
    return tmp_path / "run"


def test_every_prompt_of_the_run_has_its_clean_references(run: Path) -> None:
    found = kept(run)
    used = {row["prompt"] for path in run.glob("rollouts/*") for row in pq.read_table(path).to_pylist()}
    # Two generations of four prompts; a prompt is its sum.
    assert len(used) == 8
    assert {name.removeprefix("train:") + "=" for name in found["rewards"]} == used
    # A model that has seen one batch answers nothing: clean rewards are all 0, though 30% of RL's are flipped.
    assert {reward for rewards in found["rewards"].values() for reward in rewards} == {0.0}
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    shaped = [line["geoalign/shaped_reward"] for line in lines if "geoalign/shaped_reward" in line]
    # All references 0: rewards 0 and 1 become 1/2 and sigmoid(1) = 0.731; some of them are flipped to 1.
    assert len(shaped) == 2
    assert all(0.5 < value < 0.732 for value in shaped)


def test_a_stage_that_was_killed_half_way_reaches_the_same_file_and_weights(
    continuous: None, tiny: Tiny, train_here: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tiny(**{**PAR, "reward": {"flip": 0.0, "references": 3}})
    run, other = tmp_path / "run", tmp_path / "other"
    train_here(settings, run)
    assert len({reward for rewards in kept(run)["rewards"].values() for reward in rewards}) > 3
    # 16 rollouts a generation, 3 references: batches of 5 prompts, so two of them.
    calls: list[str] = []
    whole = evaluations.answers_to

    def counted(problems: Any, *arguments: Any, what: str, **options: Any) -> Any:
        if "reference" in what:
            calls.append(problems[0].id)
            if len(calls) == 2:
                raise KeyboardInterrupt
        return whole(problems, *arguments, what=what, **options)

    monkeypatch.setattr(evaluations, "answers_to", counted)
    with pytest.raises(KeyboardInterrupt):
        train_here(settings, other)
    assert len(kept(other)["rewards"]) == 5
    train_here(settings, other, resume=True)
    assert len(calls) == 3
    assert calls[1] == calls[2] != calls[0]
    assert (other / "reference_rewards.json").read_bytes() == (run / "reference_rewards.json").read_bytes()
    weights = "checkpoints/final/model.safetensors"
    assert (other / weights).read_bytes() == (run / weights).read_bytes()


def test_each_rollout_gets_what_belongs_to_its_own_prompt_and_response(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"a": [1.0, None], "b": [2.0, 3.0]}
    monkeypatch.setattr("geoalign.lab.train.rewards.reference_rewards", lambda run: found)
    run: Any = SimpleNamespace(
        curator=SimpleNamespace(requires=("reference_rewards", "answers"), optional=()),
        task=SimpleNamespace(final_answer=lambda text: text.upper() or None),
    )
    fields = rollout_fields(run, SimpleNamespace(true_rewards=[0.5, 1.5]), None)  # type: ignore[arg-type]
    rows = [
        {"problem_id": "b", "completion": [{"role": "assistant", "content": "x"}]},
        {"problem_id": "a", "completion": ""},
    ]
    assert fields["reference_rewards"](rows) == [[2.0, 3.0], [1.0, None]]
    assert fields["answers"](rows) == ["X", None]
    assert fields["true_rewards"](rows) == [0.5, 1.5]
    run.curator.requires = ("hidden",)
    assert set(rollout_fields(run, SimpleNamespace(true_rewards=[]), None)) == {"true_rewards"}  # type: ignore[arg-type]
