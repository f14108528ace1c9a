"""What the stages of one run share: its parts, made from the settings once and checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trl import GRPOConfig, RewardConfig, SFTConfig

from geoalign.adapters.trl.states import HiddenSource
from geoalign.curators.anchors import Anchors, check_anchored
from geoalign.curators.base import Curator
from geoalign.curators.chain import ChainConfig
from geoalign.curators.gfpo import GFPOConfig
from geoalign.curators.pods import PODSConfig
from geoalign.curators.registry import make_curator
from geoalign.errors import ConfigError, GeoAlignError
from geoalign.lab.config.reward_model import RewardHeadConfig
from geoalign.lab.config.rewards import RewardConfig as RewardSettings
from geoalign.lab.config.run import EvaluationConfig, ModelConfig, OutputConfig, RunConfig
from geoalign.lab.dumps.labels import read_anchors
from geoalign.lab.models.models import initial_tokenizer
from geoalign.lab.models.processes import Processes
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.tasks import make_task
from geoalign.lab.tasks.base import Problem, Task
from geoalign.lab.terminal import Console
from geoalign.lab.train.depth import check_depth
from geoalign.lab.train.options import grpo_options, reward_model_options, sft_options
from geoalign.lab.train.prompts import GenerationShape, PromptPlan, generation_shape, plan_prompts, short_enough
from geoalign.settings.hidden import HiddenLayer, HiddenPosition
from geoalign.settings.loading import check_keys
from geoalign.settings.locations import NOWHERE, Locations
from geoalign.shown import shown


@dataclass(frozen=True)
class Run:
    """The parts of one run.

    Attributes:
        sft, reward_model, gold_model: TRL's options; None where there is no such stage.
        problems: the task's training problems without those whose prompts are too long.
        evaluation_sets: the problems kept aside by name, each set cut to `evaluation.problems`.
    """

    folder: RunFolder
    console: Console
    processes: Processes
    seed: int
    model: ModelConfig
    task: Task
    max_prompt_length: int | None
    problems: Sequence[Problem]
    plan: PromptPlan
    sft: SFTConfig | None
    reward_model: RewardConfig | None
    gold_model: RewardConfig | None
    reward_head: RewardHeadConfig | None
    grpo: GRPOConfig
    generation: GenerationShape
    reward: RewardSettings
    curator: Curator
    hidden_position: HiddenPosition
    hidden_layer: HiddenLayer
    hidden_source: HiddenSource
    anchors: Anchors | None
    evaluation: EvaluationConfig
    evaluation_sets: Mapping[str, Sequence[Problem]]
    output: OutputConfig

    @property
    def learned(self) -> tuple[str, ...]:
        """The stages that make a reward model and a gold model, in their order."""
        return tuple(name for name in ("reward_model", "gold_model") if getattr(self, name) is not None)

    def prompts_used(self) -> list[Problem]:
        """The training problems that the run will use, each once, in the order of their first use."""
        return [self.problems[index] for index in dict.fromkeys(self.plan.order)]


def make_run(
    config: RunConfig,
    folder: RunFolder,
    console: Console,
    locations: Locations = NOWHERE,
    *,
    task: Task | None = None,
    bf16: bool = False,
) -> Run:
    """Makes the parts of a run, and so finds what is wrong with the settings; writes nothing.

    Args:
        task: that of the settings, where it has been made already.
        bf16: whether a CPU computes in bfloat16 where the settings do not say.

    Raises:
        ConfigError: a setting is wrong; the message has the file and the line where `locations` knows them.
    """
    check_depth(config, locations)
    seed, sft = config.seed, None
    if config.sft is not None:
        sft = sft_options(config.sft, seed=seed, folder=folder.sft_checkpoints, locations=locations, bf16=bf16)
    if config.reward_head is not None:
        _check_untrained(config, locations)
    reward_model = reward_model_options(
        config.reward_model, seed=seed, folder=folder.reward_model_checkpoints, locations=locations, bf16=bf16
    )
    grpo = grpo_options(config.grpo, seed=seed, folder=folder.rl_checkpoints, locations=locations, bf16=bf16)
    task = task or make_task(config.task, seed=seed)
    for note in task.notes():  # reads the task's files, so that what is wrong with them shows now
        console.print(note, markup=False)
    trains_reward_model = bool(task.preference_pairs()) and not config.reward.model.ready
    shape = generation_shape(grpo)
    evaluation_sets = _evaluation_sets(config.evaluation, task, locations)
    check_subset(config.curator, shape.samples, whole=True, locations=locations)
    problems = _training_problems(task, config.model, config.max_prompt_length, console)
    plan = plan_prompts(grpo, shape, len(problems), locations)
    curator = make_curator(config.curator)
    anchors = _anchors(config.anchors, curator, locations)
    _complete(grpo, config.model, plan)
    return Run(
        folder=folder,
        console=console,
        processes=Processes.launched(),
        seed=seed,
        model=config.model,
        task=task,
        max_prompt_length=config.max_prompt_length,
        problems=problems,
        plan=plan,
        sft=sft,
        reward_model=reward_model if trains_reward_model else None,
        gold_model=_gold_model(config, task, folder, locations, bf16=bf16),
        reward_head=config.reward_head,
        grpo=grpo,
        generation=shape,
        reward=config.reward,
        curator=curator,
        hidden_position=config.hidden_position,
        hidden_layer=config.hidden_layer,
        hidden_source=config.hidden_source,
        anchors=anchors,
        evaluation=config.evaluation,
        evaluation_sets=evaluation_sets,
        output=config.output,
    )


def _check_untrained(config: RunConfig, locations: Locations) -> None:
    for section in ("reward_model", "gold_model"):
        if options := getattr(config, section):
            raise ConfigError(
                f"{locations.prefix(section)}{section}: expected nothing beside reward_head, with which no trainer of "
                f"TRL takes options, got {shown(options)}"
            )


def _gold_model(
    config: RunConfig, task: Task, folder: RunFolder, locations: Locations, *, bf16: bool
) -> RewardConfig | None:
    if task.gold_pairs():
        return reward_model_options(
            {**config.reward_model, **config.gold_model},
            seed=config.seed,
            folder=folder.gold_model_checkpoints,
            locations=locations,
            bf16=bf16,
            section="gold_model",
        )
    if config.gold_model:
        raise ConfigError(
            f"{locations.prefix('gold_model')}gold_model: expected nothing where the task keeps no pairs for a gold "
            f"model (task.gold_share of hh_rlhf), got {shown(config.gold_model)}"
        )
    return None


def _anchors(file: str | None, curator: Curator, locations: Locations) -> Anchors | None:
    if file is None:
        return None
    try:
        check_anchored(curator)
        return read_anchors(file)
    except GeoAlignError as error:
        raise ConfigError(f"{locations.prefix('anchors')}{error}") from error


def _complete(grpo: GRPOConfig, model: ModelConfig, plan: PromptPlan) -> None:
    """Sets what the `grpo` section may not: the model's settings and the plan, whose prompts TRL takes in order."""
    grpo.chat_template_kwargs = dict(model.chat_template_kwargs) or None
    if hasattr(grpo, "trust_remote_code"):  # of the reference model, and of vLLM's
        grpo.trust_remote_code = model.trust_remote_code
    grpo.max_steps, grpo.shuffle_dataset = plan.max_steps, False


