"""Hidden states of verl's engines against Hugging Face's, in two processes on gloo."""

from __future__ import annotations

import json
import socket
from importlib.metadata import packages_distributions

import pytest
from verl_runs import finish, run, start

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif("verl" not in packages_distributions(), reason="verl is not installed (make test-verl)"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engines")
    run("make_inputs.py", folder, folder=folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
    ranks = [{"RANK": rank, "LOCAL_RANK": rank, **place} for rank in "01"]
    for process in [start("engine_states.py", folder / "model", folder, folder=folder, **rank) for rank in ranks]:
        finish(process)
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in (0, 1)]


@pytest.mark.parametrize("case", ["fsdp2 padded", "fsdp2 packed", "fsdp padded", "fsdp packed"])
def test_hidden_states_equal_hugging_faces(found, case):
    for rank in found:
        assert rank[case]["engine"] == "GeoAlignFSDPEngine"
        for position in ("final", "predicting", "mean", "answer_start", "layers"):
            assert rank[case][position] < 1e-5, (case, position)


@pytest.mark.parametrize("case", ["fsdp2 padded", "fsdp packed"])
def test_a_pass_that_does_not_ask_gets_none(found, case):
    assert not any(rank[case]["unasked"] for rank in found)


def test_lora_gives_the_adapted_models_states(found):
    """The head on the state at the predicting token gives verl's own log-probability of the last token."""
    for rank in found:
        assert rank["fsdp2 lora"]["head"] < 1e-5
        assert rank["fsdp2 lora"]["adapted"] > 1e-3
