"""Run as two processes on gloo; writes what each check found to FOLDER/rank-*.json.

A group of four rollouts spans both processes (two rows each), so donors live on the other one.
"""

import json
import os
import sys
from pathlib import Path

import torch
from accelerate import FullyShardedDataParallelPlugin, PartialState
from accelerate.utils import DistributedType, gather_object
from trl import GRPOTrainer
from trl_parts import (
    BATCH,
    OPEN,
    SHORT,
    SMALL,
    Drawing,
    Recording,
    Scripted,
    by_hand,
    curated_batch,
    curation,
    digits,
    drop_last_of_group,
    has_digit,
    model,
    same_weights,
    second_half_from_first,
    tokenizer,
    trainer,
    weights_of,
)

from geoalign import Denoise, GeoAlign
from geoalign.adapters.trl import GeoAlignGRPOTrainer, LabelledRollouts, unscored_on_failure
from geoalign.errors import GeoAlignError
from geoalign.hidden import extract_states_from_texts

SHAPE = {"per_device_train_batch_size": 2, "max_completion_length": 8, "ddp_backend": "gloo", "max_steps": 1, **SHORT}
RANK = int(os.environ.get("RANK", "0"))


def identity(folder):
    plain = trainer(folder / "plain", cls=GRPOTrainer, **SHAPE)
    plain.train()
    watcher = Scripted(curation, requires=("hidden", "ids", "second_rewards", "trusted"))

    def scores(rows):
        return digits([row["completion"] for row in rows])

    fields = {"answers": "gold", "true_rewards": scores}
    # Rank 0 alone shows labelled rollouts.
    labelled = LabelledRollouts(
        prompts=["1+2="] * 2,
        responses=["3", "four"],
        rewards=[1.0, 0.0],
        groups=[0, 0],
        answers=["3", "4"],
    )
    extra = {"rollout_fields": fields, "labelled_rollouts": labelled, "second_verifier": digits}
    curated = trainer(folder / "curated", watcher, extra=extra, **SHAPE)
    curated.train()
    found = {"same": same_weights(weights_of(plain), weights_of(curated)), "calls": len(watcher.seen)}
    if not watcher.seen:
        return found
    seen = watcher.seen[0]
    return {
        **found,
        "groups": seen.groups.tolist(),
        "hidden": list(seen.hidden.shape),
        "answers": seen.answers,
        "trusted": seen.trusted.tolist(),
        "second_rewards_match": torch.equal(torch.tensor(seen.second_rewards([3, 0])), seen.rewards[[3, 0]]),
        "true_rewards_match": torch.equal(seen.true_rewards, seen.rewards),
    }


def donors_elsewhere(folder):
    made = trainer(folder / "donors", Scripted(second_half_from_first), cls=Recording, log_completions=True, **SHAPE)
    made.train()
    entered = gather_object(made.entered)
    expected = []
    for step in made.steps:
        advantages = by_hand(step.rollouts.rewards[step.curation.source]).tolist()
        rows = zip(step.prompts, step.curation.source.tolist(), advantages, strict=True)
        expected += [(prompt, step.responses[row], value) for prompt, row, value in rows]
    found = {"steps": len(made.steps), "lengths": [step.lengths.tolist() for step in made.steps]}
    return {**found, "entered": coarse(entered), "expected": coarse(expected)}


def coarse(rows):
    """The rows in one order, advantages rounded so that the last digit does not count."""
    return sorted((prompt, text, round(value, 2) + 0.0) for prompt, text, value in rows)


def dropped(folder):
    """Rank 1 holds rows 2 and 3 of the group and loses row 3; the scale and the statistics are global."""
    made = trainer(folder / "dropped", Scripted(drop_last_of_group), cls=Recording, loss_type="grpo", **SHAPE)
    batch = curated_batch(made)
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

    try:
        curated_batch(trainer(folder / "failure", Scripted(fail), **SHAPE))
    except (ArithmeticError, GeoAlignError) as error:
        return {"error": type(error).__name__, "text": str(error)}
    raise AssertionError("curated")


def resume(folder):
    saving = {**SHAPE, "max_steps": 2, "save_strategy": "steps", "save_steps": 1}
    straight = trainer(folder / "resume", Drawing(), **saving)
    straight.train()
    again = trainer(folder / "resume", Drawing(), **saving)
    again.train(resume_from_checkpoint=str(folder / "resume" / "checkpoint-1"))
    return {"same": same_weights(weights_of(straight), weights_of(again)), "calls": again.curator.calls}


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


