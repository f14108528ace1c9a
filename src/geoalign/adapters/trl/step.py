"""What an observer gets after each curation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from geoalign.types import Curation, Rollouts


@dataclass(frozen=True, eq=False)
class CuratedStep:
    """One curation inside a training, over the whole generation batch of B rollouts (all processes).

    Attributes:
        step: the trainer's `global_step` when the batch was generated.
        generation: running index of the generation batch in the training, from 0; kept over a resume.
        rollouts: what the curator read; row i belongs to group `rollouts.groups[i]`.
        curation: what it decided.
        prompts: B prompt texts (conversations as the text fed to the model, without special tokens).
        responses: B response texts, before anything is replaced, without special tokens.
        lengths: [B] response lengths in tokens.
    """

    step: int
    generation: int
    rollouts: Rollouts
    curation: Curation
    prompts: list[str]
    responses: list[str]
    lengths: Int[Tensor, " b"]


CurationObserver = Callable[[CuratedStep], None]
