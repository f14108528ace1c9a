"""What a pretrained model computes in on a CPU: the type by the rule, the same when resumed; float32 weights."""

import io
import json
import shutil
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from geoalign.lab.data.settings import ArithmeticConfig
from geoalign.lab.data.tasks import make_task
from geoalign.lab.models.language_model import make_tiny_model, make_tokenizer, save
from geoalign.lab.models.settings import TinyModelConfig
from geoalign.lab.train.policy import PolicyTrainer
from geoalign.lab.train.read_settings import parse_run_config
from geoalign.lab.train.train import train
from geoalign.pretrained import fastest_dtype as module
from geoalign.pretrained.fastest_dtype import fastest_dtype

TASK: dict[str, Any] = {
    "type": "arithmetic", "operands": 2, "digits": 1, "train_problems": 16, "evaluation_problems": 4,
    "demonstrations": 8, "seed": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [
        ({"avx512f"}, "float32"),
        (set(), "float32"),
        ({"avx512f", "avx512_bf16"}, "bfloat16"),
        ({"amx_bf16"}, "bfloat16"),
    ],
)
def test_bfloat16_is_taken_where_the_hardware_multiplies_it(flags, dtype, monkeypatch):
    monkeypatch.setattr(module, "cpu_flags", lambda: flags)
    assert fastest_dtype("cpu") == dtype
    assert fastest_dtype("cuda:1") == "bfloat16"


@pytest.fixture
def pretrained(tmp_path):
    task = make_task(ArithmeticConfig(**TASK), seed=0)
    tokenizer = make_tokenizer(task.alphabet, max_length=64)
    folder = tmp_path / "model"
    save(make_tiny_model(TinyModelConfig(hidden_size=16, layers=1, heads=1), tokenizer, seed=0), tokenizer, folder)
    return folder


def test_a_run_computes_in_bfloat16_where_that_is_faster_and_is_resumed_in_it(pretrained, tmp_path, monkeypatch):
    types: dict[str, set[torch.dtype]] = {"generation": set(), "loss": set()}

    def noting(method: str, what: str) -> None:
        inner = getattr(PolicyTrainer, method)

        def call(trainer: Any, *args: Any, **kwargs: Any) -> Any:
            layer = next(part for name, part in trainer.model.named_modules() if name.endswith("mlp"))
            hook = layer.register_forward_hook(lambda module, given, out: types[what].add(out.dtype))
            try:
                return inner(trainer, *args, **kwargs)
            finally:
                hook.remove()

        monkeypatch.setattr(PolicyTrainer, method, call)

    noting("_generate", "generation")
    noting("_compute_loss", "loss")
    monkeypatch.setattr(module, "cpu_flags", lambda: {"amx_bf16"})
    small = {"num_generations": 2, "per_device_train_batch_size": 4, "steps_per_generation": 1}
    settings = {
        "model": {"type": "pretrained", "path": str(pretrained), "lora": {"rank": 1}},
        "task": TASK,
        "curator": {"type": "grpo"},
        "sft": None,
        "grpo": {**small, "max_steps": 2, "save_steps": 1, "max_completion_length": 4, "learning_rate": 0.01},
        "evaluation": {"every": None, "problems": 2},
        "reward": {"workers": 1},
    }
    said = io.StringIO()
    console = Console(file=said, width=200)
    train(parse_run_config(settings), tmp_path / "run", report=False, console=console)
    assert "The model computes in bfloat16" in said.getvalue()
    assert json.loads((tmp_path / "run/versions.json").read_text())["bf16"] is True
    # Adapters generate through the model inside peft's, which accelerate's own autocast does not reach.
    assert types == {"generation": {torch.bfloat16}, "loss": {torch.bfloat16}}
    final = load_file(tmp_path / "run/checkpoints/final/model.safetensors")
    assert {weight.dtype for weight in final.values()} == {torch.float32}
    # Its second update is made again on a machine that would choose float32.
    monkeypatch.setattr(module, "cpu_flags", set)
    for file in ("summary.json", "records.json"):
        (tmp_path / "run" / file).unlink()
    for folder in ("final", "rl/checkpoint-2"):
        shutil.rmtree(tmp_path / "run/checkpoints" / folder)
    types["loss"].clear()
    train(parse_run_config(settings), tmp_path / "run", resume=True, report=False, console=console)
    again = load_file(tmp_path / "run/checkpoints/final/model.safetensors")
    assert all(torch.equal(again[name], final[name]) for name in final)
    assert types["loss"] == {torch.bfloat16}
