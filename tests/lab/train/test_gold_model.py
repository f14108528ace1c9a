"""A second reward model, trained on pairs that the first never sees: its score is the gold utility."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from run_files import lines, same_weights, weights
from safetensors.torch import load_file

from geoalign.errors import ConfigError, InputError
from geoalign.lab.data.tasks import make_task
from geoalign.lab.models.language_model import make_tiny_model, make_tokenizer, save
from geoalign.lab.train.read_settings import parse_run_config


def dialogue(number: int) -> dict[str, str]:
    asked = f"\n\nHuman: What is {number}?\n\nAssistant:"
    return {"chosen": f"{asked} It is {number}.", "rejected": f"{asked} No."}


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    for name, numbers in (("train", range(40)), ("asked", range(90, 94))):
        rows = "".join(json.dumps(dialogue(number)) + "\n" for number in numbers)
        (folder / f"{name}.jsonl").write_text(rows)
    learning = {"per_device_train_batch_size": 4, "save_steps": 2, "warmup_steps": 1}
    return {
        "model": {"hidden_size": 16, "layers": 1, "heads": 1},
        "task": {
            "type": "hh_rlhf", "train": str(folder / "train.jsonl"), "gold_share": 0.5, "held_out": 0.25,
            "evaluation": {"asked": str(folder / "asked.jsonl")},
        },
        "curator": {"type": "grpo"}, "sft": None,
        "reward_model": {**learning, "max_steps": 2}, "gold_model": {"max_steps": 4},
        "grpo": {
            "max_steps": 2, "num_generations": 4, "per_device_train_batch_size": 8, "steps_per_generation": 2,
            "save_steps": 2, "max_completion_length": 4,
        },
        "evaluation": {"every": None}, "output": {"keep_checkpoints": None},
    }  # fmt: skip


def without_time(root: Path) -> list[dict[str, Any]]:
    timed = ("time", "seconds")
    return [{key: line[key] for key in line if not any(word in key for word in timed)} for line in lines(root)]


def test_the_gold_model_measures_never_rewards_and_a_run_killed_in_its_stage_ends_alike(settings, train_here, tmp_path):
    finished = tmp_path / "finished"
    summary = train_here(settings, finished)
    # Two and four updates, each stage with the line of its held-out pairs.
    learned = [("reward_model", 1), ("reward_model", 2), ("reward_model", 2)]
    learned += [("gold_model", step) for step in (1, 2, 3, 4, 4)]
    found = lines(finished)
    assert [(line["stage"], line["step"]) for line in found][:8] == learned
    held_out_line = {f"heldout/{name}": value for name, value in summary["reward_model"].items()}
    assert held_out_line.items() <= found[2].items()
    task = make_task(parse_run_config(settings).task, seed=0)
    assert len(task.preference_pairs) + len(task.gold_pairs) == 40
    # A quarter of either model's pairs, and both are tested on all of them.
    held_out = sum(-(-len(pairs) // 4) for pairs in (task.preference_pairs, task.gold_pairs))
    assert summary["reward_model"]["count"] == summary["gold_model"]["count"] == held_out
    (line,) = lines(finished, "after_rl", "evaluation.jsonl")
    assert line["gold_utility"] != line["reward"]
    assert summary["gold_utility"]["after_rl"]["asked"] == line["gold_utility"]
    heads = [weights(finished, name)["score.weight"] for name in ("reward_model", "gold_model")]
    assert not heads[0].equal(heads[1])
    # As a kill after the second update of the gold model left it, with a half-written model.
    root = tmp_path / "killed"
    shutil.copytree(finished, root)
    for path in ("summary.json", "evaluation.jsonl", "records.json"):
        (root / path).unlink()
    for path in ("gold_model", "final", "rl", "gold_model_training/checkpoint-4"):
        shutil.rmtree(root / "checkpoints" / path)
    (root / "checkpoints" / "gold_model.tmp").mkdir()
    train_here(settings, root, resume=True)
    assert without_time(root) == without_time(finished)
    assert all(same_weights(root, finished, name) for name in ("reward_model", "gold_model", "final"))


def test_all_models_of_a_run_with_adapters_are_plain_models(settings, train_here, tmp_path):
    tokenizer, root = make_tokenizer(None, max_length=4096), tmp_path / "run"
    config = parse_run_config(settings).model
    save(make_tiny_model(config, tokenizer, seed=0), tokenizer, tmp_path / "model")  # type: ignore[arg-type]
    lora = {"rank": 1, "target_modules": ["q_proj"]}
    grpo = {**settings["grpo"], "learning_rate": 0.01, "warmup_steps": 0}
    sft = {"max_steps": 2, "per_device_train_batch_size": 4}
    model = {"type": "pretrained", "path": str(tmp_path / "model"), "lora": lora}
    real = {**settings, "model": model, "sft": sft, "grpo": grpo, "curator": {"type": "grpo"}}
    train_here(real, root)
    first = load_file(tmp_path / "model" / "model.safetensors")
    warm, adapted = weights(root, "warm_start"), "model.layers.0.self_attn.q_proj.weight"
    for name, before, more in (
        ("warm_start", first, set()),
        ("reward_model", warm, {"score.weight"}),
        ("gold_model", warm, {"score.weight"}),
        ("final", warm, set()),
    ):
        made = weights(root, name)
        changed = {key for key in made if key not in before or not made[key].equal(before[key])}
        assert changed == {adapted} | more, name
        # The update is an outer product: its second singular value is rounding.
        values = torch.linalg.svdvals((made[adapted] - before[adapted]).double())
        assert values[1] < 1e-3 * values[0]


def test_a_fitted_head_needs_no_trainer(settings, dry_run_output, train_here, tmp_path):
    fitted = {**settings, "reward_head": {"penalty": 0.1}, "reward_model": {}, "gold_model": {}}
    assert "its head fitted to" in dry_run_output(fitted)
    summary = train_here(fitted, tmp_path / "run")
    # One line a stage, that of the pairs held out, and no checkpoint.
    stages = [line["stage"] for line in lines(tmp_path / "run") if line["stage"] != "rl"]
    assert stages == ["reward_model", "gold_model"]
    assert not (tmp_path / "run" / "checkpoints" / "reward_model_training").exists()
    # "It is 7." against "No.": plain in any state.
    assert summary["reward_model"]["accuracy"] == summary["gold_model"]["accuracy"] == 1.0
    with pytest.raises(ConfigError, match=r"reward_model: expected nothing beside reward_head, .*max_steps"):
        dry_run_output({**fitted, "reward_model": {"max_steps": 3}})
    with pytest.raises(ConfigError, match=r"reward_head\.layers: expected at most the model's 1, got 2"):
        dry_run_output({**fitted, "reward_head": {"layers": 2}})


def test_a_wrong_gold_model_is_found_before_anything_is_trained(settings, dry_run_output):
    with pytest.raises(ConfigError, match=r"gold_model: expected nothing where the task keeps no pairs .*max_steps"):
        dry_run_output({**settings, "task": {**settings["task"], "gold_share": None}})
    with pytest.raises(ConfigError, match=r"gold_model\.max_stesp"):
        dry_run_output({**settings, "gold_model": {"max_stesp": 3}})
    with pytest.raises(InputError, match=r"task\.gold_share: expected a share that leaves the gold model pairs of two"):
        dry_run_output({**settings, "task": {**settings["task"], "gold_share": 0.001}})
