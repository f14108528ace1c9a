"""The RL stage: the warm-started model trained by TRL's GRPO on curated rollouts."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from rich.progress import Progress
from torch import Tensor
from transformers import TrainerCallback

from geoalign.adapters.trl import GeoAlignGRPOTrainer
from geoalign.answers.reward_source import RewardSource
from geoalign.lab.models.engines import TrainerEngine, TransformersEngine, engine_of
from geoalign.lab.models.language_model import load_checkpoint, load_saved, merged, with_adapters
from geoalign.lab.models.shared_prompts import sharing_prompts
from geoalign.lab.runs.folder import is_last_checkpoint, latest_complete
from geoalign.lab.train.evaluations import Respondent, evaluate_policy, fill_references, is_stage_evaluated
from geoalign.lab.train.observed_reward import (
    CountedReward,
    observed_reward,
    rollout_fields,
    second_verifier,
    second_verifier_endpoint,
)
from geoalign.lab.train.plan import Plan
from geoalign.lab.train.recorder import record
from geoalign.lab.train.stage import Stage, run_trainer, save_model


def policy_stage(plan: Plan, source: RewardSource) -> None:
    """Trains the warm-started model by GRPO with the curator into `checkpoints/final`; nothing if it is there."""
    folder = plan.folder
    settings = plan.config.model
    if folder.final.is_dir():
        return
    plan.processes.barrier()  # all have looked before one writes
    checkpoint = latest_complete(folder.rl_checkpoints)
    model, tokenizer = load_saved(folder.warm_started, settings)
    if checkpoint is not None and is_last_checkpoint(checkpoint):
        model, tokenizer = load_checkpoint(checkpoint, settings, model, tokenizer)
    else:
        model = with_adapters(model, settings.lora, seed=plan.config.seed)
        _train_policy(plan, source, model, tokenizer, checkpoint)
        model = merged(model)
    save_model(plan, model, tokenizer, folder.final, "done")


def _train_policy(plan: Plan, source: RewardSource, model: Any, tokenizer: Any, checkpoint: Path | None) -> None:
    """Trains `model` in place, from a complete checkpoint at a generation boundary where there is one."""
    reward = observed_reward(plan, source)
    shown = {"reward": "reward", "replaced": "geoalign/replaced", "KL": "ppo_kl"}
    with Stage(plan, "rl", "GRPO", shown) as stage:
        evaluations = InTraining(plan, source, tokenizer, stage.progress)
        trainer = PolicyTrainer(
            model=model,
            reward_funcs=[CountedReward(plan, reward, source)],
            args=plan.grpo,
            train_dataset=Dataset.from_list(_training_rows(plan)),
            processing_class=tokenizer,
            callbacks=[stage, evaluations],
            curator=plan.curator,
            log_metrics="all",
            hidden_position=plan.config.hidden_position,
            hidden_layer=plan.config.hidden_layer,
            hidden_source=plan.config.hidden_source,
            rollout_fields=rollout_fields(plan, reward, source),
            second_verifier=second_verifier(plan, source),
            second_verifier_endpoint=second_verifier_endpoint(plan.config.reward),
            second_verifier_seconds=plan.config.reward.second_verifier_seconds,
            curation_observer=partial(record, plan.folder, rollouts=plan.config.output.rollouts),
            details_every=plan.config.output.details_every or 0,
            labelled_rollouts=plan.labelled_rollouts,
        )
        evaluations.engine = engine_of(trainer)
        run_trainer(trainer, checkpoint)


def _training_rows(plan: Plan) -> list[dict[str, Any]]:
    """The rows of the trainer's data in the plan's order: a prompt, and what the reward needs to know of it."""
    problems = [plan.problems[index] for index in plan.order]
    return [
        {"prompt": list(problem.prompt), "answer": problem.answer, "problem_id": problem.id} for problem in problems
    ]


class InTraining(TrainerCallback):
    """Evaluates every `evaluation.every` updates, before the checkpoint of that step is written, but not at the last.

    Where the trainer generates with vLLM (`engine`), the evaluations before and after RL and the reference rewards are
    done in here too: outside, transformers would take many times longer. After a kill `train` does there what is left.
    """

    def __init__(self, plan: Plan, source: RewardSource, tokenizer: Any, progress: Progress) -> None:
        self._plan = plan
        self._source = source
        self._tokenizer = tokenizer
        self._progress = progress
        self._with_vllm = plan.grpo.use_vllm
        # Set when the trainer has been made: vLLM's engine, None where it generates with transformers.
        self.engine: TrainerEngine | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Called by the trainer when the weights and the engine are there; a resumed stage is past this."""
        if self._with_vllm and state.global_step == 0:
            fill_references(self._plan, self._respondent(kwargs["model"]), progress=self._progress)
            self._once("before_rl", 0, kwargs["model"])

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Called by the trainer after each update."""
        every = self._plan.config.evaluation.every
        if every is not None and state.global_step % every == 0 and state.global_step < state.max_steps:
            self._evaluate("rl", state.global_step, kwargs["model"])

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Called by the trainer after the last update, when its last checkpoint is written."""
        if self._with_vllm:
            self._once("after_rl", state.global_step, kwargs["model"])

    def _once(self, stage: str, step: int, model: Any) -> None:
        """Evaluates unless the lines of this stage are there."""
        if not is_stage_evaluated(self._plan.folder, stage):
            self._plan.processes.barrier()  # all have looked before one writes
            self._evaluate(stage, step, model)

    def _evaluate(self, stage: str, step: int, model: Any) -> None:
        evaluate_policy(self._plan, self._respondent(model), stage=stage, step=step, progress=self._progress)

    def _respondent(self, model: Any) -> Respondent:
        engine = self.engine or TransformersEngine(model, self._tokenizer)
        return Respondent(engine, self._tokenizer, self._source)


