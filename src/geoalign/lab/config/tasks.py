"""The settings of the tasks: frozen, validated, free of torch."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from geoalign.lab.config.dialogue import MOST_GENERATED, DialogueConfig
from geoalign.lab.config.hh_rlhf import DECONTAMINATE_HELP, Decontaminate, HHRLHFConfig
from geoalign.settings import setting, settings
from geoalign.shown import brief


def _pattern_with_group(pattern: str | None) -> str | None:
    if pattern is None:
        return None
    try:
        groups = re.compile(pattern).groups
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"expected a regular expression, got an error at it: {brief(error)}") from error
    if groups != 1:
        raise ValueError(f"expected a regular expression with one group (the answer), got {groups} groups")
    return pattern


_Name = Annotated[str, Field(min_length=1)]
_Names = Annotated[tuple[_Name, ...], Field(min_length=1, strict=False)]
_Pattern = Annotated[str | None, AfterValidator(_pattern_with_group)]


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
    train_problems: Annotated[int, Field(ge=1, le=MOST_GENERATED)] = setting(default=4096, help="Problems for RL.")
    evaluation_problems: Annotated[int, Field(ge=1, le=MOST_GENERATED)] = setting(
        default=256, help="Problems kept aside for evaluation."
    )
    demonstrations: Annotated[int, Field(ge=0, le=MOST_GENERATED)] = setting(
        default=16384, help="Worked and direct solutions for the warm start; 0: no warm start."
    )
    direct_share: Annotated[float, Field(ge=0, le=1)] = setting(
        default=0.4, help="Share of the demonstrations that answer at once."
    )
    direct_noise: Annotated[float, Field(ge=0, le=1)] = setting(
        default=0.8, help="Share of the direct demonstrations whose answer is off by a little."
    )
    decimal_share: Annotated[float, Field(ge=0, le=1)] = setting(
        default=0.0, help="Share of the demonstrations that write the answer in another form, 81.0 for 81."
    )
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = setting(
        default=None, help="Seed of the generator; null: the seed of the run."
    )

    @model_validator(mode="after")
    def _numbers_have_words(self) -> ArithmeticConfig:
        if self.wording == "words" and self.digits > 2:
            raise ValueError(f"digits: expected at most 2 with wording = words, got {self.digits}")
        return self


# Maths prompts of the paper (appendix, "Mathematics Training & Evaluation Prompt"): this, and the bare problem.
MATH_SYSTEM_PROMPT = "Please reason step by step, and put your final answer within \\boxed{}."


@settings
class MathSetConfig:
    """One evaluation set whose fields are named; a field that is null is recognised."""

    path: _Name | _Names = setting(help="File or files, or hub ids, of the set.")
    prompt_field: _Name | None = setting(default=None, help="Field of the problem.")
    answer_field: _Name | None = setting(default=None, help="Field of the gold answer.")
    answer_pattern: _Pattern = setting(
        default=None,
        help="Regular expression whose group is the answer; null: recognised, or all of a field that is named.",
    )


@settings
class MathConfig:
    """Problems with gold answers from files or the hub.

    A source is a file (.jsonl, .jsonl.gz, .json, .parquet) or a hub id `owner/name[/folder][:config][@split]`. The
    layout is recognised by the columns; fields named here come first. Field names are dotted where values are nested:
    `reward_model.ground_truth`, `prompt.0.content`. A prompt is a text or a list of chat messages.
    """

    train: _Name | _Names = setting(help="File or files, or hub ids, of the training problems.")
    type: Literal["math"] = "math"
    evaluation: dict[str, _Name | _Names | MathSetConfig] = setting(
        default_factory=dict,
        help=(
            "Evaluation sets: name to files or hub ids, or name to path and fields where these differ. The names "
            "aime24, aime25, amc23, math500, minerva and olympiadbench are the paper's benchmarks."
        ),
    )
    prompt_field: _Name | None = setting(
        default=None, help="Field of the problem, taken as it stands there; null: recognised."
    )
    answer_field: _Name | None = setting(default=None, help="Field of the gold answer; null: recognised.")
    answer_pattern: _Pattern = setting(
        default=None,
        help=(
            "Regular expression whose one group is the answer, for example '####\\s*(.+)'; null: recognised, or all "
            "of a field that is named."
        ),
    )
    demonstration_field: _Name | None = setting(
        default=None, help="Field of a worked solution for the warm start; null: none."
    )
    system_prompt: str | None = setting(
        default=MATH_SYSTEM_PROMPT,
        help="First message of every prompt that has no system message of its own; null: none.",
    )
    limit: Annotated[int, Field(ge=1)] | None = setting(
        default=None, help="Use the first so many training problems; null: all."
    )
    decontaminate: Decontaminate = setting(default="report", help=DECONTAMINATE_HELP)

    @model_validator(mode="after")
    def _names_given(self) -> MathConfig:
        for name in self.evaluation:
            if not name.strip():
                raise ValueError("evaluation: expected a name for every set, got an empty one")
        return self


TaskConfig = Annotated[ArithmeticConfig | MathConfig | DialogueConfig | HHRLHFConfig, Field(discriminator="type")]
