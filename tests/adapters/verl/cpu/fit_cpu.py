"""verl's own task, `TaskRunnerV1.run`, on CPUs with one driver: real Ray, TransferQueue, FSDP2, agent loops, rewards.

    python fit_cpu.py FOLDER NAME [--kill-in-step N] SETTING...

Reads the model and the prompts that `make_inputs.py` put into FOLDER, trains under verl's configuration and these
settings, and writes what each step did to FOLDER/NAME.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
import torch
import transfer_queue as tq
import verl  # noqa: F401  (loads the CPU platform and the plug-in)
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from verl.trainer.main_ppo import TaskRunnerV1
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.trainer.ppo.v1 import get_trainer_cls, register_trainer
from verl.utils.config import validate_config

from geoalign.adapters.verl.keys import HIDDEN_KEY, RESPONSE_KEY, REWARD_KEY

HERE = Path(__file__).parent
# What is noted of each row, where it has it.
FIELDS = ["uid", "input_ids", "position_ids", "responses", "response_mask", "loss_mask", "rm_scores", "advantages"]
FIELDS += ["rollout_log_probs", "old_log_probs", "ref_log_prob", HIDDEN_KEY, REWARD_KEY, RESPONSE_KEY]


def settings(folder: Path, name: str) -> list[str]:
    """What every run shares: two workers, four prompts of eight responses, nothing compiled, float32."""
    return [
        f"data.train_files={folder}/prompts.parquet", f"data.val_files={folder}/prompts.parquet",
        "data.train_batch_size=4", "data.max_prompt_length=16", "data.max_response_length=16",
        "data.dataloader_num_workers=0", "data.shuffle=False", "data.val_max_samples=2",
        f"actor_rollout_ref.model.path={folder}/model",
        "+actor_rollout_ref.model.override_config.attn_implementation=eager",
        "actor_rollout_ref.model.use_remove_padding=False", "actor_rollout_ref.actor.strategy=fsdp2",
        "actor_rollout_ref.actor.ppo_mini_batch_size=4", "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4",
        "actor_rollout_ref.actor.use_torch_compile=False",
        "actor_rollout_ref.actor.fsdp_config.use_torch_compile=False",
        "actor_rollout_ref.actor.fsdp_config.model_dtype=fp32",
        "+actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=fp32",
        "actor_rollout_ref.actor.optim.lr=1e-2", "actor_rollout_ref.rollout.name=cpu", "actor_rollout_ref.rollout.n=8",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=2",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=4",
        "actor_rollout_ref.rollout.agent.num_workers=1", "actor_rollout_ref.rollout.calculate_log_probs=True",
        "algorithm.adv_estimator=grpo", "reward.num_workers=1", f"reward.custom_reward_function.path={HERE}/reward.py",
        "trainer.n_gpus_per_node=2", "trainer.device=cpu", f"trainer.default_local_dir={folder}/{name}",
        "trainer.logger=[file]", "trainer.val_before_train=False",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    ]  # fmt: skip


class Recorded:
    """Notes the rows around `_compute_advantage` and the workers' weights after each step; rows come in one order."""

    kill_in_step = -1

    def __init__(self, config: Any) -> None:
        # verl asks for its own modes by name.
        config.trainer.v1.trainer_mode = self.base_mode
        super().__init__(config)
        # Rows are ready within a second here; verl looks for them every other second.
        self.replay_buffer.poll_interval = 0.2

    def _balance_batch(self, batch: Any, *args: Any, **options: Any) -> Any:
        # uids are random and rows come as they are done: the same rows in the same order make runs comparable.
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["input_ids"])
        ids = [row.tolist() for row in data["input_ids"].unbind()]
        batch.reorder(sorted(range(len(ids)), key=ids.__getitem__))
        return super()._balance_batch(batch, *args, **options)

    def _compute_advantage(self, batch: Any, metrics: Any) -> Any:
        if self.global_steps == self.kill_in_step:
            worker = self.actor_rollout_wg.workers[1]
            os.kill(ray.get(worker.__ray_call__.remote(lambda self: os.getpid())), signal.SIGKILL)
            # Until Ray has noticed, a dead actor is "unavailable", or its peer's broken connection is the first error.
            with suppress(ray.exceptions.ActorDiedError):
                while True:
                    with suppress(ray.exceptions.ActorUnavailableError):
                        ray.get(worker.__ray_ready__.remote())
        source = given = None
        if pending := getattr(self, "_pending", None):
            assignment = pending[1].result().assignment
            source = assignment.source.tolist()
            given = None if assignment.advantages is None else assignment.advantages.tolist()
        before = self._rows(batch)
        result = super()._compute_advantage(batch, metrics)
        record = {"step": self.global_steps, "source": source, "before": before, "after": self._rows(result)}
        record["given"] = given
        record["metrics"] = {key: value for key, value in metrics.items() if key.startswith("geoalign/")}
        self.records.append(record)
        return result

    def on_step_end(self) -> None:
        super().on_step_end()
        self.records[-1]["weights"] = [
            ray.get(worker.__ray_call__.remote(_digest)) for worker in self.actor_rollout_wg.workers
        ]

    def _rows(self, batch: Any) -> list[dict[str, Any]]:
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=FIELDS)
        rows: list[dict[str, Any]] = [{"key": key, **tag} for key, tag in zip(batch.keys, batch.tags, strict=True)]
        held = set(data.keys())
        for name in [name for name in FIELDS if name in held]:
            column = data[name].unbind() if isinstance(data[name], torch.Tensor) else list(data[name])
            for row, value in zip(rows, column, strict=True):
                value = getattr(value, "data", value)
                row[name] = value.tolist() if isinstance(value, torch.Tensor) else value
        return rows


