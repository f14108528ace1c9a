"""The plan of a training: its parts, made from the settings once and checked whole before anything is written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from transformers import AutoConfig
from trl import GRPOConfig, RewardConfig, SFTConfig

from geoalign.answers.messages import rendered, token_ids
from geoalign.answers.verified import VerifiedReward
from geoalign.answers.verifiers import second_verifier, verifier_reward
from geoalign.console.terminal import Console
from geoalign.curators.curator import Curator
from geoalign.curators.labelled_rollouts import LabelledRollouts, check_takes_labelled
from geoalign.curators.registry import as_curator
from geoalign.dumps.labels import read_labelled_rollouts
from geoalign.errors import ConfigError, GeoAlignError, InputError
from geoalign.lab.data.task import Demonstration, Problem, Task
from geoalign.lab.data.tasks import make_task
from geoalign.lab.models.language_model import CODE_SETTING, initial_tokenizer
from geoalign.lab.models.process_setup import Processes
from geoalign.lab.models.settings import EVERY_OTHER, ModelConfig, PretrainedModelConfig
from geoalign.lab.rewards.corruption import check_corruption
from geoalign.lab.rewards.reward_model import check_ready_model
from geoalign.lab.runs.folder import RunFolder
from geoalign.lab.train.options import GenerationShape, generation_shape, options_of_trainers
from geoalign.lab.train.settings import EvaluationConfig, RunConfig
from geoalign.pretrained.from_pretrained import from_pretrained, loading
from geoalign.settings.hidden import is_last_layer, layer_numbers
from geoalign.settings.locations import NOWHERE
from geoalign.settings.problems import check_keys
from geoalign.text import quote

_Item = TypeVar("_Item", Problem, Demonstration)


@dataclass(frozen=True)
class Plan:
    """What the stages of one training share.

    Attributes:
        order: which problem stands in each row of the training data.
        problems: the task's training problems without those whose prompts are too long.
        evaluation_sets: the problems kept aside by name, each set cut to `evaluation.problems`.
        sft, reward_model, gold_model: TRL's options; None where there is no such stage.
    """

    config: RunConfig
    folder: RunFolder
    console: Console
    processes: Processes
    task: Task
    problems: Sequence[Problem]
    order: Sequence[int]
    evaluation_sets: Mapping[str, Sequence[Problem]]
    sft: SFTConfig | None
    reward_model: RewardConfig | None
    gold_model: RewardConfig | None
    grpo: GRPOConfig
    generation: GenerationShape
    curator: Curator
    labelled_rollouts: LabelledRollouts | None

    @property
    def learned(self) -> tuple[str, ...]:
        """The stages that make a reward model and a gold model, in their order."""
        options = {"reward_model": self.reward_model, "gold_model": self.gold_model}
        return tuple(stage for stage, given in options.items() if given is not None)

    def prompts_used(self) -> list[Problem]:
        """The training problems that the run will use, each once, in the order of their first use."""
        return [self.problems[index] for index in dict.fromkeys(self.order)]


def make_plan(
    config: RunConfig,
    folder: RunFolder,
    console: Console,
    *,
    task: Task | None = None,
    bf16: bool = False,
    ask_server: bool = True,
) -> Plan:
    """Makes the parts of a training, and so finds what is wrong with the settings (ConfigError); writes nothing.

    Args:
        task: the task of the settings, where it has been made before.
        bf16: whether a pretrained model computes in bfloat16 on a CPU.
        ask_server: also ask the server of the reward, where there is one, whether it is up.
    """
    check_depth(config)
    options = options_of_trainers(config, folder, bf16=bf16)
    grpo = options["grpo"]
    shape = generation_shape(grpo)

    task = task or make_task(config.task, seed=config.seed)
    for line in task.notes:  # reads the task's files, so that what is wrong with them shows now
        console.print(line, markup=False)
    _check_sections_of_task(config, task)
    tokenizer = None
    if config.max_prompt_length is not None:
        tokenizer = initial_tokenizer(config.model, alphabet=task.alphabet, words=task.words)
    problems = short_enough(task.train_problems, config, tokenizer, console, what="training prompts")
    order, max_steps = plan_prompts(grpo, shape, len(problems))
    _set_what_the_run_decides(grpo, config.model, max_steps)

    curator = as_curator(config.curator)
    trains_reward_model = bool(task.preference_pairs) and not config.reward.model.ready
    plan = Plan(
        config=config,
        folder=folder,
        console=console,
        processes=Processes.launched(),
        task=task,
        problems=problems,
        order=order,
        evaluation_sets={name: items[: config.evaluation.problems] for name, items in task.evaluation_problems.items()},
        sft=options.get("sft"),
        reward_model=options["reward_model"] if trains_reward_model else None,
        gold_model=options["gold_model"] if task.gold_pairs else None,
        grpo=grpo,
        generation=shape,
        curator=curator,
        labelled_rollouts=_read_labelled(config.labelled_rollouts, curator),
    )
    _check_reward(plan, ask_server=ask_server)
    return plan


def _set_what_the_run_decides(grpo: GRPOConfig, model: ModelConfig, max_steps: int) -> None:
    """Sets what the section `grpo` may not: what the model's settings say, and that TRL takes rows in order."""
    grpo.chat_template_kwargs = dict(model.chat_template_kwargs) or None
    if hasattr(grpo, "trust_remote_code"):  # of the reference model, and of vLLM's; not every TRL has it
        grpo.trust_remote_code = model.trust_remote_code
    grpo.max_steps = max_steps
    grpo.shuffle_dataset = False


