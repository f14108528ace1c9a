"""The settings of the rewards: frozen, validated, free of torch."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from pydantic import Field

from geoalign.config.curators import settings


def _help(text: str) -> dict[str, str]:
    return {"help": text}


@settings
class RewardConfig:
    """Verified answers (1 where the last boxed answer equals the gold one, else 0), and their deliberate corruption."""

    flip: Annotated[float, Field(ge=0, le=1)] = field(
        default=0.0, metadata=_help("Share of the rollouts whose binary reward is flipped.")
    )
    timeout: Annotated[float, Field(gt=0)] = field(
        default=5.0, metadata=_help("Seconds for one answer; then it counts as wrong and as a time-out.")
    )
    workers: Annotated[int, Field(ge=1)] = field(
        default=2, metadata=_help("Processes that verify answers; started when first needed.")
    )
    max_answer_length: Annotated[int, Field(ge=1, le=10_000)] = field(
        default=1000, metadata=_help("Longer boxed answers, in characters, count as wrong unread.")
    )
