"""Labelled rollouts, whose true rewards are known: a curator sees them with every batch, and no loss does."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from geoalign.curators.curator import Curator
from geoalign.errors import ConfigError, InputError
from geoalign.types import Curation, Rollouts

# Fields that are unknown for a rollout that the policy of this training did not generate.
_UNKNOWN = ("logprobs", "reference_rewards", "advantages", "components")


@dataclass(frozen=True, eq=False)
class LabelledRollouts:
    """A rollouts with true rewards, as a user gives them to an engine.

    Attributes:
        prompts: A texts as the policy reads them, or A lists of chat messages.
        responses: A texts.
        rewards: A true rewards, on the scale of the training's.
        groups: A labels, equal for the rollouts of one prompt.
        answers: A final answers (None where a response gives none); None: found as those of the engine's own rollouts.
        truncated: A times whether the response was cut off before its end; None: none was.

    Raises:
        InputError: fields of different lengths or kinds, a reward that is not finite, or no group with two different
            rewards, from which nothing could be learnt.
    """

    prompts: Sequence[str] | Sequence[Sequence[Mapping[str, str]]]
    responses: Sequence[str]
    rewards: Sequence[float]
    groups: Sequence[Hashable]
    answers: Sequence[str | None] | None = None
    truncated: Sequence[bool] | None = None

    def __post_init__(self) -> None:
        size = len(self.rewards)
        for item in fields(self):
            value = getattr(self, item.name)
            if value is not None and len(value) != size:
                raise InputError(f"labelled_rollouts: {item.name}: expected {size} rows as rewards, got {len(value)}")
        if len({isinstance(prompt, str) for prompt in self.prompts}) > 1:
            raise InputError("labelled_rollouts: prompts: expected texts or lists of chat messages, got both")
        for row, reward in enumerate(self.rewards):
            if not math.isfinite(reward):
                raise InputError(f"labelled_rollouts: rewards: expected finite numbers, got {reward} in row {row}")
        groups = len(set(self.groups))
        different_rewards = len(set(zip(self.groups, self.rewards, strict=True)))
        if different_rewards == groups:
            raise InputError(
                "labelled_rollouts: expected a group with two different rewards, got none among "
                f"{groups}: give right and wrong responses to one prompt"
            )

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def group_numbers(self) -> Int[Tensor, " a"]:
        """[A] the groups by number, from 0 in order of appearance."""
        known: dict[Hashable, int] = {}
        return torch.tensor([known.setdefault(group, len(known)) for group in self.groups])

    def digest(self) -> str:
        """SHA-256 of all labelled rollouts; a resumed training uses it to notice that they have changed."""
        rewards = [float(reward) for reward in self.rewards]
        content = {**asdict(self), "groups": self.group_numbers.tolist(), "rewards": rewards}
        return hashlib.sha256(json.dumps(content, default=list).encode("ascii")).hexdigest()


def check_reads_trusted(curator: Curator, *, setting: str) -> None:
    """Raises ConfigError unless the curator reads which rows are trusted, by whole rewards; `setting` asks for it."""
    if "trusted" not in curator.reads or "components" in curator.reads:
        expected = "a curator that reads trusted rewards and no components, as denoise"
        raise ConfigError(f"{setting}: expected {expected}; got {type(curator).__name__}")


def check_takes_labelled(curator: Curator) -> None:
    """Raises ConfigError unless the curator reads trusted rows, and nothing that labelled rollouts cannot have."""
    check_reads_trusted(curator, setting="labelled_rollouts")
    unknown = [name for name in curator.reads if name in _UNKNOWN]
    if unknown:
        raise ConfigError(
            "labelled_rollouts: expected a curator that reads nothing that they do not have, got "
            f"{type(curator).__name__}, which reads {', '.join(unknown)}"
        )


def with_labelled(rollouts: Rollouts, labelled: Rollouts) -> Rollouts:
    """The batch with labelled rollouts behind it: [B + L] rows, of which the L are trusted and nobody's donors.

    The labelled rollouts stand in groups of their own. A field that one of the two lacks is left out.
    """
    joined: dict[str, Any] = {}
    for item in fields(Rollouts):
        of_batch = getattr(rollouts, item.name)
        of_labelled = getattr(labelled, item.name)
        if isinstance(of_batch, Tensor) and isinstance(of_labelled, Tensor):
            joined[item.name] = torch.cat([of_batch, of_labelled.to(of_batch)])
        elif isinstance(of_batch, Sequence) and isinstance(of_labelled, Sequence):
            joined[item.name] = [*of_batch, *of_labelled]
    first_group = int(rollouts.groups.max()) + 1 if len(rollouts) else 0
    joined["groups"] = torch.cat([rollouts.groups, labelled.groups.to(rollouts.groups) + first_group])
    if rollouts.prompt_keys is not None:
        # Keys of prompts are not negative.
        own_keys = -1 - labelled.groups.to(rollouts.prompt_keys)
        joined["prompt_keys"] = torch.cat([rollouts.prompt_keys, own_keys])

    no_row = torch.zeros_like(rollouts.rewards, dtype=torch.bool)
    trusted = no_row if rollouts.trusted is None else rollouts.trusted
    donor_ok = ~no_row if rollouts.donor_ok is None else rollouts.donor_ok
    joined["trusted"] = torch.cat([trusted, trusted.new_ones(len(labelled))])
    joined["donor_ok"] = torch.cat([donor_ok, donor_ok.new_zeros(len(labelled))])
    if rollouts.shared_answers is not None or labelled.shared_answers is not None:
        of_batch = no_row if rollouts.shared_answers is None else rollouts.shared_answers
        of_labelled = no_row.new_zeros(len(labelled)) if labelled.shared_answers is None else labelled.shared_answers
        joined["shared_answers"] = torch.cat([of_batch, of_labelled.to(of_batch)])
    # Asked for rows of the batch alone: the others are trusted already.
    joined["second_rewards"] = rollouts.second_rewards
    return Rollouts(**joined)


def without_labelled(curation: Curation, rows: int) -> Curation:
    """The curation of the batch's `rows` rows, which stood before the labelled ones.

    Raises:
        InputError: a labelled rollout stands in the place of a row of the batch.
    """
    if len(curation.source) == len(curation.scores):
        kept = torch.arange(rows, device=curation.source.device)
    else:
        # In the order of the batch: where all of its rows are kept, row i is at position i again.
        order = curation.source.argsort(stable=True)
        kept = order[curation.source[order] < rows]
    source = curation.source[kept]
    wrong = (source >= rows).nonzero()
    if len(wrong):
        at = int(wrong[0])
        raise InputError(f"source: expected rows of the batch, got labelled rollout {int(source[at]) - rows} at {at}")
    return replace(
        curation,
        source=source,
        rewards=curation.rewards[kept],
        weights=curation.weights[kept],
        advantages=None if curation.advantages is None else curation.advantages[kept],
        scores=curation.scores[:rows],
        anomalous=curation.anomalous[:rows],
        metrics={**curation.metrics, "labelled_rollouts": float(len(curation.scores) - rows)},
    )
