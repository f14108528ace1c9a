"""The tiny training that the tests run through Axolotl's own configuration and `train`, and what entered its loss."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from axolotl.cli.args import TrainerCliArgs
from axolotl.cli.config import load_cfg
from axolotl.common.datasets import load_preference_datasets
from axolotl.core.trainers.grpo.trainer import AxolotlGRPOTrainer
from axolotl.train import train as axolotl_train
from axolotl.utils.dict import DictDefault
from trl_parts import entering, model, tokenizer

from geoalign.adapters.axolotl import CuratedAxolotlTrainer, trainer
from geoalign.adapters.trl import GeoAlignMixin

PLUGIN = "geoalign.adapters.axolotl.GeoAlignPlugin"
# What the reward function `told` says of the rows of a batch.
verdicts: list[float | None] = []


def told(completions, prompts=None, **columns):
    return list(verdicts)


def first_characters(rows):
    """What stands for the answer of a response: its first character."""
    return [row["completion"][:1] for row in rows]


class Recorded:
    """Remembers itself, and (prompt, response, advantage) of every row that it will train on, in their order."""

    made: Any = None

    def __init__(self, *args, **kwargs):
        self.entered: list[tuple[str, str, float]] = []
        super().__init__(*args, **kwargs)
        Recorded.made = self

    def _generate_and_score_completions(self, inputs):
        batch = super()._generate_and_score_completions(inputs)
        self.entered += entering(self, batch)
        return batch


class Plain(Recorded, AxolotlGRPOTrainer):
    """Axolotl's own trainer."""


class Curated(Recorded, CuratedAxolotlTrainer):
    """The adapter's."""


class OfTheUser(Recorded, GeoAlignMixin, AxolotlGRPOTrainer):
    """A trainer as docs/axolotl.md shows one, without the plugin."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, curator="denoise", hidden_position="mean", log_metrics="all", **kwargs)


def prepare(folder: Path) -> Path:
    model().save_pretrained(folder / "model")
    tokenizer().save_pretrained(folder / "model")
    rows = [{"prompt": f"{i}+{i + 1}=", "gold": str(i)} for i in range(32)]
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def configuration(inputs: Path, folder: Path, section: Any = None, **changes: Any) -> DictDefault:
    """A configuration as a user writes it, not yet checked; `section`: that of the curator, with the plugin."""
    grpo = {"beta": 0.0, "num_generations": 4, "max_completion_length": 6, "reward_funcs": ["trl_parts.digits"]}
    values = {
        "base_model": str(inputs / "model"), "tokenizer_type": "PreTrainedTokenizerFast", "rl": "grpo",
        "datasets": [{"path": str(inputs / "data.jsonl"), "ds_type": "json", "split": "train"}],
        "dataset_prepared_path": str(inputs / "prepared"), "dataset_num_proc": 1, "sequence_len": 64,
        "micro_batch_size": 8, "gradient_accumulation_steps": 1, "num_epochs": 1, "max_steps": 2,
        "learning_rate": 1e-2, "weight_decay": 0.0, "optimizer": "adamw_torch", "lr_scheduler": "constant",
        "logging_steps": 1, "bf16": False, "fp16": False, "tf32": False, "seed": 3, "save_strategy": "no",
        "output_dir": str(folder), "dataloader_pin_memory": False, "dataloader_num_workers": 0,
    }  # fmt: skip
    values.update(changes)
    values["trl"] = {**grpo, **changes.get("trl", {})}
    if section is not None:
        values |= {"plugins": [PLUGIN], "geoalign": section}
    return DictDefault(values)


def train(inputs, folder, section=None, *, curator=None, monkeypatch=None, **changes):
    """The trainer after a training; without a section Axolotl's own. `curator`: an object in the settings' place."""
    cfg = load_cfg(configuration(inputs, folder, section, **changes))
    if "trainer_cls" not in changes:
        cfg.trainer_cls = f"axolotl_parts.{'Plain' if section is None else 'Curated'}"
    if curator is not None:
        read = trainer.registered_settings()
        with_object = SimpleNamespace(**{**vars(read), "curator": curator})
        monkeypatch.setattr(trainer, "registered_settings", lambda: with_object)
    data = load_preference_datasets(cfg=cfg, cli_args=TrainerCliArgs())
    axolotl_train(cfg=cfg, dataset_meta=data)
    return Recorded.made
