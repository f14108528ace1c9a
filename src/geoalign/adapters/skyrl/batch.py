"""SkyRL's `TrainingInputBatch` as rollouts, and a curation carried out in it. Imports no SkyRL.

It holds tensors [B, ...], a row for each trajectory; the last `pad_size` rows only fill it up, and stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.adapters.placement import Placement
from geoalign.adapters.settings import SECTION, EngineSettings
from geoalign.adapters.step import group_numbers, made, named_components, named_fields, wanted_components
from geoalign.curators.base import Curator
from geoalign.errors import InputError
from geoalign.types import Rollouts, response_keys

# In the metadata of a batch: what SkyRL's generator says of its rows, and the batch has no tensor for.
NOTES = "geoalign_notes"
NOTED = ("stop_reasons", "env_metrics")


def read_rollouts(data: Any, notes: Mapping[str, Any], curator: Curator, settings: EngineSettings) -> Rollouts:
    """The rows as a curator reads them: the reward is the sum over the tokens, as SkyRL's own estimators take it.

    Trajectories without a token in the loss, or stopped by anything but an end (a limit), are no donors. Fields and
    components are numbers, or texts, that an environment returns by `get_metrics`.
    """
    size = len(data["rewards"]) - data.metadata.get("pad_size", 0)
    own, lengths = data["loss_mask"][:size] > 0, data["response_mask"][:size].sum(-1).long()
    rewards = data["rewards"][:size].float().sum(-1)
    uids = [str(uid) for uid in data.metadata["uids"][:size]]
    ended = [reason in ("stop", None) for reason in notes.get("stop_reasons") or [None] * size]
    rows = notes.get("env_metrics") or [None] * size

    def tokens(row: int) -> list[int]:
        return data["sequences"][row][data["attention_mask"][row].bool()].tolist()

    def logprobs() -> Tensor:
        found = data.get("action_log_probs")
        found = data.get("rollout_logprobs") if found is None else found
        if found is None:
            raise InputError(
                f"{type(curator).__name__} reads logprobs: expected action_log_probs in the batch, got none"
            )
        return (found[:size].float() * own).sum(-1) / own.sum(-1)

    makers = {
        "prompt_keys": lambda: response_keys(tokens(row)[: -int(lengths[row])] for row in range(size)),
        "response_keys": lambda: response_keys(tokens(row)[-int(lengths[row]) :] for row in range(size)),
        "logprobs": logprobs,
    }
    source = "the dict of the environment's get_metrics(), which only generator.batched=false brings along"
    return Rollouts(
        rewards=rewards,
        groups=group_numbers(uids),
        lengths=lengths,
        ids=[f"{uid}_{row}" for row, uid in enumerate(uids)],
        donor_ok=own.any(-1) & torch.tensor(ended),
        **made(makers, curator.reads),
        **named_components(wanted_components(curator), rows, rewards, source=f"numbers in {source}"),
        **named_fields(
            settings.rollout_fields,
            rows,
            rewards,
            setting=f"{SECTION}.rollout_fields",
            source=source,
            names=[f"row {row}" for row in range(size)],
        ),
    )


def move_rows(data: Any, placement: Placement) -> None:
    """Every tensor of a replaced row becomes its donor's; the row keeps its uid, which is the same."""
    if bool(placement.replaced.any()):
        index = _padded(placement.source, torch.arange(len(data["rewards"])))
        for key, value in data.items():
            if value is not None:
                data[key] = value[index]


def weigh(data: Any, placement: Placement) -> None:
    """Multiplies SkyRL's advantages by the weights; the returns, which may be the same tensor, stay."""
    if bool((placement.weights != 1).any()):
        ones = data["advantages"].new_ones(len(data["advantages"]))
        data["advantages"] = data["advantages"] * _padded(placement.weights.to(ones), ones)[:, None]


def write_advantages(data: Any, placement: Placement, advantages: Float[Tensor, " b"]) -> None:
    """Writes advantages [B] into every token of the responses, and into the returns; dropped rows leave the loss."""
    zeros = data["advantages"].new_zeros(len(data["advantages"]))
    values = _padded(advantages.to(zeros), zeros)[:, None] * data["response_mask"]
    kept = _padded(placement.kept, torch.ones(len(zeros), dtype=torch.bool))
    data["advantages"], data["returns"] = values, values.clone()
    data["loss_mask"] = data["loss_mask"] * kept[:, None]


def _padded(values: Tensor, otherwise: Tensor) -> Tensor:
    return torch.cat([values, otherwise[len(values) :]])
