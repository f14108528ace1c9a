"""What the stages of one run share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trl import GRPOConfig, RewardConfig, SFTConfig

from geoalign.curators.base import Curator
from geoalign.curators.registry import make_curator
from geoalign.lab.config.run import RunConfig
from geoalign.lab.models.models import initial_tokenizer, template_options, trusts_code
from geoalign.lab.models.processes import Processes
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.tasks import make_task
from geoalign.lab.tasks.base import Problem, Task
from geoalign.lab.terminal import Console
from geoalign.lab.train.options import (
    GenerationShape,
    PromptPlan,
    generation_shape,
    grpo_options,
    plan_prompts,
    reward_model_options,
    sft_options,
)
from geoalign.lab.train.prompts import short_enough
from geoalign.lab.train.subsets import check_subset
from geoalign.settings.loading import check_keys
from geoalign.settings.locations import Locations


@dataclass(frozen=True)
class Run:
    """Everything that the stages of one run share; `sft` and `reward_model` are None where there is no such stage.

    `problems` are the task's training problems without those whose prompts are too long.
    """

    config: RunConfig
    folder: RunFolder
    task: Task
    problems: Sequence[Problem]
    curator: Curator
    sft: SFTConfig | None
    reward_model: RewardConfig | None
    grpo: GRPOConfig
    generation: GenerationShape
    plan: PromptPlan
    console: Console
    processes: Processes

    def evaluation_sets(self) -> dict[str, Sequence[Problem]]:
        """The problems kept aside by name, each set cut to `evaluation.problems`."""
        limit = self.config.evaluation.problems
        return {name: problems[:limit] for name, problems in self.task.evaluation_problems().items()}

    def prompts_used(self) -> list[Problem]:
        """The training problems that the run will use, each once, in the order of their first use."""
        return [self.problems[place] for place in dict.fromkeys(self.plan.order)]


def make_run(
    config: RunConfig, folder: RunFolder, places: Locations | None, console: Console, *, task: Task | None = None
) -> Run:
    """Builds what the stages share, and so finds what is wrong with the settings; writes nothing.

    Args:
        task: that of the settings, where it has been made already.

    Raises:
        ConfigError: a setting is wrong; the message has the file and the line where `places` knows them.
    """
    sft = None
    if config.sft is not None:
        sft = sft_options(config.sft, seed=config.seed, folder=folder.sft_checkpoints, places=places)
    reward_model = reward_model_options(
        config.reward_model, seed=config.seed, folder=folder.reward_model_checkpoints, places=places
    )
    grpo = grpo_options(config.grpo, seed=config.seed, folder=folder.rl_checkpoints, places=places)
    grpo.chat_template_kwargs = template_options(config.model) or None
    if hasattr(grpo, "trust_remote_code"):  # of the reference model, and of vLLM's
        grpo.trust_remote_code = trusts_code(config.model)
    task = task or make_task(config.task, seed=config.seed)
    for note in task.notes():  # reads the task's files, so that what is wrong with them shows now
        console.print(note, markup=False)
    learned = reward_model if task.preference_pairs() and not config.reward.model.ready else None
    shape = generation_shape(grpo)
    _check_sets(config, task, places)
    check_subset(config.curator, shape.samples, whole=True, places=places)
    problems, left_out = short_enough(
        task.train_problems(),
        config.max_prompt_length,
        None
        if config.max_prompt_length is None
        else initial_tokenizer(config.model, alphabet=task.alphabet(), words=task.words()),
        template_options(config.model),
        what="training prompts",
    )
    if left_out is not None:
        console.print(left_out, markup=False)
    plan = plan_prompts(grpo, shape, len(problems), places)
    # The plan has every prompt in its place, so TRL takes them in order.
    grpo.max_steps, grpo.shuffle_dataset = plan.max_steps, False
    curator = make_curator(config.curator)
    return Run(config, folder, task, problems, curator, sft, learned, grpo, shape, plan, console, Processes.launched())


def _check_sets(config: RunConfig, task: Task, places: Locations | None) -> None:
    """Raises ConfigError for a set named in `evaluation.samples` or `pass_samples` that the task does not have."""
    known = list(task.evaluation_problems())
    for key, given in (("samples", config.evaluation.samples), ("pass_samples", config.evaluation.pass_samples)):
        if isinstance(given, dict):
            check_keys(given, known, f"evaluation.{key}", places or Locations())
