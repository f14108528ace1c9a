"""The settings of one training run: sections, defaults, ranges. Importing them loads no torch."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from geoalign.curators.registry import CuratorSection, default_curator
from geoalign.lab.data.settings import ArithmeticConfig, TaskConfig
from geoalign.lab.models.settings import EVERY_OTHER, ModelConfig, TinyModelConfig
from geoalign.lab.rewards.settings import RewardConfig, RewardHeadConfig
from geoalign.settings import Count, Name, NotNegative, Options, Seed, setting, settings
from geoalign.settings.hidden import LAST, HiddenLayerSetting, HiddenPosition


@settings
class LaunchConfig:
    """How a run is meant to be launched: what `--dry-run` plans for and prints. A launch of another size is refused."""

    processes: Annotated[int, Field(ge=1, le=100_000)] | None = setting(
        default=None, help="Processes, one per GPU; null: as launched."
    )
    accelerate: Name | None = setting(default=None, help="accelerate's settings file, for the command that is printed.")


@settings
class EvaluationConfig:
    """Accuracy (or mean reward) on problems kept aside: before RL, every few steps, and after."""

    every: Count | None = setting(default=20, help="Steps between evaluations in RL; null: only before and after.")
    problems: Count | None = setting(default=256, help="At most this many problems of each set; null: all.")
    samples: Count | dict[str, Count] = setting(
        default=1, help="Responses per problem; or set by set, `*` for every other set (without it: 1)."
    )
    pass_samples: Count | dict[str, Count] | None = setting(
        default=None,
        help=(
            "Responses per problem in the evaluation after RL, for pass@k; or set by set, `*` for every other set; "
            "null: as `samples`."
        ),
    )
    temperature: NotNegative = setting(default=1.0, help="Sampling temperature; 0: the likeliest token.")
    batch_size: Count = setting(default=128, help="Responses generated at a time.")
    max_new_tokens: Count | None = setting(
        default=None, help="Longest response in tokens; null: as in RL (grpo.max_completion_length)."
    )

    def samples_of(self, name: str, *, last: bool) -> int:
        """Responses per problem of a set; `last`: in the evaluation after RL."""
        samples = _of_set(self.samples, name, otherwise=1)
        if not last or self.pass_samples is None:
            return samples
        return _of_set(self.pass_samples, name, otherwise=samples)


def _of_set(samples: int | dict[str, int], name: str, *, otherwise: int) -> int:
    """The number for a set: its own, that of every other set, or `otherwise`."""
    if isinstance(samples, int):
        return samples
    return samples.get(name, samples.get(EVERY_OTHER, otherwise))


@settings
class OutputConfig:
    """What a run folder keeps."""

    folder: str | None = setting(default=None, help="The run folder, unless --output names one.")
    keep_checkpoints: Count | None = setting(default=2, help="Complete checkpoints kept per stage; null: all.")
    rollouts: bool = setting(default=True, help="Keep every generated response with its scores.")
    details_every: Count | None = setting(
        default=10, help="Generations between saved details (pairs, density) for the figures; null: none."
    )


@settings
class RunConfig:
    """One training run. Every section has a default; `type` picks the kind in `model`, `task` and `curator`.

    `sft`, `reward_model` and `grpo` hold options of TRL's `SFTConfig`, `RewardConfig` and `GRPOConfig`, passed on as
    they are; options left out take this project's defaults (`geoalign.lab.train.options`), then TRL's. `sft: null`
    leaves the warm start out. `reward_model` is of use to tasks with preference pairs only, `gold_model`, options like
    those of `reward_model` and laid over them, to tasks that keep some pairs for a gold model (`task.gold_share`).
    """

    seed: Seed = setting(default=0, help="Seed of every random draw.")
    hidden_position: HiddenPosition = setting(default="predicting", help="Where in a response its state is read.")
    hidden_layer: HiddenLayerSetting = setting(
        default=LAST, help="After which layer: a number, or a share of the depth (0.5); a list: several."
    )
    hidden_source: Literal["auto", "own_pass", "logprob_pass"] = setting(
        default="auto", help="Take hidden states from TRL's log-probability pass, where possible, or an extra one."
    )
    labelled_rollouts: Name | None = setting(
        default=None, help="Rollouts with true rewards for the curator: a dump, or a flagged.csv with labels."
    )
    max_prompt_length: Count | None = setting(
        default=None,
        help="Training prompts longer than this, in tokens of the chat template, are left out and counted.",
    )
    reward_head: RewardHeadConfig | None = setting(
        default=None, help="Fit only the heads of reward and gold model; null: train them with TRL."
    )
    model: ModelConfig = setting(default_factory=TinyModelConfig, help="The model that is trained.")
    task: TaskConfig = setting(
        default_factory=ArithmeticConfig, help="Where problems, demonstrations and evaluation sets come from."
    )
    reward: RewardConfig = setting(default_factory=RewardConfig, help="How responses are scored.")
    curator: CuratorSection = setting(
        default_factory=default_curator, help="What corrects the rewards: a section with its `type`, or a name alone."
    )
    sft: dict[str, Any] | None = setting(
        default_factory=dict, help="Options of TRL's SFTConfig for the warm start; null: no warm start."
    )
    reward_model: Options = setting(
        default_factory=dict, help="Options of TRL's RewardConfig, where the run trains a reward model."
    )
    gold_model: Options = setting(
        default_factory=dict, help="Options of TRL's RewardConfig for a gold model, laid over those of `reward_model`."
    )
    grpo: Options = setting(default_factory=dict, help="Options of TRL's GRPOConfig for RL.")
    evaluation: EvaluationConfig = setting(
        default_factory=EvaluationConfig, help="How the policy is evaluated, and how often."
    )
    launch: LaunchConfig = setting(default_factory=LaunchConfig, help="How the run is meant to be launched.")
    output: OutputConfig = setting(default_factory=OutputConfig, help="What the run folder keeps.")


# The `type` that each section has where it names none.
DEFAULT_TYPES = {"model": "tiny", "task": "arithmetic", "curator": "denoise"}
