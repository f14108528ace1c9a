from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def cluster():
    """A Ray of its own, whose processes see the stand-in for vLLM."""
    import ray
    from trinity_batches import NAMESPACE, STUBS

    paths = [str(STUBS), str(Path(__file__).parents[1] / "adapters"), os.environ.get("PYTHONPATH", "")]
    # Ray gives up on its own processes after half a minute, which a busy machine may need longer than.
    os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "120")
    for attempt in range(3):
        try:
            ray.init(
                num_cpus=2,
                namespace=NAMESPACE,
                include_dashboard=False,
                logging_level="ERROR",
                runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, paths))}},
            )
            break
        except Exception:
            ray.shutdown()
            if attempt == 2:
                raise
    yield
    ray.shutdown()
