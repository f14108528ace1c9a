"""slime's and OpenRLHF's rollouts as a curator reads them, and its decision carried out on them.

The conversion only: docs/other_engines.md says where in these engines to call it. Neither is imported; what is
used are the attributes of slime's `Sample` and of OpenRLHF's `Experience` with a single rollout in it.

    python recipes/other_engines.py        # curates made-up samples, to see it work
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from geoalign import Curation, GeoAlign, Rollouts
from geoalign.adapters.placement import Placement, place
from geoalign.errors import InputError, UnsupportedError

HIDDEN = "geoalign_hidden"


def slime_rollouts(groups: Sequence[Sequence[Any]], *, hidden: bool = True, reward_key: str | None = None) -> Rollouts:
    """The samples of slime's `list[list[Sample]]`, one group a prompt, flat in their order.

    Args:
        hidden: read `sample.metadata["geoalign_hidden"]`, a list of numbers.
        reward_key: slime's `--reward-key`, where rewards are dicts.

    Raises:
        InputError: a sample has no hidden state, though they are wanted.
    """
    samples = [sample for group in groups for sample in group]
    rewards = [sample.reward[reward_key] if reward_key else sample.reward for sample in samples]
    return Rollouts(
        rewards=torch.tensor([math.nan if reward is None else float(reward) for reward in rewards]),
        groups=torch.tensor([number for number, group in enumerate(groups) for _ in group]),
        hidden=_stacked([sample.metadata.get(HIDDEN) for sample in samples]) if hidden else None,
        lengths=torch.tensor([sample.response_length for sample in samples]),
        donor_ok=torch.tensor([sample.status.value == "completed" and not sample.remove_sample for sample in samples]),
    )


def curated_slime(groups: Sequence[Sequence[Any]], rollouts: Rollouts, curation: Curation) -> list[list[Any]]:
    """The same groups after curation: a replaced sample is a deep copy of its donor, with the ids of the slot.

    Args:
        rollouts: what `slime_rollouts` made of the groups.
    """
    samples = [sample for group in groups for sample in group]
    found = []
    for slot, source in enumerate(_replacing(curation, rollouts).source.tolist()):
        sample = samples[slot] if source == slot else copy.deepcopy(samples[source])
        sample.index = samples[slot].index
        if hasattr(sample, "rollout_id"):  # newer slime: samples that share it count as one rollout in the loss
            sample.rollout_id = samples[slot].rollout_id
        found.append(sample)
    rows = iter(found)
    return [[next(rows) for _ in group] for group in groups]


def openrlhf_rollouts(
    items: Sequence[Any], indices: Sequence[int], samples_per_prompt: int, *, hidden: bool = True
) -> Rollouts:
    """OpenRLHF's experiences of one rollout each, as `split_experience_batch` makes them.

    Args:
        indices: position of each in the order of the prompts, `experience.index` of the batches before they were split:
            a prompt's rollouts have successive ones.
        hidden: read `item.info["geoalign_hidden"]`, [d].

    Raises:
        InputError: the indices are not those of whole groups, or a hidden state is missing.
    """
    if len(items) % samples_per_prompt or sorted(indices) != list(range(len(items))):
        raise InputError(
            f"indices: expected each of 0 to {len(items) - 1} once, a multiple of {samples_per_prompt} of them, got "
            f"{len(items)} items with {list(indices)}"
        )
    return Rollouts(
        rewards=torch.stack([torch.as_tensor(item.rewards).reshape(()) for item in items]).float(),
        groups=torch.tensor(list(indices)) // samples_per_prompt,
        hidden=_stacked([item.info.get(HIDDEN) for item in items]) if hidden else None,
        lengths=torch.stack([torch.as_tensor(item.response_length).reshape(()) for item in items]).long(),
        donor_ok=~torch.stack([torch.as_tensor(item.truncated).reshape(()) for item in items]).bool(),
    )


def curated_openrlhf(items: Sequence[Any], rollouts: Rollouts, curation: Curation) -> list[Any]:
    """The same items after curation; a replaced one is a deep copy of its donor with the index of the slot.

    Args:
        rollouts: what `openrlhf_rollouts` made of the items.
    """
    found = []
    for slot, source in enumerate(_replacing(curation, rollouts).source.tolist()):
        item = items[slot] if source == slot else copy.deepcopy(items[source])
        item.index = items[slot].index
        found.append(item)
    return found


def _replacing(curation: Curation, rollouts: Rollouts) -> Placement:
    """The placement of a curation that only replaces: what these conversions carry out."""
    placement = place(curation, rollouts.groups)
    scored = ~placement.rewards.isnan()
    weighed = placement.weights[scored] != 1
    shaped = placement.rewards[scored] != rollouts.rewards[placement.source][scored]
    if placement.dropped or placement.advantages is not None or bool(weighed.any()) or bool(shaped.any()):
        raise UnsupportedError("expected a curator that replaces rollouts, got one that drops, weighs or shapes them")
    return placement


def _stacked(states: Sequence[Any]) -> torch.Tensor:
    missing = [row for row, state in enumerate(states) if state is None]
    if missing:
        raise InputError(f"{HIDDEN}: expected a hidden state for every rollout, got none in row {missing[0]}")
    return torch.stack([torch.as_tensor(state).float().reshape(-1) for state in states])


@dataclass
class _Status:
    value: str = "completed"


@dataclass
class MadeUpSample:
    """The attributes of slime's `Sample` that are used here."""

    index: int
    rollout_id: int
    reward: float
    tokens: list[int]
    response_length: int
    metadata: dict[str, Any] = field(default_factory=dict)
    status: _Status = field(default_factory=_Status)
    remove_sample: bool = False


def made_up_samples(prompts: int = 12, samples: int = 8) -> list[list[MadeUpSample]]:
    """Groups whose first half is right; one right sample of each has the reward of a wrong one."""
    draws = torch.Generator().manual_seed(0)
    good = torch.randn(16, generator=draws)
    groups = []
    for prompt in range(prompts):
        group = []
        for number in range(samples):
            right = number < samples // 2
            state = torch.randn(16, generator=draws) * 0.2 + (good if right else -good)
            reward = float(right and number != prompt % (samples // 2))
            row = prompt * samples + number
            group.append(MadeUpSample(row, row, reward, [row], 1, {HIDDEN: state.tolist()}))
        groups.append(group)
    return groups


def main() -> None:
    """Curates made-up samples."""
    groups = made_up_samples()
    rollouts = slime_rollouts(groups)
    curation = GeoAlign(alpha=0.2).curate(rollouts, generator=torch.Generator().manual_seed(0))
    curated = curated_slime(groups, rollouts, curation)
    for before, after in zip(groups, curated, strict=True):
        for old, new in zip(before, after, strict=True):
            if new is not old:
                print(f"sample {old.index}: reward {old.reward:g} -> {new.reward:g}, content of {new.tokens[0]}")
    print(f"{int(curation.replaced.sum())} of {len(curation.source)} replaced")


if __name__ == "__main__":
    main()
