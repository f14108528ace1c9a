"""Groups that span processes: two processes on gloo, several checks."""

import json
import os
from pathlib import Path

import pytest
import torch
from forked import run_ranks
from trl_parts import Recording
from two_processes import by_curator

SCRIPT = Path(__file__).parents[1] / "two_processes.py"


def of_both(ranks, check):
    """What a check of the script found on rank 0 and on rank 1."""
    return ranks[0][check], ranks[1][check]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two_processes")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "TOKENIZERS_PARALLELISM": "false"}
    for done in run_ranks(2, SCRIPT, folder, env=environment):
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in (0, 1)]


def test_identity_is_plain_grpo_and_only_rank_0_curates(ranks):
    first, second = of_both(ranks, "identity")
    assert first["same"]
    assert second["same"]
    assert (first["calls"], second["calls"]) == (1, 0)
    assert first["groups"] == [0, 0, 0, 0, 1, 1]
    assert first["trusted"] == [False] * 4 + [True] * 2
    assert first["hidden"] == [6, 32]
    assert len(set(first["answers"][:4])) == 1
    assert first["answers"][4:] == ["3", "4"]
    assert first["true_rewards_match"]
    assert first["second_rewards_match"]


def test_donors_on_the_other_process(ranks):
    first, second = of_both(ranks, "donors_elsewhere")
    assert first["entered"] == first["expected"]
    assert len(first["entered"]) == 4
    assert (first["steps"], second["steps"]) == (1, 0)
    # The processes' own rows differed in width, so that the moved rows were padded on the way.
    assert any(max(lengths[:2]) != max(lengths[2:]) for lengths in first["lengths"])


def test_dropped_rows_are_counted_over_all_processes(ranks):
    first, second = of_both(ranks, "dropped")
    assert first["scale"] == second["scale"] == pytest.approx(4 / 3)
    assert first["kept"] == [True, True]
    assert second["kept"] == [True, False]
    assert first["tokens"] == second["tokens"] == first["expected_tokens"]
    kept = first["rewards"][:3]
    mean = sum(kept) / 3
    variance = sum((value - mean) ** 2 for value in kept) / 2
    deviation = variance**0.5
    expected = [(value - mean) / (deviation + 1e-4) for value in kept] + [0.0]
    assert first["advantages"] + second["advantages"] == pytest.approx(expected, abs=1e-4)


def test_rows_with_masks_from_the_other_process(ranks):
    for rank in ranks:
        found = rank["agents"]
        assert found["prompts"] == [[6, 7, 8]] * 2
        assert found["responses"] == [[20, 20, 20]] * 2
        assert found["masks"] == [[1, 0, 1]] * 2
        assert found["tokens"] == 8


def test_a_reward_that_fails_on_one_process(ranks):
    first, second = of_both(ranks, "failed")
    assert first["unscored"] == [False, False, True, True]
    # Rewards 1 and 2: (1 - 1.5) / (0.7071 + 1e-4) and the opposite; no statistic has the other rows.
    assert first["advantages"] == pytest.approx([-0.707, 0.707], abs=1e-3)
    assert second["advantages"] == [0.0, 0.0]


def test_an_error_on_rank_0_reaches_both(ranks):
    assert ranks[0]["failure"] == {"error": "ArithmeticError", "text": "no curation today"}
    assert ranks[1]["failure"]["error"] == "GeoAlignError"
    assert "rank 0" in ranks[1]["failure"]["text"]


def test_resume_in_two_processes(ranks):
    assert all(rank["resume"]["same"] for rank in ranks)
    # Rank 1 restores the call of the checkpoint and makes none itself.
    assert (ranks[0]["resume"]["calls"], ranks[1]["resume"]["calls"]) == (2, 1)


def test_sharded_weights_train_as_those_of_data_parallelism(ranks):
    """FSDP2, by either pass; labelled rollouts have the states of one process."""
    for rank in ranks:
        assert max(rank["sharded"]["apart"]) < 1e-5 < 1e-2 < rank["sharded"]["moved"]
        assert rank["sharded"]["labelled_rollouts"] < 1e-5


def test_sharded_weights_are_curated_as_in_one_process(ranks, tmp_path, monkeypatch):
    """FSDP2, an ordinary batch: states, scores, rewards and advantages up to rounding, by GeoAlign and denoise."""
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    alone = by_curator(tmp_path, Recording)
    found, other = of_both(ranks, "by_curator")
    assert list(found) == ["GeoAlign", "Denoise"]
    assert other == {}
    for name, seen in found.items():
        assert seen["rewards"] != seen["given"]
        for part, values in seen.items():
            expected = torch.tensor(alone[name][part])
            torch.testing.assert_close(torch.tensor(values), expected, atol=1e-5, rtol=1e-5)
