from __future__ import annotations

import sys
from pathlib import Path

import pytest
from checkouts import use_checkout

sys.path.insert(0, str(Path(__file__).parent))
# What trains, which `rllm.trainer` imports beside the advantages, and its configuration's packages.
STAND_INS = (
    "codetiming", "omegaconf", "rllm.trainer.unified_trainer", "rllm.trainer.agent_trainer",
    "rllm.trainer.agent_sft_trainer",
    *(f"rllm.trainer.algorithms.{name}" for name in
      ("performance", "visualization", "transform", "rejection_sampling", "metrics")),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _rllm(monkeypatch):
    """rLLM's own types, registry and advantages; what trains is stood in for."""
    use_checkout(monkeypatch, "GEOALIGN_RLLM", "rllm", stand_ins=STAND_INS)