def _check_sections_of_task(config: RunConfig, task: Task) -> None:
    """Raises ConfigError for settings of a gold model or of an evaluation set that the task does not have."""
    if config.gold_model and not task.gold_pairs:
        why = "where the task keeps no pairs for a gold model (task.gold_share of hh_rlhf)"
        raise ConfigError(f"gold_model: expected nothing {why}, got {quote(config.gold_model)}")
    if config.reward_head is not None:
        for section, given in (("reward_model", config.reward_model), ("gold_model", config.gold_model)):
            if given:
                why = "beside reward_head, with which no trainer of TRL takes options"
                raise ConfigError(f"{section}: expected nothing {why}, got {quote(given)}")
    _check_evaluation_sets(config.evaluation, task)


def _check_evaluation_sets(evaluation: EvaluationConfig, task: Task) -> None:
    """Raises ConfigError for numbers of samples that are given for a set which the task does not have."""
    known = [*task.evaluation_problems, EVERY_OTHER]
    for name, samples in (("samples", evaluation.samples), ("pass_samples", evaluation.pass_samples)):
        if isinstance(samples, dict):
            check_keys(samples, known, f"evaluation.{name}", NOWHERE)


def prompt_lengths(items: Sequence[_Item], tokenizer: Any, options: Mapping[str, Any]) -> list[int]:
    """Tokens of each item's prompt in the chat template, which takes `options`."""
    if not items:
        return []
    texts = [rendered(item.prompt, tokenizer, options) for item in items]
    return [len(ids) for ids in token_ids(texts, tokenizer)]


def short_enough(
    items: Sequence[_Item], config: RunConfig, tokenizer: Any, console: Console, *, what: str
) -> list[_Item]:
    """The items whose prompts have at most `max_prompt_length` tokens, in order; how many are left out is printed.

    `what` names the items. ConfigError where none is left.
    """
    limit = config.max_prompt_length
    if limit is None or not items:
        return list(items)
    lengths = prompt_lengths(items, tokenizer, config.model.chat_template_kwargs)
    kept = [item for item, length in zip(items, lengths, strict=True) if length <= limit]
    if not kept:
        raise ConfigError(
            f"max_prompt_length: expected a limit that some of the {len(items)} {what} keep, got {limit}: the shortest "
            f"has {min(lengths)} tokens"
        )
    left_out = len(items) - len(kept)
    if left_out:
        limited = f"more than max_prompt_length = {limit} tokens"
        console.print(f"{left_out} of {len(items)} {what} left out: {limited}", markup=False)
    return kept


