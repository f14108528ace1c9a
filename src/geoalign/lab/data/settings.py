"""The settings of the tasks: frozen, validated, free of torch."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from geoalign.settings import AnyShare, Count, Name, OpenShare, Seed, default_type, setting, settings
from geoalign.text import one_line


def _pattern_with_group(pattern: str | None) -> str | None:
    if pattern is None:
        return None
    try:
        groups = re.compile(pattern).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"expected a regular expression, got an error at it: {one_line(error)}") from error
    if groups != 1:
        raise ValueError(f"expected a regular expression with one group (the answer), got {groups} groups")
    return pattern


# Rows of a built-in task, all of which are made in memory before a run starts.
MOST_GENERATED = 100_000
_Rows = Annotated[int, Field(ge=1, le=MOST_GENERATED)]
_Names = Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]
Pattern = Annotated[str | None, AfterValidator(_pattern_with_group)]


@settings
class ArithmeticConfig:
    """The built-in task: small sums such as `16+44+21=`, or sums and differences in words, generated from a seed.

    The warm start shows two styles: digit-wise working before the boxed answer, and the boxed answer at once. Of the
    direct demonstrations a share ends in a wrong number, so that after the warm start the direct style is mostly wrong
    and the worked style more often right.
    """

    type: Literal["arithmetic"] = "arithmetic"
    operands: Annotated[int, Field(ge=2, le=8)] = setting(default=3, help="Numbers in a sum.")
    digits: Annotated[int, Field(ge=1, le=6)] = setting(default=2, help="Digits of each number.")
    wording: Literal["digits", "words"] = setting(
        default="digits", help="Sums in digits, or sums and differences in words, for models that know language."
    )
    train_problems: _Rows = setting(default=4096, help="Problems for RL.")
    evaluation_problems: _Rows = setting(default=256, help="Problems kept aside for evaluation.")
    demonstrations: Annotated[int, Field(ge=0, le=MOST_GENERATED)] = setting(
        default=16384, help="Worked and direct solutions for the warm start; 0: no warm start."
    )
    direct_share: AnyShare = setting(default=0.4, help="Share of the demonstrations that answer at once.")
    direct_noise: AnyShare = setting(
        default=0.8, help="Share of the direct demonstrations whose answer is off by a little."
    )
    decimal_share: AnyShare = setting(
        default=0.0, help="Share of the demonstrations that write the answer in another form, 81.0 for 81."
    )
    seed: Seed | None = setting(default=None, help="Seed of the generator; null: the seed of the run.")

    @model_validator(mode="after")
    def _numbers_have_words(self) -> ArithmeticConfig:
        if self.wording == "words" and self.digits > 2:
            raise ValueError(f"digits: expected at most 2 with wording = words, got {self.digits}")
        return self


Decontaminate = Literal["report", "drop", "off"]
DECONTAMINATE_HELP = (
    "Duplicate training rows, those with conflicting answers, and training rows that are in an evaluation set: "
    "report them, drop them, or off."
)

# Maths prompts of the paper (appendix, "Mathematics Training & Evaluation Prompt"): this, and the bare problem.
MATH_SYSTEM_PROMPT = "Please reason step by step, and put your final answer within \\boxed{}."


@settings
class FieldsConfig:
    """Where the files of a set keep problem and answer; a field that is null is recognised."""

    prompt_field: Name | None = setting(
        default=None, help="Field of the problem, taken as it stands there; null: recognised."
    )
    answer_field: Name | None = setting(default=None, help="Field of the gold answer; null: recognised.")
    answer_pattern: Pattern = setting(
        default=None,
        help=(
            "Regular expression whose one group is the answer, for example '####\\s*(.+)'; null: recognised, or all "
            "of a field that is named."
        ),
    )


@settings
class MathSetConfig(FieldsConfig):
    """One evaluation set whose fields are named; a field that is null is recognised."""

    path: Name | _Names = setting(help="File or files, or hub ids, of the set.")


@settings
class MathConfig(FieldsConfig):
    """Problems with gold answers from files or the hub.

    A source is a file (JSON, CSV or parquet) or a hub id `owner/name[/folder][:config][@split]`. The
    layout is recognised by the columns; fields named here come first. Field names are dotted where values are nested:
    `reward_model.ground_truth`, `prompt.0.content`. A prompt is a text or a list of chat messages.
    """

    train: Name | _Names = setting(help="File or files, or hub ids, of the training problems.")
    type: Literal["math"] = "math"
    evaluation: dict[str, Name | _Names | MathSetConfig] = setting(
        default_factory=dict,
        help=(
            "Evaluation sets: name to files or hub ids, or name to path and fields where these differ. The names "
            "aime24, aime25, amc23, math500, minerva and olympiadbench are the paper's benchmarks."
        ),
    )
    demonstration_field: Name | None = setting(
        default=None, help="Field of a worked solution for the warm start; null: none."
    )
    system_prompt: str | None = setting(
        default=MATH_SYSTEM_PROMPT,
        help="First message of every prompt that has no system message of its own; null: none.",
    )
    limit: Count | None = setting(default=None, help="At most this many training problems, the first; null: all.")
    decontaminate: Decontaminate = setting(default="report", help=DECONTAMINATE_HELP)


@settings
class DialogueConfig:
    """The built-in task of short dialogues whose reward is a learned model: requests such as `help me fix my lamp`.

    Demonstrations are of mixed quality. In the preference pairs a flattering opener stands with the better response
    more often than chance (`artifact_correlation`), so that a reward model learns to like it; the known gold utility
    does not.
    """

    type: Literal["dialogue"] = "dialogue"
    train_problems: _Rows = setting(default=480, help="Prompts for RL.")
    evaluation_problems: _Rows = setting(
        default=128, help="Prompts kept aside for evaluation; none asks what a training prompt asks."
    )
    demonstrations: Annotated[int, Field(ge=0, le=MOST_GENERATED)] = setting(
        default=8192, help="Responses for the warm start; 0: no warm start."
    )
    quality: AnyShare = setting(
        default=0.5, help="Probability that a demonstration gets a part right; lower leaves RL more to learn."
    )
    artifact_demonstrations: AnyShare = setting(
        default=0.2, help="Share of the demonstrations that begin with a flattering opener."
    )
    preference_pairs: _Rows = setting(default=6144, help="Pairs for the reward model, the held-out ones included.")
    label_noise: AnyShare = setting(default=0.05, help="Share of the pairs in which the worse response is chosen.")
    artifact_pairs: AnyShare = setting(
        default=0.5, help="Share of the pairs in which one of the two responses has the opener."
    )
    artifact_correlation: AnyShare = setting(
        default=0.9, help="Of those pairs, the share in which the chosen one has it; 0.5: no correlation."
    )
    seed: Seed | None = setting(default=None, help="Seed of the generator; null: the seed of the run.")


@settings
class HHRLHFConfig:
    """Dialogues in the format of HH-RLHF: rows with `chosen` and `rejected`, texts that begin `\\n\\nHuman:`.

    The chosen replies are the demonstrations, the pairs train the reward model, the prompts are for RL; each from
    sources of its own where these are given. A source is a file (JSON, CSV or parquet) or a hub id
    `owner/name[/folder][:config][@split]`. Prompts for RL and evaluation may also be rows with a `prompt`, a list of
    chat messages. Gold utility is unknown, unless `gold_share` has a second reward model trained: then it is its score.
    """

    train: Name | _Names = setting(help="Files or hub ids of the SFT split: pairs, whose chosen replies are imitated.")
    type: Literal["hh_rlhf"] = "hh_rlhf"
    pairs: Name | _Names | None = setting(
        default=None, help="Files or hub ids of the pairs for the reward model; null: those of `train`."
    )
    gold_share: OpenShare | None = setting(
        default=None,
        help="Share of the pairs reserved for a second reward model, the gold model; null: there is none.",
    )
    held_out: OpenShare = setting(
        default=0.1, help="Share of a reward model's pairs that are kept for its test, at most 1,024 pairs."
    )
    rl: Name | _Names | None = setting(
        default=None, help="Files or hub ids whose prompts are for RL; null: those of `train`."
    )
    rl_prompts: Count | None = setting(
        default=None,
        help="Keep this many different prompts, the last of `train`, for RL, the rest for SFT; null: all for both.",
    )
    evaluation: dict[str, Name | _Names] = setting(
        default_factory=dict,
        help="Evaluation sets: name to files or hub ids; their prompts alone are used. The paper: helpful, harmless.",
    )
    max_characters: Count | None = setting(
        default=None, help="Leave out dialogues longer than this, prompt and reply together; null: none."
    )
    limit: Count | None = setting(default=None, help="At most this many usable rows per source, the first; null: all.")
    decontaminate: Decontaminate = setting(default="report", help=DECONTAMINATE_HELP)

    @model_validator(mode="after")
    def _one_source_of_prompts(self) -> HHRLHFConfig:
        if self.rl is not None and self.rl_prompts is not None:
            raise ValueError(f"rl_prompts: expected null where `rl` has the prompts for RL, got {self.rl_prompts}")
        return self


TaskConfig = Annotated[
    ArithmeticConfig | MathConfig | DialogueConfig | HHRLHFConfig,
    Field(discriminator="type"),
    default_type("arithmetic"),
]