def _digest(worker: Any) -> str:
    """A digest of this worker's part of the weights."""
    inner = next(part for part in worker.worker_dict.values()) if hasattr(worker, "worker_dict") else worker
    state = hashlib.sha256()
    for _, parameter in sorted(inner.actor.engine.module.named_parameters()):
        local = getattr(parameter.data, "_local_tensor", parameter.data)
        state.update(local.detach().cpu().contiguous().numpy().tobytes())
    return state.hexdigest()


def watch(mode: str, kill_in_step: int) -> tuple[str, list[dict[str, Any]]]:
    """Registers a recorded form of the mode's trainer; returns its name and where it writes."""
    records: list[dict[str, Any]] = []
    body = {"records": records, "kill_in_step": kill_in_step, "base_mode": mode.removeprefix("geoalign_")}
    register_trainer("watched")(type("Watched", (Recorded, get_trainer_cls(mode)), body))
    return "watched", records


def start_ray(tries: int = 3) -> None:
    """A Ray of this process's own, with cores and GPUs that are only counted.

    Ray gives its agents 15 seconds to come up, which on a busy machine may be too short: then it is started again.
    """
    handed_down = ("VERL_", "PYTHONPATH", "GEOALIGN_FORKS")
    variables = {name: value for name, value in os.environ.items() if name.startswith(handed_down)}
    variables["TRANSFER_QUEUE_ENABLE"] = "1"
    for left in reversed(range(tries)):
        try:
            ray.init(
                num_cpus=64,
                num_gpus=4,
                include_dashboard=False,
                object_store_memory=200_000_000,
                logging_level="ERROR",
                runtime_env={"env_vars": variables, "py_executable": f"{sys.executable} -I -S {HERE}/fork_python.py"},
            )
            return
        except Exception as error:
            if not left or "timed out during startup" not in str(error):
                raise
            print(f"Ray did not come up ({error}); {left} more tries")
            ray.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("name")
    parser.add_argument("--kill-in-step", type=int, default=-1)
    parser.add_argument("settings", nargs="*")
    asked = parser.parse_intermixed_args()
    torch.set_num_threads(1)
    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer", overrides=[*settings(asked.folder, asked.name), *asked.settings])
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=need_critic(config))
    config.trainer.v1.trainer_mode, records = watch(config.trainer.v1.trainer_mode, asked.kill_in_step)
    start_ray()
    try:
        TaskRunnerV1.__ray_metadata__.modified_class().run(OmegaConf.create(config))
    finally:
        (asked.folder / f"{asked.name}.json").write_text(json.dumps(records))
        ray.shutdown()


if __name__ == "__main__":
    main()
