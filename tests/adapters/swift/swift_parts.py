"""The tiny training that the tests run through ms-swift's own `rlhf_main`, and what entered its loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from swift.pipelines import rlhf_main
from swift.rewards import orms
from swift.rlhf_trainers.grpo_trainer import GRPOTrainer
from swift.trainers import TrainerFactory
from trl_parts import digits, has_digit, length, model, tokenizer

from geoalign.adapters.swift import GeoAlignSwiftTrainer, install

OWN = dict(TrainerFactory.TRAINER_MAPPING)


def broken(completions, **columns):
    raise OSError("the judge is away")


async def slow_broken(completions, **columns):
    raise OSError("the judge is away")


for function in (digits, has_digit, length, broken, slow_broken):
    orms[function.__name__] = lambda args=None, function=function: function


class Recorded:
    """Remembers itself, and (prompt, response, advantage) of every row that entered a loss."""

    made: Any = None

    def __init__(self, *args, **kwargs):
        self.entered: list[tuple[str, str, float]] = []
        self.inputs: Any = None
        super().__init__(*args, **kwargs)
        Recorded.made = self

    def compute_loss(self, model, inputs, *args, **kwargs):
        if self.model.training:
            batch, ids = inputs["grpo_batch"], inputs["model_inputs"]["input_ids"]
            decode = self.template.tokenizer.decode
            for row, mask in enumerate(batch.completion_mask):
                prompt, response = ids[row][: -batch.logits_to_keep], ids[row][-batch.logits_to_keep :]
                advantage = float(batch.advantages[row][mask.bool()][0]) if mask.any() else 0.0
                self.entered.append((decode(prompt), decode(response[mask.bool()]), advantage))
        self.inputs = inputs
        return super().compute_loss(model, inputs, *args, **kwargs)


class Plain(Recorded, GRPOTrainer):
    """ms-swift's own trainer."""


class Curated(Recorded, GeoAlignSwiftTrainer):
    """The adapter's."""


def prepare(folder: Path) -> Path:
    model().save_pretrained(folder / "model")
    tokenizer(None).save_pretrained(folder / "model")
    rows = [{"messages": [{"role": "user", "content": f"{i}+{i + 1}="}], "gold": str(i)} for i in range(32)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


FIXED = """
rlhf_type grpo  model_type qwen3  template default  split_dataset_ratio 0  reward_funcs digits  tuner_type full
torch_dtype float32  attn_impl eager  use_cpu true  check_model false  gradient_checkpointing false  add_version false
per_device_train_batch_size 8  gradient_accumulation_steps 1  num_generations 4  max_completion_length 6  max_length 64
max_steps 2  logging_steps 1  save_strategy no  learning_rate 1e-2  weight_decay 0.0  beta 0.0  seed 3  loss_type grpo
report_to none  dataset_num_proc 1  dataloader_num_workers 0  log_completions true
"""


def arguments(inputs: Path, folder: Path, **changes: Any) -> list[str]:
    words = iter(FIXED.split())
    paths = {"model": inputs / "model", "dataset": inputs / "data.jsonl", "output_dir": folder}
    values = {**dict(zip(words, words, strict=True)), **paths, **changes}
    line = []
    for name, value in values.items():
        line += [f"--{name}", *([str(item) for item in value] if isinstance(value, (list, tuple)) else [str(value)])]
    return line


def train(inputs, folder, curator=None, *, settings=None, rollout_fields=None, **changes):
    """The trainer after a training by `rlhf_main`; without a curator and settings ms-swift's own."""
    TrainerFactory.TRAINER_MAPPING.update(OWN)
    plain = curator is None and settings is None
    if not plain:
        install(settings or {"log_metrics": "all"}, curator=curator, rollout_fields=rollout_fields)
    TrainerFactory.TRAINER_MAPPING["grpo"] = f"swift_parts.{'Plain' if plain else 'Curated'}"
    Recorded.made = None
    rlhf_main(arguments(inputs, folder, **changes))
    return Recorded.made


def table(folder):
    """The columns of the completions table, all steps one after the other."""
    columns: dict[str, list[Any]] = {}
    for line in (folder / "completions.jsonl").read_text().splitlines():
        for name, values in json.loads(line).items():
            columns.setdefault(name, []).extend(values)
    return columns
