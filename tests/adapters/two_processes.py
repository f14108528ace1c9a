"""Run as two processes on gloo; writes what each check found to FOLDER/rank-*.json.

A group of four rollouts spans both processes (two rows each), so donors live on the other one.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
from accelerate import PartialState
from accelerate.utils import gather_object
from trl import GRPOTrainer
from trl_parts import (
    Drawing,
    Recording,
    Scripted,
    curated_batch,
    curation,
    digits,
    drop_last_of_group,
    same_weights,
    second_half_from_first,
    trainer,
    weights_of,
)

from geoalign.adapters.trl import Anchors, unscored_on_failure
from geoalign.adapters.trl.round import gather_to_rank_0
from geoalign.errors import GeoAlignError

SHAPE = {"per_device_train_batch_size": 2, "max_completion_length": 24, "ddp_backend": "gloo", "max_steps": 2}
RANK = int(os.environ.get("RANK", "0"))


def identity(folder):
    plain = trainer(folder / "plain", cls=GRPOTrainer, **SHAPE)
    plain.train()
    watcher = Scripted(curation, requires=("hidden", "ids", "second_rewards", "trusted"))

    def scores(rows):
        return digits([row["completion"] for row in rows])

    fields = {"answers": "gold", "true_rewards": scores, "second_rewards": scores}
    # Rank 0 alone shows anchors.
    anchors = Anchors(["1+2="] * 2, ["3", "four"], [1.0, 0.0], groups=[0, 0], answers=["3", "4"])
    curated = trainer(folder / "curated", watcher, extra={"rollout_fields": fields, "anchors": anchors}, **SHAPE)
    curated.train()
    seen = watcher.seen[0] if watcher.seen else None
    return {
        "same": same_weights(weights_of(plain), weights_of(curated)),
        "calls": len(watcher.seen),
        "groups": None if seen is None else seen.groups.tolist(),
        "hidden": None if seen is None else list(seen.hidden.shape),
        "lengths": None if seen is None else seen.lengths.tolist(),
        "answers": None if seen is None else seen.answers,
        "trusted": None if seen is None else seen.trusted.tolist(),
        "second_rewards_match": None if seen is None else seen.second_rewards([3, 0]) == seen.rewards[[3, 0]].tolist(),
        "true_rewards_match": None if seen is None else bool(torch.equal(seen.true_rewards, seen.rewards)),
    }


def donors_elsewhere(folder):
    made = trainer(folder / "donors", Scripted(second_half_from_first), cls=Recording, log_completions=True, **SHAPE)
    made.train()
    entered = gather_object([tuple(row) for row in made.entered])
    expected = []
    lengths = []
    for step in made.steps:
        rewards = step.rollouts.rewards[step.curation.source]
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
        for slot, row in enumerate(step.curation.source.tolist()):
            expected.append((step.prompts[slot], step.responses[row], round(float(advantages[slot]), 3)))
        lengths.append(step.lengths.tolist())
    found = {"rows": len(entered), "steps": len(made.steps), "lengths": lengths}
    return {**found, "entered": coarse(entered), "expected": coarse(expected)}


def coarse(rows):
    """The rows in one order, advantages rounded so that the last digit does not count."""
    return sorted((prompt, text, round(value, 2) + 0.0) for prompt, text, value in rows)


def dropped(folder):
    """Rank 1 holds rows 2 and 3 of the group and loses row 3; the scale and the statistics are global."""
    made = trainer(folder / "dropped", Scripted(drop_last_of_group), cls=Recording, loss_type="grpo", **SHAPE)
    made.model.train()
    batch = made._generate_and_score_completions(next(iter(made.get_train_dataloader())))
    rewards = made.steps[0].rollouts.rewards.tolist() if made.steps else None
    return {
        "scale": float(batch["geoalign_loss_scale"]),
        "kept": (batch["completion_mask"].sum(1) > 0).tolist(),
        "tokens": int(batch["num_items_in_batch"]),
        "expected_tokens": sum(made.steps[0].lengths.tolist()[:3]) if made.steps else None,
        "advantages": batch["advantages"].tolist(),
        "rewards": rewards,
    }


def failure(folder):
    def fail(rollouts):
        raise ArithmeticError("no curation today")

    made = trainer(folder / "failure", Scripted(fail), **SHAPE)
    try:
        made.train()
    except (ArithmeticError, GeoAlignError) as error:
        return {"error": type(error).__name__, "text": str(error)}
    return {"error": None, "text": ""}


def resume(folder):
    saving = {**SHAPE, "max_steps": 4, "save_strategy": "steps", "save_steps": 2}
    straight = trainer(folder / "resume", Drawing(), **saving)
    straight.train()
    again = trainer(folder / "resume", Drawing(), **saving)
    again.train(resume_from_checkpoint=str(folder / "resume" / "checkpoint-2"))
    return {"same": same_weights(weights_of(straight), weights_of(again)), "calls": again.curator.calls}


def states(folder):
    """Rank r holds two rows of the number r."""
    gathered = gather_to_rank_0(torch.full((2, 3), float(RANK)), PartialState())
    return {"gathered": None if gathered is None else gathered[:, 0].tolist()}


def agents(folder):
    """The rows of rank 0 are shorter than those of rank 1, and take their places, with their prompts and masks."""
    os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"

    def rollout(prompts, made):
        length = 3 if RANK == 0 else 5
        return {
            "prompt_ids": [list(range(6, 6 + length))] * 2,
            "completion_ids": [[20 + RANK] * length] * 2,
            "logprobs": [[0.0] * length] * 2,
            "env_mask": [[1, 0, 1] + [1] * (length - 3)] * 2,
        }

    watcher = Scripted(second_half_from_first, requires=("hidden",))
    made = trainer(folder / "agents", watcher, extra={"rollout_func": rollout}, **SHAPE)
    batch = curated_batch(made)
    asked, kept = batch["prompt_mask"].bool(), batch["completion_mask"].bool()
    return {
        "prompts": [ids[mask].tolist() for ids, mask in zip(batch["prompt_ids"], asked, strict=True)],
        "responses": [ids[mask].tolist() for ids, mask in zip(batch["completion_ids"], kept, strict=True)],
        "masks": [row[mask].tolist() for row, mask in zip(batch["tool_mask"], kept, strict=True)],
        "tokens": int(batch["num_items_in_batch"]),
    }


def failed(folder):
    """The reward function fails on rank 1 alone: its rows are unscored on both."""

    def broken(completions, **columns):
        if RANK == 1:
            raise ArithmeticError("no reward here")
        return [1.0, 2.0]

    watcher = Scripted(curation)
    batch = curated_batch(trainer(folder / "failed", watcher, reward=unscored_on_failure(broken), **SHAPE))
    unscored = watcher.seen[0].rewards.isnan().tolist() if watcher.seen else None
    return {"unscored": unscored, "advantages": batch["advantages"].tolist()}


def main() -> None:
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    checks = (identity, donors_elsewhere, dropped, states, agents, failed, failure, resume)
    found = {check.__name__: check(folder) for check in checks}
    (folder / f"rank-{RANK}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
