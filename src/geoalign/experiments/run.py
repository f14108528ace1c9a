"""What the stages of one run share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from trl import GRPOConfig, RewardConfig, SFTConfig

from geoalign.config.run import RunConfig
from geoalign.curators.base import Curator
from geoalign.experiments.run_folder import RunFolder
from geoalign.tasks.base import Problem, Task
from geoalign.training.options import GenerationShape, PromptPlan


@dataclass(frozen=True)
class Run:
    """Everything that the stages of one run share; `sft` and `reward_model` are None where there is no such stage."""

    config: RunConfig
    folder: RunFolder
    task: Task
    curator: Curator
    sft: SFTConfig | None
    reward_model: RewardConfig | None
    grpo: GRPOConfig
    generation: GenerationShape
    plan: PromptPlan
    console: Console

    def evaluation_sets(self) -> dict[str, Sequence[Problem]]:
        """The problems kept aside by name, each set cut to `evaluation.problems`."""
        limit = self.config.evaluation.problems
        return {name: problems[:limit] for name, problems in self.task.evaluation_problems().items()}

    def prompts_used(self) -> list[Problem]:
        """The training problems that the run will use, each once, in the order of their first use."""
        problems = self.task.train_problems()
        return [problems[place] for place in dict.fromkeys(self.plan.order)]
