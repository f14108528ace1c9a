"""What a run makes before RL: the warm start by TRL's `SFTTrainer`, reward model and gold model by its `RewardTrainer`.

With `reward_head` the head alone is fitted, in one pass over the pairs: for machines that cannot train more.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from jaxtyping import Float64
from torch import Tensor
from torch.nn.functional import softplus
from transformers import AutoModelForSequenceClassification, AutoTokenizer
from trl import RewardTrainer, SFTTrainer

from geoalign.files.durable import beside, replace_folder
from geoalign.files.json_files import append_line, write_json
from geoalign.lab.data.task import PreferencePair
from geoalign.lab.models.language_model import (
    CODE_SETTING,
    initial_model,
    load_checkpoint,
    merged,
    merged_from,
    save,
    with_adapters,
)
from geoalign.lab.rewards.reward_model import mark_mean, mean_reply_states, reply_start
from geoalign.lab.rewards.settings import RewardHeadConfig
from geoalign.lab.runs.folder import (
    ACCURACY_FILE,
    checkpoint_step,
    is_last,
    latest_complete,
    mark_complete,
    next_stage,
    note_records,
    stage_checkpoints,
)
from geoalign.lab.train.observed_reward import open_reward_model
from geoalign.lab.train.pair_accuracy import hold_out_prompts, pair_accuracy
from geoalign.lab.train.plan import Plan, short_enough
from geoalign.lab.train.stage import InRunFolder, Stage, run_trainer, save_model
from geoalign.pretrained.from_pretrained import from_pretrained

_HELD_OUT_MOST = 1024
# Replies whose states are made at a time; neighbours in length share a batch.
_BATCH = 8


class WarmStartTrainer(InRunFolder, SFTTrainer):
    """TRL's trainer on demonstrations; the loss counts completion tokens only."""


class PreferenceTrainer(InRunFolder, RewardTrainer):
    """TRL's trainer on preference pairs: the chosen reply above the rejected one (Bradley-Terry)."""


def warm_start_stage(plan: Plan) -> None:
    """Makes the model that RL starts from, `checkpoints/warm_start`; nothing if it is there."""
    folder, settings, seed = plan.folder, plan.config.model, plan.config.seed
    if folder.warm_started.is_dir():
        return
    plan.processes.barrier()  # all have looked before one writes
    model, tokenizer = initial_model(settings, alphabet=plan.task.alphabet, words=plan.task.words, seed=seed)
    resume_from = latest_complete(stage_checkpoints(folder)["sft"])
    if resume_from is not None and is_last(resume_from):
        model, tokenizer = load_checkpoint(resume_from, settings, model, tokenizer)
    elif plan.sft is not None and (rows := _demonstrations(plan, tokenizer)):
        model = with_adapters(model, settings.lora, seed=seed)
        with Stage(plan, "sft", "warm start", {"loss": "loss", "token accuracy": "mean_token_accuracy"}) as stage:
            trainer = WarmStartTrainer(
                model=model,
                args=plan.sft,
                train_dataset=Dataset.from_list(rows),
                processing_class=tokenizer,
                callbacks=[stage],
            )
            run_trainer(trainer, resume_from)
        model = merged(model)
    elif plan.sft is not None:
        plan.console.print(f"No warm start: task {plan.task.name} has no demonstrations.")
    save_model(plan, model, tokenizer, folder.warm_started, next_stage(folder, plan.learned))


def _demonstrations(plan: Plan, tokenizer: Any) -> list[dict[str, Any]]:
    items = short_enough(plan.task.demonstrations, plan.config, tokenizer, plan.console, what="demonstrations")
    options = plan.config.model.chat_template_kwargs
    told = {"chat_template_kwargs": dict(options)} if options else {}
    return [
        {"prompt": list(item.prompt), "completion": [{"role": "assistant", "content": item.completion}], **told}
        for item in items
    ]


