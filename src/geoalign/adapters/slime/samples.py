"""slime's flat list of samples as rollouts, its advantages, and a curation in the list. Imports no slime.

A rollout is one sample, or all samples with the same `rollout_id`: agents split a long run into several. Names are
those of `slime.utils.types.Sample` (0.3.1), which vime and miles share.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.adapters.assignment import Assignment
from geoalign.adapters.decision import named_components, named_fields, needed_fields, states_of_rows
from geoalign.adapters.settings import HIDDEN, SlimeSettings
from geoalign.curators.curator import Curator
from geoalign.errors import InputError, UnsupportedError
from geoalign.types import Rollouts, response_keys

# `Sample.Status` of samples whose generation went wrong: whatever reward they have says nothing about a response.
_BROKEN = ("aborted", "failed")


def rollout_rows(samples: Sequence[Any]) -> list[list[int]]:
    """The positions of each rollout's samples, rollouts in the order of their first one."""
    rows: dict[tuple[str, int], list[int]] = {}
    for row, sample in enumerate(samples):
        rollout = getattr(sample, "rollout_id", None)  # slime 0.2 has none
        name = ("row", row) if rollout is None else ("rollout", rollout)
        rows.setdefault(name, []).append(row)
    return list(rows.values())


def group_ids(rollouts: Sequence[Sequence[Any]], samples_per_prompt: int) -> Int[Tensor, " b"]:
    """[B] the prompt of each rollout: its `group_index`, or its place where none has one."""
    given = [rollout[0].group_index for rollout in rollouts]
    missing = given.count(None)
    if not missing:
        return torch.tensor(given)
    if missing < len(given) or len(given) % samples_per_prompt:
        raise InputError(
            f"Sample.group_index: expected one in every sample, or in none of a multiple of {samples_per_prompt} "
            f"rollouts; got none in {missing} of {len(given)}"
        )
    return torch.arange(len(given)) // samples_per_prompt


def reward_of(rollout: Sequence[Any], reward_key: str | None) -> float:
    """The reward that the samples of a rollout share; NaN where it is None, or generation was aborted or failed."""
    rewards = [math.nan if sample.status.value in _BROKEN else _number(sample, reward_key) for sample in rollout]
    if any(math.isnan(reward) for reward in rewards):
        return math.nan
    if len(set(rewards)) > 1:
        raise UnsupportedError(
            f"rollout {rollout[0].rollout_id}: expected one reward for all of its samples, got "
            f"{', '.join(map(str, rewards))}; turns with rewards of their own are not curated"
        )
    return rewards[0]


def _number(sample: Any, reward_key: str | None) -> float:
    reward = sample.reward
    if reward is not None and reward_key:
        reward = reward.get(reward_key) if isinstance(reward, Mapping) else reward
    try:
        return math.nan if reward is None else float(reward)
    except (TypeError, ValueError) as error:
        expected = "expected a number, or a dict with one under --reward-key"
        raise InputError(f"Sample.reward: {expected}, got {sample.reward!r} in sample {sample.index}") from error


def read_rollouts(
    rollouts: Sequence[Sequence[Any]],
    groups: Int[Tensor, " b"],
    rewards: Sequence[float],
    curator: Curator,
    settings: SlimeSettings,
) -> Rollouts:
    """The rollouts as a curator reads them.

    Samples that are not completed, are kept out of the loss (`remove_sample`) or have no token of the policy's own are
    no donors; of a rollout with several, the last has the hidden state, the fields, and the components in a
    `Sample.reward` that is a dict. A rollout without a reward, or without a token of the policy's own, may lack its
    hidden state (`states_of_rows`) and its log-probabilities (NaN).
    """
    lasts = [rollout[-1] for rollout in rollouts]
    # Which tokens of a response the policy generated and is trained on.
    given = [[sample.loss_mask or [1] * sample.response_length for sample in rollout] for rollout in rollouts]
    masks = [[[bool(one) for one in mask] for mask in rollout] for rollout in given]
    observed = torch.tensor(rewards, dtype=torch.float32)
    wrote = [any(map(any, mask)) for mask in masks]
    # The policy learns nothing from such a rollout, so it may lack any of these fields.
    excused = [not own or math.isnan(reward) for own, reward in zip(wrote, rewards, strict=True)]
    makers = {
        "prompt_keys": lambda: response_keys(_split(rollout[0])[0] for rollout in rollouts),
        "hidden": lambda: _states(lasts, excused, groups),
        "logprobs": lambda: torch.tensor([_mean_logprob(*each) for each in zip(rollouts, masks, excused, strict=True)]),
    }
    entries = [sample.reward if isinstance(sample.reward, Mapping) else {} for sample in lasts]
    components, source = curator.components, "dict of numbers in Sample.reward"
    return Rollouts(
        rewards=observed,
        groups=groups,
        ids=[str(rollout[0].index) for rollout in rollouts],
        lengths=torch.tensor([sum(map(sum, mask)) for mask in masks]),
        donor_ok=torch.tensor([_fit(rollout) and own for rollout, own in zip(rollouts, wrote, strict=True)]),
        response_keys=response_keys([token for sample in rollout for token in _split(sample)[1]]
                                    for rollout in rollouts),
        **needed_fields(makers, curator.reads),
        **named_components(components, entries, observed, source=source),
        **named_fields(
            settings.rollout_fields,
            [{**entry, **(sample.metadata or {})} for entry, sample in zip(entries, lasts, strict=True)],
            observed,
            setting="geoalign.rollout_fields",
            source="Sample.metadata or in a reward that is a dict",
            names=[f"sample {sample.index}" for sample in lasts],
        ),
    )  # fmt: skip


