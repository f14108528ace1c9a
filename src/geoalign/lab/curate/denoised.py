"""What `geoalign curate` knows of the curator `denoise`: its settings without states, its columns in the tables."""

from __future__ import annotations

import math
from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from geoalign.curators.base import Curator
from geoalign.curators.chain import ChainConfig
from geoalign.curators.denoise import Denoise, DenoiseConfig
from geoalign.curators.registry import CuratorSection
from geoalign.types import Curation

NO_STATES = "There are no hidden states: geometry=none, rewards are judged by answers and identical responses alone."


def without_states(section: CuratorSection) -> CuratorSection:
    """The settings of a curator where no rollout has states: `denoise` goes by answers and identical responses.

    Members of a chain likewise; a section with nothing to change is returned itself.
    """
    if isinstance(section, ChainConfig):
        members = tuple(without_states(member) for member in section.members)
        same = all(new is old for new, old in zip(members, section.members, strict=True))
        return section if same else replace(section, members=members)
    if isinstance(section, DenoiseConfig) and section.geometry == "states":
        return replace(section, geometry="none")
    return section


def wrong_probabilities(curator: Curator, curation: Curation) -> Float[Tensor, " b"] | None:
    """[B] probability that each reward is wrong, NaN where there is none; None for curators that estimate none."""
    return curation.scores.double().sigmoid() if isinstance(curator, Denoise) else None


def denoised_rewards(curator: Curator, curation: Curation) -> Float[Tensor, " b"] | None:
    """[B] denoised rewards; None for other curators and strategies, which return rewards as they came."""
    soft = isinstance(curator, Denoise) and curator.config.strategy == "soft"
    return curation.rewards.double() if soft else None


def column(values: Float[Tensor, " b"] | None, rows: int) -> list[float | None]:
    """A column of a table: null for NaN, and in every row where there are no values."""
    if values is None:
        return [None] * rows
    return [None if math.isnan(value) else value for value in values.cpu().tolist()]
