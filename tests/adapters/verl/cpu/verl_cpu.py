"""A CPU platform and a CPU rollout server for verl 0.9, for tests only, through verl's own registries.

verl imports it in every process by `VERL_USE_EXTERNAL_MODULES=verl_cpu`. Where verl has no registry for a device (the
backend of torch.distributed, pinned memory of a reference model under FSDP2), the one line is replaced here.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import Any

import torch
import verl.utils.distributed as distributed
from torch.distributed.fsdp import CPUOffloadPolicy
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


class _Device:
    """What torch.cuda is to a GPU: memory that is never short, streams that are never late."""

    def __getattr__(self, name: str) -> Any:
        if "memory" in name or name == "device_count":
            return lambda *args, **options: 0
        known = {
            "mem_get_info": lambda *args: (1 << 33, 1 << 34),
            "get_device_name": lambda *args: "CPU",
            "is_available": lambda *args: False,
            "get_rng_state": torch.get_rng_state,
            "set_rng_state": torch.set_rng_state,
        }
        return known.get(name, lambda *args, **options: None)


def _nothing(self: Any, *args: Any, **options: Any) -> None:
    return None


def _cpu_platform() -> type[PlatformBase]:
    body: dict[str, Any] = dict.fromkeys(PlatformBase.__abstractmethods__, _nothing)
    body |= {
        "device_name": property(lambda self: "cpu"),
        "vendor_name": property(lambda self: "cpu"),
        "device_module": property(lambda self: _Device()),
        "is_available": lambda self: True,
        "is_platform_available": lambda self, use_smi_check=False: True,
        "current_device": lambda self: "cpu",
        "device_count": lambda self: 1,
        "get_device_capability": lambda self, index=0: (None, None),
        "communication_backend_name": lambda self: "gloo",
        "visible_devices_envvar": lambda self: "CUDA_VISIBLE_DEVICES",
        # Ray counts GPUs that it is told of; nothing looks for one.
        "ray_resource_name": lambda self: "GPU",
        "ray_resource_options": lambda self, number: {"num_gpus": number},
        "ray_noset_envvars": lambda self: [],
        "rollout_env_vars": lambda self: {},
        "is_ipc_supported": lambda self: False,
        "nvtx_range": lambda self, message: nullcontext(),
    }
    return type("PlatformCPU", (PlatformBase,), body)


PlatformRegistry.register(platform="cpu")(_cpu_platform())

_process_group = distributed.initialize_global_process_group_ray


def _gloo(timeout_second: int | None = None, backend: str | None = None) -> None:
    # verl asks for "cpu:gloo,<device>:<backend>", which names the CPU twice here.
    _process_group(timeout_second, "gloo")


distributed.initialize_global_process_group_ray = _gloo


def _register() -> None:
    from verl.workers.engine.base import EngineRegistry
    from verl.workers.engine.fsdp import transformer_impl
    from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead
    from verl.workers.rollout.base import _ROLLOUT_REGISTRY
    from verl.workers.rollout.replica import RolloutReplicaRegistry

    # Memory is pinned for an accelerator only.
    transformer_impl.CPUOffloadPolicy = lambda pin_memory: CPUOffloadPolicy(pin_memory=False)
    backends = ["fsdp", "fsdp2"]
    EngineRegistry.register(model_type="language_model", backend=backends, device="cpu")(FSDPEngineWithLMHead)
    if os.environ.get("VERL_ENGINE_VENDOR") == "geoalign":
        from geoalign.adapters.verl.engine import GeoAlignFSDPEngine

        EngineRegistry.register(model_type="language_model", backend=backends, device="cpu", vendor="geoalign")(
            GeoAlignFSDPEngine
        )
    _ROLLOUT_REGISTRY["cpu", "async"] = "verl_cpu_rollout.CPUAdapter"

    def replica() -> Any:
        from verl_cpu_rollout import CPUReplica

        return CPUReplica

    RolloutReplicaRegistry.register("cpu", replica)


_register()
