"""The rewards that an engine sums, one by one: `Rollouts.components`, for curators that take one of them for noisy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.curators.base import Curator
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError


def wanted_components(curator: Curator) -> list[str]:
    """The components that the curator names, by its setting `component` or by those of a chain's members."""
    own = getattr(curator.config, "component", None)
    members = (name for member in getattr(curator, "members", ()) for name in wanted_components(member))
    return [*members] if own is None else [own, *members]


def missing_fields(session: CurationSession, given: Iterable[str]) -> list[str]:
    """`session.missing_fields`, where components that the curator names may be in the rows."""
    return session.missing_fields({*given, *(("components",) if wanted_components(session.curator) else ())})


def check_components(wanted: Iterable[str], known: Iterable[str], *, source: str) -> None:
    """Raises ConfigError unless every component wanted is among the known ones; `source`: where those are."""
    known = sorted(known)
    for name in wanted:
        if name not in known:
            there = f"expected one of {', '.join(known)}" if known else f"this engine gives one reward: no {source}"
            raise ConfigError(f"component: {there}; got {name!r}")


def summed_components(
    per_function: Float[Tensor, "b f"], weights: Float[Tensor, " f"], names: Sequence[str]
) -> dict[str, Tensor]:
    """What each reward function adds to a weighted sum of them, by name; names that several have are left out."""
    parts = (per_function * weights.to(per_function.device)).unbind(1)
    return {name: part for name, part in zip(names, parts, strict=True) if list(names).count(name) == 1}


def named_components(
    wanted: Sequence[str], rows: Sequence[Any], rewards: Float[Tensor, " b"], *, source: str
) -> dict[str, Tensor]:
    """The components of these names, out of the numbers that rows carry by name: as they enter the sum.

    Args:
        wanted: `wanted_components` of the curator.
        rows: B dicts, or None.
        rewards: [B]; NaN rows may lack what the others have, and get NaN.
        source: where the dicts come from, for messages.

    Raises:
        ConfigError: a scored row has no number of that name; the message has those of all scored rows.
    """
    entries = [row if isinstance(row, Mapping) else {} for row in rows]
    scored = (~rewards.isnan()).tolist()
    numbers = [{name for name, value in entry.items() if isinstance(value, Real)} for entry in entries]
    if any(scored):
        known = set.intersection(*(own for own, counts in zip(numbers, scored, strict=True) if counts))
        check_components(wanted, known, source=source)
    return {
        name: torch.tensor([float(entry[name]) if name in own and counts else math.nan
                            for entry, own, counts in zip(entries, numbers, scored, strict=True)])
        for name in wanted
    }  # fmt: skip