def _evaluation_sets(settings: EvaluationConfig, task: Task, locations: Locations) -> dict[str, Sequence[Problem]]:
    """Raises ConfigError for a set named in `evaluation.samples` or `pass_samples` that the task does not have."""
    sets = task.evaluation_problems()
    for key in ("samples", "pass_samples"):
        if isinstance(named := getattr(settings, key), dict):
            check_keys(named, sets, f"evaluation.{key}", locations)
    return {name: problems[: settings.problems] for name, problems in sets.items()}


def _training_problems(task: Task, model: ModelConfig, limit: int | None, console: Console) -> list[Problem]:
    problems, tokenizer = task.train_problems(), None
    if limit is not None:
        tokenizer = initial_tokenizer(model, alphabet=task.alphabet(), words=task.words())
    kept, note = short_enough(problems, limit, tokenizer, model.chat_template_kwargs, what="training prompts")
    if note is not None:
        console.print(note, markup=False)
    return kept


# The setting by which a curator keeps so many rollouts of each group.
_KEPT = {PODSConfig: "m", GFPOConfig: "k"}


def check_subset(
    curator: Any, samples: int, *, whole: bool, locations: Locations = NOWHERE, key: str = "curator"
) -> None:
    """Raises ConfigError where a curator is set to keep more rollouts than a group has.

    Args:
        curator: its settings; those of a chain are looked through.
        samples: rollouts of each group.
        whole: whether all of a group may be kept. In a comparison it may not: that arm would be plain GRPO.
        locations: where the settings were written.
        key: the settings' own key.
    """
    if isinstance(curator, ChainConfig):
        for index, member in enumerate(curator.members):
            check_subset(member, samples, whole=whole, locations=locations, key=f"{key}.members.{index}")
    if (name := _KEPT.get(type(curator))) is None:
        return
    number = getattr(curator, name)
    if number is None or number < samples or (whole and number == samples):
        return
    expected = (
        f"at most grpo.num_generations = {samples}"
        if whole
        else f"less than grpo.num_generations = {samples} in a comparison (all rollouts of a group kept is plain GRPO)"
    )
    raise ConfigError(f"{locations.prefix(f'{key}.{name}')}{key}.{name}: expected {expected}, got {number}")
