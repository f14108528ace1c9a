"""SkyRL's `TrainingInputBatch` as rollouts, and a curation carried out in it. Imports no SkyRL.

It holds tensors [B, ...], a row for each trajectory; the last `pad_size` rows only fill it up, and stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from geoalign.adapters.placement import Placement
from geoalign.adapters.settings import SECTION, EngineSettings
from geoalign.adapters.step import final_advantages, group_numbers, made, named_values, rewards_stay, wanted_components
from geoalign.curators.base import Curator
from geoalign.errors import InputError
from geoalign.method.advantages import group_advantages
from geoalign.types import Rollouts, response_keys


def read_rollouts(
    data: Any, notes: Mapping[str, Any], curator: Curator, settings: EngineSettings, *, by_std: bool
) -> Rollouts:
    """The rows as a curator reads them: the reward is the sum over the tokens, as SkyRL's own GRPO takes it.

    `notes` are lists of the generator's output. Trajectories without a token in the loss, or that a limit stopped, are
    no donors. Fields and components are what an environment returns by `get_metrics`.
    """
    size = len(data["rewards"]) - data.metadata.get("pad_size", 0)
    own, lengths = data["loss_mask"][:size] > 0, data["response_mask"][:size].sum(-1).long()
    rewards = data["rewards"][:size].float().sum(-1)
    uids = data.metadata["uids"][:size]
    groups = group_numbers(uids)
    ended = [reason in ("stop", None) for reason in notes.get("stop_reasons") or [None] * size]

    def tokens(row: int) -> list[int]:
        return data["sequences"][row][data["attention_mask"][row].bool()].tolist()

    def logprobs() -> Tensor:
        found = [data[name] for name in ("action_log_probs", "rollout_logprobs") if data.get(name) is not None]
        if not found:
            raise InputError(
                f"{type(curator).__name__} reads logprobs: expected action_log_probs in SkyRL's batch, got none"
            )
        return (found[0][:size].float() * own).sum(-1) / own.sum(-1)

    makers = {
        "prompt_keys": lambda: response_keys(tokens(row)[: -int(lengths[row])] for row in range(size)),
        "response_keys": lambda: response_keys(tokens(row)[-int(lengths[row]) :] for row in range(size)),
        "logprobs": logprobs,
        "advantages": lambda: group_advantages(rewards, groups, scale="std" if by_std else "none"),
    }
    return Rollouts(
        rewards=rewards,
        groups=groups,
        lengths=lengths,
        ids=[f"{uid}_{row}" for row, uid in enumerate(uids)],
        donor_ok=own.any(-1) & torch.tensor(ended),
        **made(makers, curator.reads),
        **named_values(
            wanted_components(curator),
            settings.rollout_fields,
            notes.get("env_metrics") or [None] * size,
            rewards,
            setting=f"{SECTION}.rollout_fields",
            source="the dict of the environment's get_metrics() (generator.batched=false brings it along)",
        ),
    )


def move_rows(data: Any, placement: Placement) -> None:
    """Every tensor of a replaced row becomes its donor's; the row keeps its uid, which is the same."""
    if bool(placement.replaced.any()):
        index = _padded(placement.source, torch.arange(len(data["rewards"])))
        for key, value in data.items():
            if value is not None:
                data[key] = value[index]


def apply_advantages(data: Any, placement: Placement, rollouts: Rollouts, *, by_std: bool) -> None:
    """Makes SkyRL's advantages of moved rows the curated ones.

    They stay where each row has the reward that it came with, times the weights (the returns, which may be the same
    tensor, without). Else the curator's own are written over them and the returns, or GRPO's of the curated rewards;
    dropped rows leave the loss.
    """
    ones = data["advantages"].new_ones(len(data["advantages"]))
    if rewards_stay(placement, rollouts):
        if bool((placement.weights != 1).any()):
            data["advantages"] = data["advantages"] * _padded(placement.weights.to(ones), ones)[:, None]
        return
    scale = "std" if by_std else "none"
    own = final_advantages(placement, lambda: group_advantages(placement.rewards, rollouts.groups, scale=scale))
    values = _padded(own.to(ones), 0 * ones)[:, None] * data["response_mask"]
    data["advantages"], data["returns"] = values, values.clone()
    data["loss_mask"] = data["loss_mask"] * _padded(placement.kept.to(ones), ones)[:, None]


def _padded(values: Tensor, otherwise: Tensor) -> Tensor:
    return torch.cat([values, otherwise[len(values) :]])