class Sharded(Recording):
    """FSDP2 as accelerate makes it on GPUs: on CPUs it knows data parallelism alone."""

    def create_accelerator_and_postprocess(self):
        super().create_accelerator_and_postprocess()
        PartialState().distributed_type = self.accelerator.state.distributed_type = DistributedType.FSDP
        self.accelerator.state.fsdp_plugin = FullyShardedDataParallelPlugin(
            fsdp_version=2, auto_wrap_policy="transformer_based_wrap", cpu_ram_efficient_loading=False
        )
        self.is_fsdp_enabled = True

    def _calculate_rewards(self, *args):
        self.model.reshard()  # as where vLLM generates, without a pass of the model
        return super()._calculate_rewards(*args)


def sharded(folder):
    """Two generations: what FSDP2 makes different from data parallelism, and from one process."""
    texts = (["1+2="] * 4, ["3", "four", "33", "4"])
    labelled = LabelledRollouts(*texts, [1.0, 0.0, 0.0, 0.0], groups=[0] * 4)
    options = {"hidden_layer": [1.0, 0], "labelled_rollouts": labelled}
    shape = {**SHAPE, "per_device_train_batch_size": 4, "num_iterations": 2, "max_steps": 3}
    runs = {}
    for cls, source in ((GeoAlignGRPOTrainer, "own_pass"), (Sharded, "own_pass"), (Sharded, "logprob_pass")):
        watcher = Scripted(second_half_from_first, requires=("hidden", "trusted"))
        extra, policy = {**options, "hidden_source": source}, model()
        # The embeddings are then gathered by a pass of the whole model alone.
        policy.lm_head.weight = torch.nn.Parameter(policy.lm_head.weight.detach().clone())
        policy.get_input_embeddings = lambda: None
        made = trainer(folder / "fsdp", watcher, cls, policy=policy, extra=extra, **shape)
        made.train()
        parts = [getattr(weight, "full_tensor", lambda w=weight: w)() for weight in weights_of(made).values()]
        runs[cls, source] = [*parts, *(seen.hidden for seen in watcher.seen)]
    alone = extract_states_from_texts(model(), tokenizer(), *texts, layer=[1.0, 0]).states
    first, *others = runs.values()
    parameters = list(model().parameters())
    return {
        # The weights come first, then the states that were seen.
        "moved": largest_difference(first[: len(parameters)], parameters),
        "apart": [largest_difference(first, other) for other in others],
        "labelled_rollouts": largest_difference([watcher.seen[0].hidden[8:]], [alone]) if watcher.seen else 0.0,
    }


def largest_difference(tensors, others):
    """Of any two entries in the same place of the same tensor."""
    differences = [(one - other).detach().abs().max() for one, other in zip(tensors, others, strict=True)]
    return float(max(differences))


def rows_of(prompts, made):
    """A rollout function whose rows are the same in any number of processes: random tokens, seeded by their place."""
    rows = []
    for number in range(len(prompts)):
        place = RANK * len(prompts) + number
        draw = torch.Generator().manual_seed(place)
        rows.append(torch.randint(6, 56, (3 + place % 8,), generator=draw).tolist())
    return {
        "prompt_ids": made._tokenizer(prompts)["input_ids"],
        "completion_ids": rows,
        "logprobs": [[0.0] * len(row) for row in rows],
    }


def by_curator(folder, cls=Sharded):
    """What GeoAlign and denoise see and decide, without labelled rollouts; their states by a pass each."""
    several = {"per_device_train_batch_size": 16, "ddp_backend": "gloo"} if cls is Sharded else {}
    found = {}
    for curator, updates in ((GeoAlign(**SMALL), 1), (Denoise(**OPEN), 2)):
        shape = {**BATCH, "num_iterations": updates, "max_steps": 1, **several}
        made = trainer(folder / "by", curator, cls, has_digit, extra={"rollout_func": rows_of}, **shape)
        made.train()
        for step in made.steps:
            seen = {"hidden": step.rollouts.hidden.tolist(), "given": step.rollouts.rewards.tolist()}
            decided = {part: getattr(step.curation, part).tolist() for part in ("source", "scores", "rewards")}
            found[made._session.name] = {**seen, **decided, "advantages": list(made._logs["advantages"])}
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    checks = (identity, donors_elsewhere, dropped, agents, failed, failure, resume, sharded, by_curator)
    found = {check.__name__: check(folder) for check in checks}
    (folder / f"rank-{RANK}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