def verifier_rows(rollouts: Sequence[Sequence[Any]], asked: Sequence[int]) -> list[dict[str, Any]]:
    """These rollouts as a second verifier reads them: the metadata, prompt, response and label of their last sample."""
    samples = [rollouts[row][-1] for row in asked]
    return [
        {
            **(sample.metadata or {}),
            "label": sample.label,
            "prompt": sample.prompt,
            "response": sample.response,
        }
        for sample in samples
    ]


def _fit(rollout: Sequence[Any]) -> bool:
    return all(sample.status.value == "completed" and not sample.remove_sample for sample in rollout)


def _split(sample: Any) -> tuple[list[int], list[int]]:
    start = len(sample.tokens) - sample.response_length
    return list(sample.tokens[:start]), list(sample.tokens[start:])


def _states(samples: Sequence[Any], excused: Sequence[bool], groups: Int[Tensor, " b"]) -> Float[Tensor, "b d"]:
    """[B, d] the states in the samples' metadata; only the `excused` may lack theirs, and not all at once."""
    states = [(sample.metadata or {}).get(HIDDEN) for sample in samples]
    any_known = any(state is not None for state in states)
    for sample, state, needs_none in zip(samples, states, excused, strict=True):
        if state is None and not (needs_none and any_known):
            raise InputError(f"Sample.metadata[{HIDDEN!r}]: expected a hidden state, got none in sample {sample.index}")
    return states_of_rows([None if state is None else _vector(state) for state in states], groups)


def _vector(state: Any) -> Tensor:
    return torch.as_tensor(state).detach().float().cpu().reshape(-1)


def _mean_logprob(rollout: Sequence[Any], masks: Sequence[Sequence[bool]], excused: bool) -> float:
    """The mean over the policy's own tokens; NaN where there are none, or where an excused rollout does not tell."""
    chosen: list[float] = []
    for sample, mask in zip(rollout, masks, strict=True):
        found = sample.rollout_log_probs
        if not any(mask):
            continue
        if found is None or len(found) != len(mask):
            if excused:
                return math.nan
            got = "none" if found is None else len(found)
            raise InputError(f"Sample.rollout_log_probs: expected {len(mask)}, got {got} in sample {sample.index}")
        chosen.extend(value for value, own in zip(found, mask, strict=True) if own)
    return sum(chosen) / len(chosen) if chosen else math.nan


def normalised_rewards(
    rewards: Float[Tensor, " b"],
    groups: Int[Tensor, " b"],
    active: Bool[Tensor, " b"],
    *,
    normalise: bool,
    by_std: bool,
) -> Float[Tensor, " b"]:
    """What slime's estimators take for the advantage of every token: (r - mean) / (std + 1e-6) within a group.

    As `RolloutManager._post_process_rewards` of slime 0.3.1, bit for bit where its groups are whole: the standard
    deviation (one degree of freedom less) is that of the centred rewards. Other than there, rows that do not count are
    left out (not `active`) of mean and deviation and get 0, and groups may have any size. A row alone gets 0.
    """
    found = torch.zeros_like(rewards)
    if not normalise:
        return torch.where(active, rewards, found)
    counting = active.nonzero().flatten()
    _, member, sizes = groups[counting].unique(return_inverse=True, return_counts=True)
    for size in sizes.unique().tolist():
        order = member.argsort(stable=True)
        chosen = counting[order[sizes[member[order]] == size]].reshape(-1, size)
        centred = rewards[chosen] - rewards[chosen].mean(dim=-1, keepdim=True)
        if by_std and size > 1:
            centred = centred / (centred.std(dim=-1, keepdim=True) + 1e-6)
        found[chosen] = centred
    return found


def assign_samples(samples: Sequence[Any], rows: Sequence[Sequence[int]], assignment: Assignment) -> list[list[Any]]:
    """The samples of each position: its own, or deep copies of its donor's under the ids of the position.

    Those of a dropped position are kept out of the loss (`remove_sample`: a mask of zeros).
    """
    placed = [[samples[row] for row in members] for members in rows]
    for position in assignment.replaced.nonzero().flatten().tolist():
        donors = [samples[row] for row in rows[int(assignment.source[position])]]
        placed[position] = _copies(donors, placed[position][0])
    for position in (~assignment.kept).nonzero().flatten().tolist():
        for sample in placed[position]:
            sample.remove_sample = True
    return placed


def _copies(donors: Sequence[Any], victim: Any) -> list[Any]:
    found = [copy.deepcopy(donor) for donor in donors]
    for sample in found:
        sample.index = victim.index
        if hasattr(victim, "rollout_id"):
            # Several samples are one rollout to slime only under one id; without any it is that of the index.
            several = victim.rollout_id is None and len(found) > 1
            sample.rollout_id = victim.index if several else victim.rollout_id
    return found
