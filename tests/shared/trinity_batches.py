"""Experiences, Trinity-RFT's configuration and its own pipeline, for the tests that run in its environment."""

from __future__ import annotations

import asyncio
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import torch

# By its distribution: a folder of tests called trinity can be imported too.
if "trinity-rft" not in packages_distributions().get("trinity", []):
    pytest.skip("trinity-rft is not installed here: make test-trinity", allow_module_level=True)

STUBS = Path(__file__).parents[1] / "engines" / "trinity_stubs"
sys.path.insert(0, str(STUBS))
sys.path.insert(0, str(Path(__file__).parents[1] / "adapters"))

OPERATOR = "geoalign.adapters.trinity.GeoAlignOperator"
ADVANTAGE = "geoalign.adapters.trinity.GeoAlignAdvantage"
PROJECTOR = {"hidden_dim": 8, "output_dim": 8, "steps": 5}
GEOALIGN = {"type": "geoalign", "alpha": 0.3, "min_scores": 8, "projector": PROJECTOR}
TASKS = 6
RUNS = 8
NAMESPACE = "geoalign_test"


def rollouts(*, states=True, wrong=True, batch=0):
    """Experiences as a workflow makes them: a task's first four runs are right; one run of each is judged wrongly."""
    from trinity.common.experience import EID, Experience

    draws = torch.Generator().manual_seed(batch)
    good = torch.randn(16, generator=torch.Generator().manual_seed(99))
    found = []
    for task in range(TASKS):
        for run in range(RUNS):
            right = run < 4
            state = torch.randn(16, generator=draws) * 0.3 + (good if right else -good)
            response = 3 + run % 3
            found.append(
                Experience(
                    eid=EID(batch=batch, task=task, run=run),
                    tokens=torch.arange(4 + response) + 20 * task + 2 * run,
                    prompt_length=4,
                    reward=float(right != (wrong and run == task % 4)),
                    logprobs=torch.full((response,), -float(run)),
                    info={"model_version": 0, "run": run, **({"geoalign_hidden": state.tolist()} if states else {})},
                )
            )
    return found


def settings(folder, *, operators=(), advantage="grpo", arguments=None, sync="memory"):
    """Trinity's own configuration, as its YAML gives it; its buffer is a table of this process, without Ray."""
    from trinity.common.config import Config, ExperiencePipelineConfig, OperatorConfig, StorageConfig
    from trinity.common.constants import SyncMethod

    folder.mkdir(exist_ok=True)
    config = Config()
    config.mode, config.ray_namespace, config.checkpoint_root_dir = "both", NAMESPACE, str(folder)
    config.checkpoint_job_dir = str(folder)
    config.algorithm.algorithm_type, config.algorithm.repeat_times = "grpo", RUNS
    config.algorithm.advantage_fn, config.algorithm.advantage_fn_args = advantage, arguments or {}
    config.synchronizer.sync_method = SyncMethod(sync)
    config.data_processor.experience_pipeline = ExperiencePipelineConfig(
        save_input=False, operators=[OperatorConfig(name=name, args=args) for name, args in operators]
    )
    config.buffer.trainer_input.experience_buffer = StorageConfig(
        name=f"buffer_{folder.parent.name}_{folder.name}",
        storage_type="sql",
        schema_type="experience",
        path=f"sqlite:///{folder}/buffer.db",
        wrap_in_ray=False,
    )
    return config


async def processed(config, batch):
    """What the trainer reads after a batch, and the pipeline's metrics."""
    from trinity.buffer import get_buffer_reader
    from trinity.buffer.pipelines.experience_pipeline import ExperiencePipeline
    from trinity.common.experience import Experience

    pipeline = ExperiencePipeline(config)
    reader = get_buffer_reader(config.buffer.trainer_input.experience_buffer)
    try:
        await pipeline.prepare()
        metrics = await pipeline.process(Experience.serialize_many(batch))
        rows = await reader.read(batch_size=int(metrics["experience_pipeline/experience_count"]))
    finally:
        await pipeline.close()
        await disconnect(pipeline.output)
        await disconnect(reader)
    return in_order(rows), metrics


async def disconnect(end):
    """Closes the connection of one end of a table, which Trinity leaves to the end of the process."""
    storage = getattr(end, "_async_storage", None)
    if storage is not None:
        await storage.engine.dispose()


def in_order(rows):
    return sorted(rows, key=lambda row: (row.eid.task, row.eid.run))


def through(config, batch):
    return asyncio.run(processed(config, batch))


def by_place(rows):
    """Rows by task and run. A task's number comes back from Trinity's table as a text."""
    return {place_of(row): row for row in rows}


def place_of(row):
    return int(row.eid.task), row.eid.run
