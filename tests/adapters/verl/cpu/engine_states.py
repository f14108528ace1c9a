"""Run by torchrun with two processes on gloo: hidden states of verl's FSDP engines against Hugging Face's, to a file.

Each case builds verl's engine by its registry and runs the pass that verl runs for the old log-probabilities.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import verl  # noqa: F401  (first: it loads the CPU platform, then the plug-in)
from tensordict import TensorDict
from torch.distributed.fsdp import FullyShardedDataParallel
from transformers import AutoModelForCausalLM
from verl.trainer.config import CheckpointConfig
from verl.utils import tensordict_utils as tu
from verl.utils.dataset.dataset_utils import DatasetPadMode
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
from verl.workers.engine.base import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl

import geoalign.hidden.answer_tokens
from geoalign.adapters.verl.keys import ANSWER_KEY, HIDDEN_KEY, LAYER_KEY, POSITION_KEY, RESPONSE_KEY, REWARD_KEY
from geoalign.hidden import HIDDEN_POSITIONS
from geoalign.types import response_keys

PROMPTS = [3, 5, 2, 7]
RESPONSES = [4, 1, 6, 2]
# Tokens from here on are digits; the first one of a response is taken for its answer.
DIGIT = 52
CASES = {
    "fsdp2 padded": ("fsdp2", False, 0),
    "fsdp2 packed": ("fsdp2", True, 0),
    "fsdp2 lora": ("fsdp2", False, 4),
    "fsdp padded": ("fsdp", False, 0),
    "fsdp packed": ("fsdp", True, 0),
}


class Unsynchronised(FullyShardedDataParallel):
    """FSDP1 sends the weights of rank 0 to the others on GPUs only; a model with tied weights is read by every rank."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "sync_module_states": False})


def build(path: str, strategy: str, packed: bool, rank: int) -> Any:
    model = HFModelConfig(
        path=path,
        use_remove_padding=packed,
        enable_gradient_checkpointing=False,
        lora_rank=rank,
        lora_alpha=8,
        override_config={"attn_implementation": "eager"},
    )
    engine = EngineRegistry.new(
        model_type="language_model",
        backend=strategy,
        model_config=model,
        engine_config=FSDPEngineConfig(
            strategy=strategy, use_torch_compile=False, mixed_precision={"param_dtype": "fp32"}
        ),
        optimizer_config=FSDPOptimizerConfig(lr=1e-3, total_training_steps=1),
        checkpoint_config=CheckpointConfig(),
    )
    engine.initialize()
    return engine


def first_digit(text: str) -> int | None:
    return next((place for place, letter in enumerate(text) if letter.isdigit()), None)


def batch(
    packed: bool, position: str, *, dynamic: bool, layer: str | None = None
) -> tuple[TensorDict, list[torch.Tensor]]:
    draws = torch.Generator().manual_seed(int(os.environ["RANK"]))
    rows = [torch.randint(0, 60, (p + r,), generator=draws) for p, r in zip(PROMPTS, RESPONSES, strict=True)]
    jagged = {
        "input_ids": rows,
        "position_ids": [torch.arange(len(row)) for row in rows],
        "responses": [row[-r:] for row, r in zip(rows, RESPONSES, strict=True)],
        "prompts": [row[:p] for row, p in zip(rows, PROMPTS, strict=True)],
        "response_mask": [torch.ones(r, dtype=torch.int64) for r in RESPONSES],
        "loss_mask": [torch.ones(r, dtype=torch.int64) for r in RESPONSES],
        "rm_scores": [torch.arange(1.0, r + 1) for r in RESPONSES],
    }
    fields = {name: torch.nested.as_nested_tensor(values, layout=torch.jagged) for name, values in jagged.items()}
    data = TensorDict(fields, batch_size=len(rows))
    options = {
        "temperature": 1.0, "use_remove_padding": packed, "use_dynamic_bsz": dynamic, "max_token_len_per_gpu": 16,
        "micro_batch_size_per_gpu": 2, "use_fused_kernels": False, "calculate_entropy": True,
        "pad_mode": DatasetPadMode.NO_PADDING, POSITION_KEY: position,
    }  # fmt: skip
    if layer is not None:
        options[LAYER_KEY] = layer
    for key, value in options.items():
        if not (dynamic and key == "micro_batch_size_per_gpu"):
            tu.assign_non_tensor(data, **{key: value})
    return data, rows


