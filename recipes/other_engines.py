"""OpenRLHF's rollouts as a curator reads them, and its decision applied to them; for curators that replace.

    python recipes/other_engines.py        # curates made-up experiences, to see it work

OpenRLHF has no function path here, and is not imported: what is used are the attributes of its `Experience` with a
single rollout in it. Call it at the beginning of the experience maker's `compute_advantages_and_returns(experiences)`,
in a subclass that your copy of the training script uses:

    indices = [index for batch in experiences for index in batch.index]  # before splitting, which forgets them
    items = [item for batch in experiences for item in split_experience_batch(batch)]
    rollouts = openrlhf_rollouts(items, indices, args.rollout.n_samples_per_prompt)
    items = curated_openrlhf(items, rollouts, curator.curate(rollouts, generator=generator))
    # make_experience_batch(...) again, in batches of the sizes that came, each with its part of `indices` as its index

Hidden states are expected in `item.info["geoalign_hidden"]`; remove them before the info is logged.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from geoalign import Curation, GeoAlign, Rollouts
from geoalign.adapters.placement import Placement, place
from geoalign.errors import InputError, UnsupportedError

HIDDEN = "geoalign_hidden"


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
class MadeUpExperience:
    """The attributes of OpenRLHF's `Experience` with one rollout that are used here."""

    index: list[int]
    sequences: torch.Tensor
    rewards: torch.Tensor
    response_length: torch.Tensor
    truncated: torch.Tensor
    info: dict[str, Any] = field(default_factory=dict)


def made_up_experiences(prompts: int = 12, samples: int = 8) -> list[MadeUpExperience]:
    """Groups whose first half is right; one right rollout of each has the reward of a wrong one."""
    draws = torch.Generator().manual_seed(0)
    good = torch.randn(16, generator=draws)
    found = []
    for row in range(prompts * samples):
        prompt, number = divmod(row, samples)
        right = number < samples // 2
        state = torch.randn(16, generator=draws) * 0.2 + (good if right else -good)
        reward = torch.tensor(float(right and number != prompt % (samples // 2)))
        one, whole = torch.tensor(1), torch.tensor(False)
        found.append(MadeUpExperience([row], torch.tensor([row]), reward, one, whole, {HIDDEN: state}))
    return found


def main() -> None:
    """Curates made-up experiences."""
    items = made_up_experiences()
    rollouts = openrlhf_rollouts(items, range(len(items)), 8)
    curation = GeoAlign(alpha=0.2).curate(rollouts, generator=torch.Generator().manual_seed(0))
    for old, new in zip(items, curated_openrlhf(items, rollouts, curation), strict=True):
        if new is not old:
            print(
                f"experience {old.index[0]}: reward {old.rewards:g} -> {new.rewards:g}, content of {new.sequences[0]}"
            )
    print(f"{int(curation.replaced.sum())} of {len(curation.source)} replaced")


if __name__ == "__main__":
    main()
