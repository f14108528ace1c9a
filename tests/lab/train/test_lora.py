"""Low-rank adapters: on before a stage, merged after it."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

from geoalign.lab.config.loading import parse_run_config
from geoalign.lab.config.run import LoraConfig, TinyModelConfig
from geoalign.lab.config.tasks import ArithmeticConfig
from geoalign.lab.models.models import make_tiny_model, make_tokenizer, merged, save, with_adapters
from geoalign.lab.tasks import make_task
from geoalign.lab.train.train import train


def model_of(seed: int = 0) -> Any:
    return make_tiny_model(
        TinyModelConfig(hidden_size=16, layers=1, heads=1), make_tokenizer("01=", max_length=32), seed=seed
    )


def test_adapters_start_at_nothing_and_are_drawn_from_the_seed() -> None:
    ids = torch.tensor([[3, 4, 5]])
    plain = model_of()(ids).logits
    config = LoraConfig(rank=2, scale=3.0)
    first, again, other = (with_adapters(model_of(), config, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(first(ids).logits, plain)
    trained = {name for name, weight in first.named_parameters() if weight.requires_grad}
    assert trained
    assert all("lora_" in name for name in trained)
    weights = [dict(model.named_parameters()) for model in (first, again, other)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in trained)
    assert any(not torch.equal(weights[0][name], weights[2][name]) for name in trained)


def test_merging_adds_scale_times_b_a() -> None:
    adapted = with_adapters(model_of(), LoraConfig(rank=2, scale=3.0, target_modules=("q_proj",)), seed=0)
    layer = next(module for name, module in adapted.named_modules() if name.endswith("q_proj"))
    before = layer.base_layer.weight.detach().clone()
    up, down = layer.lora_B["default"].weight, layer.lora_A["default"].weight
    with torch.no_grad():
        up.fill_(0.5)
    expected = before + 3.0 * (up @ down)
    plain = merged(adapted)
    found = dict(plain.named_parameters())["model.layers.0.self_attn.q_proj.weight"]
    assert torch.allclose(found, expected, atol=1e-6)
    assert merged(plain) is plain
    assert with_adapters(plain, None, seed=0) is plain


@pytest.fixture
def pretrained(tmp_path: Path) -> Path:
    task = make_task(
        ArithmeticConfig(operands=2, digits=1, train_problems=16, evaluation_problems=4, demonstrations=32, seed=0),
        seed=0,
    )
    tokenizer = make_tokenizer(task.alphabet(), max_length=64, words=task.words())
    folder = tmp_path / "model"
    save(make_tiny_model(TinyModelConfig(hidden_size=16, layers=1, heads=1), tokenizer, seed=0), tokenizer, folder)
    return folder


def test_a_run_with_adapters_makes_plain_models(pretrained: Path, tmp_path: Path, tiny: Any) -> None:
    model = {"type": "pretrained", "path": str(pretrained), "lora": {"rank": 1, "target_modules": ["q_proj"]}}
    settings = {**tiny(sft={"max_steps": 2}, grpo={"learning_rate": 0.01}), "model": model}
    folder = tmp_path / "run"
    train(parse_run_config(settings), folder, report=False, console=Console(file=io.StringIO()))
    places = (pretrained, folder / "checkpoints/warm_start", folder / "checkpoints/final")
    first, warm, final = (load_file(place / "model.safetensors") for place in places)
    assert first.keys() == warm.keys() == final.keys()
    changed = "model.layers.0.self_attn.q_proj.weight"
    for old, new in ((first, warm), (warm, final)):
        assert [name for name in old if not torch.equal(old[name], new[name])] == [changed]
        # The update is an outer product: its second singular value is rounding.
        values = torch.linalg.svdvals((new[changed] - old[changed]).double())
        assert values[0] > 0
        assert values[1] < 1e-3 * values[0]
    # Resumed after the last checkpoint but before the final model was kept: the same weights.
    shutil.rmtree(folder / "checkpoints/final")
    (folder / "summary.json").unlink()
    (folder / "records.json").unlink()
    train(parse_run_config(settings), folder, resume=True, report=False, console=Console(file=io.StringIO()))
    again = load_file(folder / "checkpoints/final/model.safetensors")
    assert all(torch.allclose(again[name], final[name], atol=1e-6) for name in final)
