"""The settings of the dialogue tasks; free of torch."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Literal

from pydantic import Field

from geoalign.settings.curators import settings


def _help(text: str) -> dict[str, str]:
    return {"help": text}


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
    train_problems: Annotated[int, Field(ge=1, le=MOST_GENERATED)] = field(
        default=480, metadata=_help("Prompts for RL.")
    )
    evaluation_problems: Annotated[int, Field(ge=1, le=MOST_GENERATED)] = field(
        default=128, metadata=_help("Prompts kept aside for evaluation; none asks what a training prompt asks.")
    )
    demonstrations: Annotated[int, Field(ge=0, le=MOST_GENERATED)] = field(
        default=8192, metadata=_help("Responses for the warm start; 0: no warm start.")
    )
    quality: _Share = field(
        default=0.5,
        metadata=_help("Probability that a demonstration gets a part right; less leaves RL more to do."),
    )
    artifact_demonstrations: _Share = field(
        default=0.2, metadata=_help("Share of the demonstrations that begin with a flattering opener.")
    )
    preference_pairs: Annotated[int, Field(ge=1, le=MOST_GENERATED)] = field(
        default=6144, metadata=_help("Pairs for the reward model, the held-out ones included.")
    )
    label_noise: _Share = field(
        default=0.05, metadata=_help("Share of the pairs in which the worse response is the chosen one.")
    )
    artifact_pairs: _Share = field(
        default=0.5, metadata=_help("Share of the pairs in which one of the two responses has the opener.")
    )
    artifact_correlation: _Share = field(
        default=0.9, metadata=_help("Of those pairs, the share in which the chosen one has it; 0.5: no correlation.")
    )
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = field(
        default=None, metadata=_help("Seed of the generator; null: the seed of the run.")
    )
