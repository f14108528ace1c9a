"""A reward function that fails, in verl's own loader and reward managers: the row is unscored, never scored 0."""

import asyncio
import math
from importlib.metadata import packages_distributions
from types import SimpleNamespace

import pytest
import torch
from verl_parts import batch_of

from geoalign.adapters.assignment import assign
from geoalign.adapters.decision import decision_metrics, prefixed_metrics
from geoalign.adapters.verl.apply import apply_curation
from geoalign.adapters.verl.batch import read_rollouts
from geoalign.curators.curator import identity

pytestmark = [
    pytest.mark.engines,
    pytest.mark.skipif("verl" not in packages_distributions(), reason="verl is not installed (make test-verl)"),
]

# Scores a response by its number; fails on row 1 and takes too long on row 4.
REWARDS = """
import asyncio, time
from geoalign.adapters.verl import unscored_on_failure

def scored(data_source, solution_str, ground_truth, extra_info, factor, **rest):
    if solution_str == "4":
        time.sleep(5)
    return int(ground_truth) * factor / (int(solution_str) != 1)

async def scored_later(solution_str, **rest):
    await asyncio.sleep(5 if solution_str == "4" else 0)
    return scored(solution_str="0" if solution_str == "4" else solution_str, **rest)

compute_score = unscored_on_failure(scored, timeout=1.0)
compute_score_later = unscored_on_failure(scored_later, timeout=1.0)
"""
TRUE = [3.0, 1.0, 2.0, 7.0, 5.0, 5.0]


def rewards_of(folder, manager, name):
    """What a reward manager of verl's gives the six rows, one at a time as its agent loop asks."""
    from omegaconf import OmegaConf
    from verl import DataProto
    from verl.trainer.ppo.reward import load_reward_manager

    (folder / "rewards.py").write_text(REWARDS, encoding="utf-8")
    function = {"path": str(folder / "rewards.py"), "name": name, "reward_kwargs": {"factor": 10}}
    chosen = {"source": "register", "name": manager}
    config = {"custom_reward_function": function, "reward_manager": chosen, "timeout": 300.0, "max_concurrent": 6}
    tokenizer = SimpleNamespace(decode=lambda ids, skip_special_tokens: str(int(ids[0])))

    async def ask():
        loaded = load_reward_manager(OmegaConf.create({"reward": config}), tokenizer)
        loaded.loop = asyncio.get_running_loop()
        rows = []
        for row, true in enumerate(TRUE):
            tensors = {"responses": torch.tensor([[row]]), "attention_mask": torch.ones(1, 2, dtype=torch.long)}
            others = {"data_source": "a", "reward_model": {"ground_truth": str(int(true))}, "extra_info": {}}
            rows.append(DataProto.from_dict(tensors, non_tensors={name: [value] for name, value in others.items()}))
        return await asyncio.gather(*[loaded.run_single(row) for row in rows])

    return asyncio.run(ask())


@pytest.mark.parametrize("name", ["compute_score", "compute_score_later"])
@pytest.mark.parametrize("manager", ["naive", "dapo", "rate_limited"])
def test_a_failure_is_unscored_in_the_batch(tmp_path, manager, name):
    found = rewards_of(tmp_path, manager, name)
    scores = [row["reward_score"] for row in found]
    assert [math.isnan(score) for score in scores] == [False, True, False, False, True, False]
    assert [score for score in scores if not math.isnan(score)] == [30, 20, 70, 50]

    # The agent loop puts the score at the last token of the response.
    batch = batch_of({"a": [0.0] * 3, "b": [0.0] * 3})
    for row, result in zip(batch.rows, found, strict=True):
        row["rm_scores"][-1] = result["reward_score"]
        row["extra_fields"] = {"reward_extra_info": result["reward_extra_info"]}
    rollouts = read_rollouts(batch, range(6), (), rollout_fields={"true_rewards": "acc"}, longest_response=9)
    curation = identity(rollouts)
    assignment = assign(curation, rollouts.groups, by="identity")
    apply_curation(batch, [[row] for row in range(6)], rollouts, assignment)
    # Of each group two rows have a reward: advantages +-1/sqrt(2), the failed row's 0.
    advantages = torch.stack([row["advantages"][-1] for row in batch.rows]) * 2**0.5
    torch.testing.assert_close(advantages, torch.tensor([1.0, 0, -1, 1, 0, -1]), atol=1e-4, rtol=0)
    metrics = prefixed_metrics(decision_metrics(curation, rollouts, assignment))
    assert metrics["geoalign/unscored_rows"] == 2
    assert metrics["geoalign/raw_reward"] == pytest.approx(42.5)
