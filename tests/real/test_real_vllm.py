"""The real vLLM, its build for CPUs, by the command: run by `make test-vllm`, in an environment of its own."""

import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif("vllm" not in packages_distributions(), reason="vLLM is not installed (make test-vllm)"),
]

ASKED = Path(__file__).parents[2] / "recipes" / "rollouts" / "substring_reward.jsonl"
VLLM = ["engine=vllm", "vllm.enforce_eager=true", "vllm.max_model_len=512"]


def evaluate(model: Path, folder: Path, *settings: str):
    """The command, greedily: its process and its rows."""
    command = [sys.executable, "-m", "geoalign", "evaluate", model, "--dialogue", f"asked={ASKED}", "--greedy"]
    shared = ("dtype=float32", "max_new_tokens=32", "problems=16")
    command += [word for setting in (*shared, *settings) for word in ("--set", setting)]
    process = subprocess.run([*command, "--output", folder], capture_output=True, text=True, check=False)
    return process, [row for part in sorted(folder.rglob("*.parquet")) for row in pq.read_table(part).to_pylist()]


def test_vllm_gives_the_texts_of_transformers(smollm2: Path, tmp_path: Path) -> None:
    """Token for token but in one of sixteen: two tokens may be equally likely up to rounding."""
    process, ours = evaluate(smollm2, tmp_path / "vllm", *VLLM, "vllm.kv_cache_memory_bytes=1073741824")
    assert process.returncode == 0, process.stderr
    assert "EngineCore" in process.stdout  # vLLM's own lines
    _, theirs = evaluate(smollm2, tmp_path / "transformers", "device=cpu")
    texts = [[(row["id"], row["response"], row["tokens"]) for row in rows] for rows in (ours, theirs)]
    assert len({text for _, text, _ in texts[1]}) == len(texts[0]) == 16
    assert sum(one == other for one, other in zip(*texts, strict=True)) >= 15


def test_an_engine_that_dies_is_one_named_error(smollm2: Path, tmp_path: Path) -> None:
    process, rows = evaluate(smollm2, tmp_path / "dead", *VLLM, "vllm.gpu_memory_utilization=0.99")
    assert (process.returncode, rows) == (2, [])
    assert process.stderr.splitlines()[-1].startswith("Error: vllm: expected a model that it loads, got ")
    # Of a worker's failure vLLM's engine says only this much; the worker's own words stand among vLLM's lines.
    assert "WorkerProc initialization failed" in process.stderr
    assert "less than desired CPU memory utilization (0.99" in process.stdout