def answers(rows: list[torch.Tensor]) -> list[int]:
    responses = [row[-response:].tolist() for row, response in zip(rows, RESPONSES, strict=True)]
    return [next((place for place, token in enumerate(ids) if DIGIT <= token < 62), -1) for ids in responses]


def expected(path: str, rows: list[torch.Tensor], position: str, layers: tuple[int, ...] = (-1,)) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager").eval()
    found = []
    for row, response, answer in zip(rows, RESPONSES, answers(rows), strict=True):
        with torch.no_grad():
            hidden = model(input_ids=row[None], output_hidden_states=True).hidden_states
        states = torch.cat([hidden[layer][0] for layer in layers], dim=1)
        before = states[-2] if answer < 0 else states[len(row) - response + answer - 1]
        at = {"final": states[-1], "predicting": states[-2], "mean": states[-response:].mean(0), "answer_start": before}
        found.append(at[position])
    return torch.stack(found)


def run(engine: Any, data: TensorDict) -> dict[str, torch.Tensor]:
    with engine.eval_mode():
        return engine.infer_batch(data)["model_output"]


def stir(engine: Any) -> None:
    """Gives the LoRA adapters, which start at zero, something to do."""
    draws = torch.Generator().manual_seed(5)
    for name, parameter in engine.module.named_parameters():
        if "lora_B" in name:
            local = getattr(parameter.data, "_local_tensor", parameter.data)
            local.copy_(torch.randn(local.shape, generator=draws))


def check(path: str, strategy: str, packed: bool, lora: int) -> dict[str, Any]:
    if strategy == "fsdp":
        path = f"{path}_tied"
    engine = build(path, strategy, packed, lora)
    found: dict[str, Any] = {"engine": type(engine).__name__}
    if lora:
        stir(engine)
        data, rows = batch(packed, "predicting", dynamic=False)
        outputs = run(engine, data)
        states = torch.stack([state.reshape(-1) for state in outputs[HIDDEN_KEY].unbind()])
        head = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).lm_head.weight
        last = torch.stack([row[-1] for row in rows])
        own = torch.log_softmax(states @ head.T, -1)[torch.arange(len(rows)), last]
        # verl's log-probability of the last token stands one place before the end of each row.
        theirs = torch.stack([row[-2] for row in outputs["log_probs"].unbind()])
        found["head"] = float((own - theirs).abs().max())
        found["adapted"] = float((states - expected(path, rows, "predicting")).abs().max())
        return found
    for position in HIDDEN_POSITIONS:
        data, rows = batch(packed, position, dynamic=packed)
        outputs = run(engine, data)
        states = outputs[HIDDEN_KEY].unbind()
        # 1 + ... + r, and the key of each response, beside the states.
        assert [float(value) for value in outputs[REWARD_KEY].unbind()] == [r * (r + 1) / 2 for r in RESPONSES]
        keys = response_keys(row[-r:].tolist() for row, r in zip(rows, RESPONSES, strict=True))
        assert [int(value) for value in outputs[RESPONSE_KEY].unbind()] == keys.tolist()
        if position == "answer_start":
            assert [int(start) for start in outputs[ANSWER_KEY].unbind()] == answers(rows)
        assert all(state.shape == (1, 16) and state.dtype == torch.float32 for state in states)
        ours = torch.stack([state.reshape(-1) for state in states])
        found[position] = float((ours - expected(path, rows, position)).abs().max())
    data, rows = batch(packed, "mean", dynamic=packed, layer="[2, 0, 0.5]")
    ours = torch.stack([state.reshape(-1) for state in run(engine, data)[HIDDEN_KEY].unbind()])
    found["layers"] = float((ours - expected(path, rows, "mean", (2, 0, 1))).abs().max())
    data, _ = batch(packed, "final", dynamic=False)
    del data[POSITION_KEY]
    found["unasked"] = HIDDEN_KEY in run(engine, data)
    return found


def main() -> None:
    path, folder = sys.argv[1], Path(sys.argv[2])
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    transformer_impl.FSDP = Unsynchronised
    geoalign.hidden.answer_tokens.answer_start = first_digit
    found = {}
    for name, case in CASES.items():
        found[name] = check(path, *case)
        (folder / f"rank-{os.environ['RANK']}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