def plan_prompts(options: GRPOConfig, shape: GenerationShape, problems: int) -> tuple[list[int], int]:
    """The problem in each row of the training data, epoch after epoch as they are used, and how many updates they make.

    TRL's own sampler shuffles each epoch with a generator that starts anew on resumption: after a kill, a run of
    several epochs would see other prompts. Here every prompt's row is fixed from the start; each epoch is another
    permutation (`shuffle_dataset`), and its last incomplete batch is left out.
    """
    if problems < shape.prompts:
        raise ConfigError(
            f"task: expected at least {shape.prompts} training problems, as one generation batch holds "
            f"(grpo.generation_batch_size / grpo.num_generations), got {problems}"
        )
    generations_per_epoch = problems // shape.prompts
    max_steps = options.max_steps
    if max_steps <= 0:
        max_steps = math.ceil(options.num_train_epochs * generations_per_epoch) * shape.updates
    if max_steps < 1:
        raise ConfigError(f"grpo.num_train_epochs: expected at least one update, got {quote(max_steps)}")
    rows = math.ceil(max_steps / shape.updates) * shape.prompts
    shuffled = options.shuffle_dataset is not False
    generator = torch.Generator().manual_seed(options.seed)
    order: list[int] = []
    while len(order) < rows:
        epoch = torch.randperm(problems, generator=generator).tolist() if shuffled else list(range(problems))
        order.extend(epoch[: generations_per_epoch * shape.prompts])
    return order[:rows], max_steps


def check_depth(config: RunConfig) -> None:
    """Raises ConfigError for a layer that the model does not have; of a pretrained one only the settings are read."""
    head_layers = None if config.reward_head is None else config.reward_head.layers
    if is_last_layer(config.hidden_layer) and head_layers is None:
        return
    depth = _depth(config.model)
    try:
        layer_numbers(config.hidden_layer, depth)
    except InputError as error:
        raise ConfigError(str(error)) from error
    if head_layers is not None and head_layers > depth:
        raise ConfigError(f"reward_head.layers: expected at most the model's {depth}, got {head_layers}")


def _depth(model: ModelConfig) -> int:
    """The number of a model's layers."""
    if not isinstance(model, PretrainedModelConfig):
        return model.layers
    with loading("model.path: expected a model", model.path):
        settings = from_pretrained(
            AutoConfig,
            model.path,
            revision=model.revision,
            trust_remote_code=model.trust_remote_code,
            setting=CODE_SETTING,
        )
    return int(settings.get_text_config().num_hidden_layers)


def _read_labelled(file: str | None, curator: Curator) -> LabelledRollouts | None:
    """The rollouts of `labelled_rollouts`; ConfigError where the file is wrong, or the curator does not take them."""
    if file is None:
        return None
    check_takes_labelled(curator)
    try:
        return read_labelled_rollouts(file)
    except GeoAlignError as error:
        raise ConfigError(f"labelled_rollouts: {error}") from error


def binary_reward(plan: Plan) -> bool:
    """Whether the clean rewards are 0 or 1: they are, unless a reward model gives them."""
    return plan.reward_model is None and not plan.config.reward.model.ready


def _check_reward(plan: Plan, *, ask_server: bool) -> None:
    """Raises ConfigError for a reward, a corruption or a curator that do not go together, or a reward not there."""
    reward = plan.config.reward
    needed = plan.curator.requires
    is_binary = binary_reward(plan)
    check_corruption(reward, binary=is_binary)
    if reward.function is not None:
        verifier_reward(reward.function, reward.endpoint)
    if reward.second_verifier is not None:
        second_verifier(
            reward.second_verifier, reward.endpoint, key="reward.second_verifier", section="reward.endpoint"
        )
        if "second_rewards" not in plan.curator.reads:
            plan.console.print(
                f"reward.second_verifier is never asked: {plan.config.curator.type} checks no responses, as "
                "curator.type=appeals does.",
                markup=False,
            )
    if reward.function is not None:
        for name, share in (("flip", reward.flip), ("extremes", reward.extremes), ("shortcut", reward.shortcut)):
            if share > 0:
                why = "with reward.function, whose rewards stay as they are"
                raise ConfigError(f"reward.{name}: expected 0 {why}, got {share}")
        if "reference_rewards" in needed:
            raise ConfigError(
                "reward.function: expected a curator that needs no reference_rewards, which are the task's own"
            )
    if reward.shortcut > 0 and plan.task.takes_shortcut is None:
        raise ConfigError(f"reward.shortcut: expected a task with a recognisable shortcut, got {plan.task.name}")
    if "answers" in needed and plan.task.final_answer is None:
        raise ConfigError(f"curator: expected a task whose responses have final answers, got {plan.task.name}")
    if reward.model.path is not None:
        check_ready_model(reward.model.path, reward.model)
    if reward.model.url is not None and ask_server:
        from geoalign.lab.rewards.served_model import ServedRewardModel  # openai only where there is a server

        with ServedRewardModel(reward.model) as served:
            served.check()
    if is_binary:
        # Names the package that verifying answers lacks.
        VerifiedReward(timeout=reward.timeout, workers=reward.workers).close()
