"""Curators one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Generator, Tensor

from geoalign.curators.base import Curator, identity
from geoalign.curators.registry import CuratorSection, make_curator
from geoalign.errors import ConfigError
from geoalign.method.advantages import group_advantages
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts


@settings
class ChainConfig:
    """Curators one after the other; in YAML `members` is a list of `curator:` sections, each with its `type`."""

    type: ClassVar[str] = "chain"

    members: Annotated[tuple[CuratorSection, ...], Field(strict=False)] = setting(
        default=(), help="Settings of the members in order; none: nothing is changed."
    )


class Chain(Curator[ChainConfig]):
    """Hands each member the rollouts as the one before left them: `Chain([GeoAlign(), PODS(m=4)])`.

    Rows and rewards are the last member's; weights multiply; scores and flags refer to the original rows (a row's
    score is that of the first member to score it; it is anomalous if any member says so); advantages come from the last
    member alone. A member that works after the advantage gets the one before's, or, where that changed rows or rewards
    and gave none, GRPO's of the changed batch (Eq. 9). A chain without members changes nothing.

    Metrics keep their names; one that an earlier member used already becomes `member_<n>/<name>`. Seconds add up.

    Args:
        members: curators, or settings of curators; or the settings of the whole chain.

    Raises:
        ConfigError: a member is neither a curator nor the settings of one.
    """

    def __init__(self, members: list[Any] | tuple[Any, ...] | ChainConfig | None = None, **settings: Any) -> None:
        if isinstance(members, (list, tuple)):
            if settings:
                raise ConfigError("Chain: expected a config or keywords, got both")
            self.members = tuple(member if isinstance(member, Curator) else make_curator(member) for member in members)
            super().__init__(ChainConfig(members=tuple(member.config for member in self.members)))
        else:
            super().__init__(members, **settings)
            self.members = tuple(make_curator(config) for config in self.config.members)
        self.requires = tuple(dict.fromkeys(name for member in self.members for name in member.requires))
        read = dict.fromkeys(name for member in self.members for name in member.optional)
        self.optional = tuple(name for name in read if name not in self.requires)

    def curate(self, rollouts: Rollouts, *, generator: Generator | None = None, details: bool = False) -> Curation:
        """Runs the members in order, all of them on the same generator."""
        rollouts.require(*self.requires, by="Chain")
        generator = self.drawing_from(generator)
        whole = own = identity(rollouts)
        current, original = rollouts, whole.source
        for number, member in enumerate(self.members):
            if number:
                current = _handed_on(current, own)
            own = member.curate(current, generator=generator, details=details)
            scores, anomalous = _on_original_rows(whole, own)
            # Details name rows of the member's own input: they are of use while these are the original ones.
            in_place = whole.details is None and torch.equal(whole.source, original)
            whole = Curation(
                source=whole.source[own.source],
                rewards=own.rewards,
                weights=whole.weights[own.source] * own.weights.to(whole.weights),
                advantages=own.advantages,
                scores=scores,
                anomalous=anomalous,
                metrics=_joined(whole.metrics, own.metrics, number + 1),
                details=own.details if in_place else whole.details,
            )
        return whole


def _handed_on(current: Rollouts, curation: Curation) -> Rollouts:
    """The batch that the next member sees."""
    taken = current.take(curation.source)
    advantages, scored = taken.advantages, taken.rewards.to(curation.rewards)
    same_rewards = torch.equal(curation.rewards.nan_to_num(0.0), scored.nan_to_num(0.0))
    if curation.advantages is not None:
        advantages = curation.advantages
    elif advantages is not None:
        same_rows = len(taken) == len(current) and not bool(curation.replaced.any())
        if not (same_rows and same_rewards):
            advantages = group_advantages(curation.rewards, taken.groups)
    rewards = curation.rewards
    if taken.trusted is not None:
        # A reward that is known to be true stays, whatever a member makes of it.
        rewards = torch.where(taken.trusted, scored, rewards)
    # Of other rewards the components are unknown.
    return replace(taken, rewards=rewards, advantages=advantages, components=taken.components if same_rewards else None)


def _on_original_rows(whole: Curation, own: Curation) -> tuple[Float[Tensor, " b"], Bool[Tensor, " b"]]:
    """All scores and flags with those of a member, whose input was `whole`: an original row perhaps several times."""
    known, rows, scores = ~own.scores.isnan(), whole.source, whole.scores
    # Copies of one row may be scored differently, in another group's company: the most suspicious one counts.
    highest = torch.full_like(scores, -torch.inf)
    highest = highest.scatter_reduce(0, rows[known], own.scores[known].to(scores), "amax")
    anomalous = whole.anomalous.clone()
    anomalous[rows[own.anomalous]] = True
    return torch.where(scores.isnan() & (highest > -torch.inf), highest, scores), anomalous


def _joined(metrics: dict[str, float], more: dict[str, float], number: int) -> dict[str, float]:
    joined = dict(metrics)
    for name, value in more.items():
        if name == "seconds":
            joined[name] = joined.get(name, 0.0) + value
        else:
            joined[name if name not in joined else f"member_{number}/{name}"] = value
    return joined
