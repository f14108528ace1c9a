"""The plan of a training: its parts, made from the settings once and checked whole before anything is written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from transformers import AutoConfig
from trl import GRPOConfig, RewardConfig, SFTConfig

from geoalign.answers.function import load_function
from geoalign.answers.messages import rendered, token_ids
from geoalign.answers.second import second_verifier
from geoalign.answers.verified import VerifiedReward
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
from geoalign.lab.models.settings import EVERY_OTHER, PretrainedModelConfig
from geoalign.lab.rewards.corruption import check_corruption
from geoalign.lab.rewards.reward_model import check_ready_model
from geoalign.lab.runs.folder import RunFolder, stage_checkpoints
from geoalign.lab.train.options import GenerationShape, generation_shape, located, trainer_options
from geoalign.lab.train.settings import RunConfig
from geoalign.pretrained.from_pretrained import from_pretrained, loading
from geoalign.settings.hidden import is_last, layer_numbers
from geoalign.settings.loading import check_keys
from geoalign.settings.locations import NOWHERE, Locations
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
        return tuple(name for name in ("reward_model", "gold_model") if getattr(self, name) is not None)

    def prompts_used(self) -> list[Problem]:
        """The training problems that the run will use, each once, in the order of their first use."""
        return [self.problems[index] for index in dict.fromkeys(self.order)]


def make_plan(
    config: RunConfig,
    folder: RunFolder,
    console: Console,
    locations: Locations = NOWHERE,
    *,
    task: Task | None = None,
    bf16: bool = False,
    ask: bool = True,
) -> Plan:
    """Makes the parts of a training, and so finds what is wrong with the settings (ConfigError); writes nothing.

    `ask`: also ask the server of the reward, where there is one, whether it is up.
    """
    check_depth(config, locations)
    options = _options(config, folder, locations, bf16)
    grpo = options["grpo"]
    task = task or make_task(config.task, seed=config.seed)
    for line in task.notes:  # reads the task's files, so that what is wrong with them shows now
        console.print(line, markup=False)
    if config.gold_model and not task.gold_pairs:
        why = "where the task keeps no pairs for a gold model (task.gold_share of hh_rlhf)"
        raise located(locations, "gold_model", f"expected nothing {why}, got {quote(config.gold_model)}")
    shape = generation_shape(grpo)
    limited = config.max_prompt_length is not None
    tokenizer = initial_tokenizer(config.model, alphabet=task.alphabet, words=task.words) if limited else None
    problems = short_enough(task.train_problems, config, tokenizer, console, what="training prompts")
    evaluation_sets = task.evaluation_problems
    for key in ("samples", "pass_samples"):
        if isinstance(named := getattr(config.evaluation, key), dict):
            check_keys(named, [*evaluation_sets, EVERY_OTHER], f"evaluation.{key}", locations)
    order, max_steps = plan_prompts(grpo, shape, len(problems), locations)
    # What the `grpo` section may not set: the model's settings and the plan, whose prompts TRL takes in order.
    grpo.chat_template_kwargs = dict(config.model.chat_template_kwargs) or None
    if hasattr(grpo, "trust_remote_code"):  # of the reference model, and of vLLM's
        grpo.trust_remote_code = config.model.trust_remote_code
    grpo.max_steps, grpo.shuffle_dataset = max_steps, False
    curator = as_curator(config.curator)
    plan = Plan(
        config=config,
        folder=folder,
        console=console,
        processes=Processes.launched(),
        task=task,
        problems=problems,
        order=order,
        evaluation_sets={name: items[: config.evaluation.problems] for name, items in evaluation_sets.items()},
        sft=options.get("sft"),
        reward_model=options["reward_model"] if task.preference_pairs and not config.reward.model.ready else None,
        gold_model=options["gold_model"] if task.gold_pairs else None,
        grpo=grpo,
        generation=shape,
        curator=curator,
        labelled_rollouts=_labelled(config.labelled_rollouts, curator, locations),
    )
    try:
        _check_reward(plan, ask=ask)
    except ConfigError as error:
        raise ConfigError(f"{locations.prefix(str(error).partition(':')[0])}{error}") from error
    return plan


def _options(config: RunConfig, folder: RunFolder, locations: Locations, bf16: bool) -> dict[str, Any]:
    """The options of TRL's trainers by section."""
    for section in ("reward_model", "gold_model"):
        if config.reward_head is not None and (given := getattr(config, section)):
            expected = "expected nothing beside reward_head, with which no trainer of TRL takes options"
            raise located(locations, section, f"{expected}, got {quote(given)}")
    places = {**stage_checkpoints(folder), "grpo": folder.rl_checkpoints}
    sections = {name: getattr(config, name) for name in ("reward_model", "grpo", "sft")}
    sections["gold_model"] = {**config.reward_model, **config.gold_model}
    return {
        name: trainer_options(name, values, seed=config.seed, folder=places[name], locations=locations, bf16=bf16)
        for name, values in sections.items()
        if values is not None
    }


def prompt_lengths(items: Sequence[_Item], tokenizer: Any, options: Mapping[str, Any]) -> list[int]:
    """Tokens of each item's prompt in the chat template."""
    if not items:
        return []
    texts = [rendered(item.prompt, tokenizer, options) for item in items]
    return [len(ids) for ids in token_ids(texts, tokenizer)]