class PolicyShift:
    """Mixin for a TRL GRPO trainer: logs `ppo_kl`, how far the policy has moved since it generated.

    It is the mean over response tokens of old minus new log-probability (the k1 estimate), from what TRL's loss has
    anyway, whatever `beta` is. Where TRL keeps no old ones (one update per generation) it is 0 by construction.
    """

    # The log-probabilities [rows, tokens] of the passes within the loss that is being computed; None outside of it.
    _passes: list[Tensor] | None = None

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        result = super()._get_per_token_logps_and_entropies(*args, **kwargs)  # type: ignore[misc]
        if self._passes is not None:
            self._passes.append(result[0].detach())
        return result

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Tensor:
        passes: list[Tensor] = []
        self._passes = passes
        try:
            loss = super()._compute_loss(model, inputs)  # type: ignore[misc]
        finally:
            self._passes = None
        if passes:
            self._log_shift(inputs, passes[-1])
        return loss

    def _log_shift(self, inputs: dict[str, Any], new: Tensor) -> None:
        """Logs `ppo_kl` over the rows of all processes; `new` [rows, tokens] are this process's log-probs."""
        trainer: Any = self
        mask = inputs["completion_mask"].to(new.dtype)
        if "tool_mask" in inputs:
            mask = mask * inputs["tool_mask"]
        old = inputs.get("old_per_token_logps")
        shift = new.new_zeros(()) if old is None else ((old - new) * mask).sum()
        total_shift, tokens = trainer.accelerator.reduce(torch.stack([shift, mask.sum()]), reduction="sum")
        mode = "train" if trainer.model.training else "eval"
        trainer._metrics[mode]["ppo_kl"].append((total_shift / tokens.clamp(min=1)).item())


class PolicyTrainer(PolicyShift, GeoAlignGRPOTrainer):
    """TRL's GRPO trainer with a curator and `ppo_kl`, without the model card that it writes at every checkpoint."""

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Logs `mean_abs_advantage` of the generation batch, over the rows of all processes, as the loss sees them."""
        trainer: Any = self
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        size = trainer.accelerator.gather(batch["advantages"].abs()).mean().item()
        trainer._metrics["train" if trainer.model.training else "eval"]["mean_abs_advantage"].append(size)
        return batch

    def _generate(self, prompts: list[Any]) -> Any:
        """Generates in the type that training computes in, with one pass over each prompt for all its rollouts.

        accelerate's autocast is around the outermost module only, and adapters of peft generate through the one inside.
        """
        trainer: Any = self
        model = trainer.accelerator.unwrap_model(trainer.model_wrapped)
        with trainer.accelerator.autocast(), sharing_prompts(model):
            return super()._generate(prompts)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Writes nothing: a run folder describes itself."""
