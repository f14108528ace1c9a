"""Run folders as a training writes them, made by hand."""

import json

import pytest
import yaml

CONFIG = {"curator": {"type": "geoalign"}, "sft": {"max_steps": 5}, "grpo": {"max_steps": 10, "num_generations": 4}}


class Writer:
    """Writes a run folder line by line."""

    def __init__(self, root):
        self.root = root

    def start(self, config=CONFIG):
        self.root.mkdir(parents=True, exist_ok=True)
        (self.root / "versions.json").write_text('{"schema_version": 1}')
        (self.root / "config.yaml").write_text(yaml.safe_dump(config))

    def append(self, name, text):
        with (self.root / name).open("a", encoding="utf-8") as file:
            file.write(text)

    def step(self, step, stage="rl", **values):
        self.append("metrics.jsonl", json.dumps({"stage": stage, "step": step, **values}) + "\n")

    def curated(self, step, **values):
        found = {
            "reward": 0.25, "geoalign/curated_reward": 0.5, "true_reward": 0.75, "geoalign/scored_rollouts": 40,
            "geoalign/anomalous": 5, "geoalign/replaced": 4, "geoalign/new_group_accuracy": 0.66,
            "geoalign/new_group_accuracy_low": 0.58, "geoalign/new_group_accuracy_high": 0.74,
            "geoalign/chance_accuracy": 0.5, "geoalign/seconds": 0.2, "step_time": 2.0, "loss": -0.01,
            "ppo_kl": 0.0003, "completions/mean_length": 33.0, "completions/clipped_ratio": 0.125,
        }  # fmt: skip
        self.step(step, **(found | values))

    def evaluation(self, step, stage="rl", name="test", **values):
        known = values or {"accuracy": 0.5}
        correct = None if known["accuracy"] is None else round(8 * known["accuracy"])
        line = {"step": step, "stage": stage, "set": name, "correct": correct, "count": 8, **known}
        self.append("evaluation.jsonl", json.dumps(line) + "\n")

    def finish(self):
        (self.root / "summary.json").write_text("{}")


@pytest.fixture
def run(tmp_path):
    return Writer(tmp_path / "run")
