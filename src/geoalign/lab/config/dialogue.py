"""The settings of the dialogue tasks; free of torch."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from geoalign.settings import setting, settings

# Rows of a built-in task, all of which are made in memory before a run starts.
MOST_GENERATED = 100_000
_Share = Annotated[float, Field(ge=0, le=1)]


@settings
class DialogueConfig:
    """The built-in task of short dialogues whose reward is a learned model: requests such as `help me fix my lamp`.

    Demonstrations are of mixed quality. In the preference pairs a flattering opener stands with the better response
    more often than chance (`artifact_correlation`), so that a reward model learns to like it; the known gold utility
    does not.
    """

    type: Literal["dialogue"] = "dialogue"
    train_problems: Annotated[int, Field(ge=1, le=MOST_GENERATED)] = setting(default=480, help="Prompts for RL.")
    evaluation_problems: Annotated[int, Field(ge=1, le=MOST_GENERATED)] = setting(
        default=128, help="Prompts kept aside for evaluation; none asks what a training prompt asks."
    )
    demonstrations: Annotated[int, Field(ge=0, le=MOST_GENERATED)] = setting(
        default=8192, help="Responses for the warm start; 0: no warm start."
    )
    quality: _Share = setting(
        default=0.5,
        help="Probability that a demonstration gets a part right; less leaves RL more to do.",
    )
    artifact_demonstrations: _Share = setting(
        default=0.2, help="Share of the demonstrations that begin with a flattering opener."
    )
    preference_pairs: Annotated[int, Field(ge=1, le=MOST_GENERATED)] = setting(
        default=6144, help="Pairs for the reward model, the held-out ones included."
    )
    label_noise: _Share = setting(
        default=0.05, help="Share of the pairs in which the worse response is the chosen one."
    )
    artifact_pairs: _Share = setting(
        default=0.5, help="Share of the pairs in which one of the two responses has the opener."
    )
    artifact_correlation: _Share = setting(
        default=0.9, help="Of those pairs, the share in which the chosen one has it; 0.5: no correlation."
    )
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = setting(
        default=None, help="Seed of the generator; null: the seed of the run."
    )
