"""What a curator reads, from the rows of one step; and which curators the fields of a dump are enough for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.curators.base import Curator
from geoalign.curators.registry import CURATORS
from geoalign.errors import ConfigError, GeoAlignError
from geoalign.lab.curate.rows import Row
from geoalign.lab.rewards.boxed import boxed_answer
from geoalign.method.advantages import group_advantages
from geoalign.types import Rollouts, response_keys

# What can be had from a reward and a response alone.
_ALWAYS = ("answers", "advantages", "ids")


def available_fields(rows: Sequence[Row], *, hidden: bool, lengths: bool) -> set[str]:
    """The optional fields of `Rollouts` that these rows bring; `lengths`: a model's tokenizer counts them."""
    found = set(_ALWAYS)
    if hidden:
        found.add("hidden")
    if lengths or all(row.tokens is not None for row in rows):
        found.add("lengths")
    if any(row.true_reward is not None for row in rows):
        found.add("true_rewards")
    if any(row.truncated is not None for row in rows):
        found.add("donor_ok")
    return found


def check_curator(name: str, curator: Curator, available: set[str]) -> None:
    """Raises ConfigError, with the curators that can be used, unless the fields available are enough for this one."""
    missing = [one for one in curator.requires if one not in available]
    if curator.library_only is not None:
        raise ConfigError(f"curator: {name} is for the library alone: {curator.library_only}")
    if not missing:
        return
    needs = {
        "hidden": "hidden states (--hidden FILE or --model ID_OR_PATH)",
        "lengths": "lengths in tokens (--field tokens=NAME or --model ID_OR_PATH)",
        "true_rewards": "true rewards (--field true_reward=NAME)",
    }
    wanted = " and ".join(needs.get(one, f"{one}, which no dump has") for one in missing)
    raise ConfigError(
        f"curator: {name} needs {wanted}, got none; without them --curator takes one of {', '.join(offered(available))}"
    )


def offered(available: set[str]) -> list[str]:
    """The curators, by name, that need no more than these fields."""
    found = []
    for name in CURATORS:
        try:
            curator = CURATORS[name]()
        except (GeoAlignError, TypeError, ImportError):
            continue  # of another package, and with settings that have no default
        if set(curator.requires) <= available and curator.library_only is None and name not in ("chain", "grpo"):
            found.append(name)
    return found


def make_rollouts(
    rows: Sequence[Row],
    groups: Sequence[int],
    curator: Curator,
    *,
    hidden: Float[Tensor, "b d"] | None = None,
) -> Rollouts:
    """The batch of one step, with the optional fields that the curator needs or that say which rows are unfit.

    Args:
        groups: a number for the group of each row.
    """
    rewards = torch.tensor([row.reward for row in rows], dtype=torch.float64)
    grouping = torch.tensor(list(groups), dtype=torch.long)
    needs: dict[str, Any] = {"ids": [row.id for row in rows]}
    if "hidden" in curator.requires:
        needs["hidden"] = hidden
    keyed = bool({"hidden", "response_keys"} & set(curator.reads))
    if keyed and all(row.response for row in rows):  # a dump may come without its texts
        needs["response_keys"] = response_keys(row.response for row in rows)
    if all(row.tokens is not None for row in rows):
        needs["lengths"] = torch.tensor([row.tokens for row in rows], dtype=torch.long)
    if any(row.true_reward is not None for row in rows):
        true = [math.nan if row.true_reward is None else row.true_reward for row in rows]
        needs["true_rewards"] = torch.tensor(true, dtype=torch.float64)
    if any(row.truncated is not None for row in rows):
        needs["donor_ok"] = torch.tensor([row.truncated is not True for row in rows])
    if "answers" in curator.reads:
        needs["answers"] = [
            boxed_answer(row.response) if row.final_answer is None else row.final_answer for row in rows
        ]
    if "advantages" in curator.requires:
        needs["advantages"] = group_advantages(rewards, grouping)
    return Rollouts(rewards=rewards, groups=grouping, **needs)