def reward_model_stages(plan: Plan) -> None:
    """Makes `checkpoints/reward_model` from the warm-started model where the plan has one, and in the same way
    `checkpoints/gold_model` from pairs that the first never sees; nothing where they are there.

    A share of the pairs (the task's `held_out_share`, at most 1,024, with all pairs of their prompts) is held out. How
    often the chosen response of these has the higher score is logged at the end of the stage and kept in the folder;
    both models are tested on what is held out for either.
    """
    for stage in plan.learned:
        if (plan.folder.checkpoints / stage).is_dir():
            continue
        plan.processes.barrier()  # all have looked before one writes
        pairs, held_out = _split(plan)
        # The gold model's head is drawn from another seed: two models with one head would err alike.
        seed = plan.config.seed + (stage == "gold_model")
        if plan.config.reward_head is not None:
            model, tokenizer = _new_model(plan, plan.folder.warm_started, seed)
            fit_head(model.to(plan.grpo.device), tokenizer, pairs[stage], plan.config.reward_head)
        else:
            model, tokenizer = _trained(plan, stage, pairs[stage], seed)
        if plan.processes.is_main:
            _keep(plan, stage, model, tokenizer, held_out)
        plan.processes.barrier()


def _trained(plan: Plan, stage: str, pairs: Sequence[PreferencePair], seed: int) -> tuple[Any, Any]:
    """The model trained by TRL, or that of the stage's last checkpoint; one of adapters holds only these."""
    lora, resume_from = plan.config.model.lora, latest_complete(stage_checkpoints(plan.folder)[stage])
    done = resume_from if resume_from is not None and is_last(resume_from) else None
    model, tokenizer = _new_model(plan, done if done and lora is None else plan.folder.warm_started, seed)
    if done is not None:
        return (model if lora is None else merged_from(model, done)), tokenizer
    model = with_adapters(model, lora, seed=seed, kind="SEQ_CLS")
    with Stage(plan, stage, stage.replace("_", " "), {"loss": "loss", "accuracy": "accuracy"}) as callback:
        trainer = PreferenceTrainer(
            model=model,
            args=getattr(plan, stage),
            train_dataset=Dataset.from_list([preference_row(pair) for pair in pairs]),
            processing_class=tokenizer,
            callbacks=[callback],
        )
        run_trainer(trainer, resume_from)
    return merged(model), tokenizer


def _new_model(plan: Plan, folder: Path, seed: int) -> tuple[Any, Any]:
    model = plan.config.model
    return first_reward_model(folder, dtype=model.dtype, seed=seed, trust_remote_code=model.trust_remote_code)


def _split(plan: Plan) -> tuple[dict[str, list[PreferencePair]], list[PreferencePair]]:
    """The pairs that each stage trains on, and those held out of any."""
    trained_on, held_out = {}, []
    for stage, pairs in (("reward_model", plan.task.preference_pairs), ("gold_model", plan.task.gold_pairs)):
        if pairs:
            share = plan.task.held_out_share
            trained_on[stage], kept = hold_out_prompts(pairs, share, most=_HELD_OUT_MOST, seed=plan.config.seed)
            held_out += kept
    return trained_on, held_out


def _keep(plan: Plan, stage: str, model: Any, tokenizer: Any, held_out: Sequence[PreferencePair]) -> None:
    """Saves a model with what it gets right on the pairs held out; its folder is there only if complete."""
    folder = plan.folder
    made = folder.checkpoints / stage
    written = beside(made)
    save(model, tokenizer, written)
    with open_reward_model(plan, written) as scorer:
        accuracy = pair_accuracy(scorer, held_out, plan.task.takes_shortcut)
    write_json(written / ACCURACY_FILE, accuracy)
    step = checkpoint_step(latest) if (latest := latest_complete(stage_checkpoints(folder)[stage])) else 0
    line = {"stage": stage, "step": step, **{f"heldout/{name}": value for name, value in accuracy.items()}}
    append_line(folder.metrics, line)
    mark_complete(written)
    replace_folder(written, made)
    note_records(folder, next_stage(folder, plan.learned), 0)