def short_enough(
    items: Sequence[_Item], config: RunConfig, tokenizer: Any, console: Console, *, what: str
) -> list[_Item]:
    """The items whose prompts have at most `max_prompt_length` tokens, in order; how many are left out is printed."""
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
    if left_out := len(items) - len(kept):
        said = f"{left_out} of {len(items)} {what} left out: more than max_prompt_length = {limit} tokens"
        console.print(said, markup=False)
    return kept


def plan_prompts(
    options: GRPOConfig, shape: GenerationShape, problems: int, locations: Locations = NOWHERE
) -> tuple[list[int], int]:
    """The problem in each row of the training data, epoch after epoch as they are used, and how many updates they make.

    TRL's own sampler shuffles each epoch with a generator that starts anew on resumption: after a kill, a run of
    several epochs would see other prompts. Here every prompt's row is fixed from the start; each epoch is another
    permutation (`shuffle_dataset`), and its last incomplete batch is left out.
    """
    per_generation, updates = shape.prompts, shape.updates
    if problems < per_generation:
        raise ConfigError(
            f"task: expected at least {per_generation} training problems, as one generation batch holds "
            f"(grpo.generation_batch_size / grpo.num_generations), got {problems}"
        )
    per_epoch = problems // per_generation
    max_steps = options.max_steps
    if max_steps <= 0:
        max_steps = math.ceil(options.num_train_epochs * per_epoch) * updates
    if max_steps < 1:
        raise located(locations, "grpo.num_train_epochs", f"expected at least one update, got {quote(max_steps)}")
    generations = math.ceil(max_steps / updates)
    shuffle = options.shuffle_dataset is not False
    generator = torch.Generator().manual_seed(options.seed)
    order: list[int] = []
    while len(order) < generations * per_generation:
        epoch = torch.randperm(problems, generator=generator).tolist() if shuffle else list(range(problems))
        order.extend(epoch[: per_epoch * per_generation])
    return order[: generations * per_generation], max_steps


def check_depth(config: RunConfig, locations: Locations = NOWHERE) -> None:
    """Raises ConfigError for a layer that the model does not have; of a pretrained one only the settings are read."""
    head, model = None if config.reward_head is None else config.reward_head.layers, config.model
    if is_last(config.hidden_layer) and head is None:
        return
    if isinstance(model, PretrainedModelConfig):
        code: dict[str, Any] = {"trust_remote_code": model.trust_remote_code, "setting": CODE_SETTING}
        with loading("model.path: expected a model", model.path):
            settings = from_pretrained(AutoConfig, model.path, revision=model.revision, **code)
        depth = int(settings.get_text_config().num_hidden_layers)
    else:
        depth = model.layers
    try:
        layer_numbers(config.hidden_layer, depth)
    except InputError as error:
        raise ConfigError(f"{locations.prefix('hidden_layer')}{error}") from error
    if head is not None and head > depth:
        raise located(locations, "reward_head.layers", f"expected at most the model's {depth}, got {head}")


def _labelled(file: str | None, curator: Curator, locations: Locations) -> LabelledRollouts | None:
    if file is None:
        return None
    try:
        check_takes_labelled(curator)
        return read_labelled_rollouts(file)
    except GeoAlignError as error:
        raise ConfigError(f"{locations.prefix('labelled_rollouts')}{error}") from error


def binary_reward(plan: Plan) -> bool:
    """Whether the clean rewards are 0 or 1: they are, unless a reward model gives them."""
    return plan.reward_model is None and not plan.config.reward.model.ready


def _check_reward(plan: Plan, *, ask: bool) -> None:
    """Raises ConfigError for a reward, a corruption or a curator that do not go together, or a reward not there."""
    settings, model, binary = plan.config.reward, plan.config.reward.model, binary_reward(plan)
    check_corruption(settings, binary=binary)
    if settings.function is not None:
        load_function(settings.function)
    if settings.appeals is not None:
        second_verifier(settings.appeals, settings.endpoint, key="reward.appeals", section="reward.endpoint")
    if settings.function is not None:
        for name in ("flip", "extremes", "shortcut"):
            if (share := getattr(settings, name)) > 0:
                raise ConfigError(
                    f"reward.{name}: expected 0 with reward.function, whose rewards stay as they are, got {share}"
                )
        if "reference_rewards" in plan.curator.requires:
            raise ConfigError(
                "reward.function: expected a curator that needs no reference_rewards, which are the task's own"
            )
    if settings.shortcut > 0 and plan.task.takes_shortcut is None:
        raise ConfigError(f"reward.shortcut: expected a task with a recognisable shortcut, got {plan.task.name}")
    if model.path is not None:
        check_ready_model(model.path, model)
    if model.url is not None and ask:
        from geoalign.lab.rewards.served_model import ServedRewardModel  # httpx2 only where there is a server

        with ServedRewardModel(model) as served:
            served.check()
    if "answers" in plan.curator.requires and plan.task.final_answer is None:
        raise ConfigError(f"curator: expected a task whose responses have final answers, got {plan.task.name}")
    if binary:
        VerifiedReward(timeout=settings.timeout, workers=settings.workers).close()
