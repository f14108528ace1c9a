"""Samples with the fields of slime's, and what its rollout manager does with them, without slime."""

import json
from argparse import Namespace
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

BATCH = Path(__file__).parent / "slime" / "batch.json"


@dataclass
class Sample:
    """The fields of `slime.utils.types.Sample` (0.3.1) that a batch for training has."""

    class Status(Enum):
        PENDING = "pending"
        COMPLETED = "completed"
        TRUNCATED = "truncated"
        ABORTED = "aborted"
        FAILED = "failed"

    group_index: int | None = None
    index: int | None = None
    rollout_id: int | None = None
    prompt: str = ""
    tokens: list[int] = field(default_factory=list)
    response: str = ""
    response_length: int = 0
    label: str | None = None
    reward: Any = None
    loss_mask: list[int] | None = None
    rollout_log_probs: list[float] | None = None
    remove_sample: bool = False
    status: Status = Status.PENDING
    metadata: dict = field(default_factory=dict)

    @staticmethod
    def from_dict(data):
        return Sample(**{**data, "status": Sample.Status(data["status"])})


def arguments(section=None, **changes):
    values = {
        "advantage_estimator": "grpo", "normalize_advantages": False, "rewards_normalization": True,
        "grpo_std_normalization": True, "reward_key": None, "n_samples_per_prompt": 4, "rollout_batch_size": 3,
        "calculate_per_token_loss": False, "save": None, "load": None, "rollout_global_dataset": True,
        "data_source_path": "slime.rollout.data_source.RolloutDataSourceWithBuffer", "prompt_data": None,
        "custom_advantage_function_path": None, "use_dynamic_global_batch_size": False, "use_wandb": False,
        "use_tensorboard": False, "buffer_filter_path": None, "rollout_shuffle": False, "dump_details": None,
        **dict.fromkeys(["hf_checkpoint", "chat_template_path", "rollout_max_prompt_len", "input_key", "label_key",
                         "multimodal_keys", "metadata_key", "tool_key", "apply_chat_template", "rollout_seed",
                         "apply_chat_template_kwargs"]),
    }  # fmt: skip
    extra = {} if section is None else {"geoalign": section}
    return Namespace(**{**values, **extra, **changes})


def recorded(kind=Sample):
    return [kind.from_dict(row) for row in json.loads(BATCH.read_text())]