def first_reward_model(folder: Path, *, dtype: str, seed: int, trust_remote_code: bool = False) -> tuple[Any, Any]:
    """A language model saved in `folder`, as a sequence classifier with one output, and its tokenizer; a new head is
    drawn from `seed`.
    """
    code: dict[str, Any] = {"trust_remote_code": trust_remote_code, "setting": CODE_SETTING}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = from_pretrained(
            AutoModelForSequenceClassification, folder, num_labels=1, dtype=getattr(torch, dtype), **code
        )
    return model, from_pretrained(AutoTokenizer, folder, **code)


def preference_row(pair: PreferencePair) -> dict[str, Any]:
    """One row of the trainer's data: prompt and both replies as chat messages."""
    return {
        "prompt": list(pair.prompt),
        "chosen": [{"role": "assistant", "content": pair.chosen}],
        "rejected": [{"role": "assistant", "content": pair.rejected}],
    }


def fit_head(model: Any, tokenizer: Any, pairs: Sequence[PreferencePair], config: RewardHeadConfig) -> None:
    """Makes a sequence classifier score the chosen reply of each pair above the other, by its head alone, in place.

    The head reads the mean last-layer state of the reply; layers above `config.layers` are left out.
    """
    if config.layers is not None:  # the first layers only, followed by the model's own last norm
        model.base_model.layers = model.base_model.layers[: config.layers]
        model.config.num_hidden_layers = config.layers
        if getattr(model.config, "layer_types", None) is not None:
            model.config.layer_types = model.config.layer_types[: config.layers]
    dialogues = [
        [*pair.prompt, {"role": "assistant", "content": reply}]
        for pair in pairs
        for reply in (pair.chosen, pair.rejected)
    ]
    states = _reply_states(model, tokenizer, dialogues)
    weights = preference_direction(states[0::2], states[1::2], config.penalty)
    mark_mean(model)
    with torch.no_grad():
        model.score.weight.copy_(weights.unsqueeze(0))


def preference_direction(
    chosen: Float64[Tensor, "pairs width"], rejected: Float64[Tensor, "pairs width"], penalty: float
) -> Float64[Tensor, " width"]:
    """The direction w of the Bradley-Terry model P(chosen over rejected) = sigmoid(w . (chosen - rejected)).

    v minimises mean softplus(-v . (chosen - rejected) / s) + penalty / 2 |v|^2, with s the standard deviation of each
    coordinate over all replies, and w = v / s. Convex, so it depends on no draw. A coordinate that is the same in all
    replies gets 0.
    """
    scale = torch.cat([chosen, rejected]).std(dim=0, correction=0)
    scale = torch.where(scale > 0, scale, torch.inf)
    differences = (chosen - rejected) / scale
    direction = torch.zeros(differences.shape[1], dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([direction], max_iter=1000, tolerance_grad=1e-7, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        value = softplus(-(differences @ direction)).mean() + penalty / 2 * direction.square().sum()
        value.backward()
        return value

    solver.step(loss)
    return direction.detach() / scale


def _reply_states(model: Any, tokenizer: Any, dialogues: Sequence[Any]) -> Float64[Tensor, "replies width"]:
    tokens = [tokenizer.apply_chat_template(item, tokenize=True, return_dict=True)["input_ids"] for item in dialogues]
    starts = [reply_start(tokenizer, item) for item in dialogues]
    order = sorted(range(len(tokens)), key=lambda row: len(tokens[row]))
    made: list[Any] = [None] * len(tokens)
    for first in range(0, len(order), _BATCH):
        rows = order[first : first + _BATCH]
        states = mean_reply_states(model, [tokens[row] for row in rows], [starts[row] for row in rows])
        for row, state in zip(rows, states.double().cpu(), strict=True):
            made[row] = state
    return torch.stack(made)
