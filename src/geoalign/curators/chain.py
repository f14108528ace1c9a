"""Curators one after the other."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Generator, Tensor

from geoalign.curators.alarms import warn
from geoalign.curators.curator import Curator, identity
from geoalign.curators.registry import CuratorSection, as_curator
from geoalign.errors import ConfigError
from geoalign.method.advantages import group_advantages
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts

_LOG = logging.getLogger(__name__)


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
    score is that of the first member to score it; it is anomalous if any member says so). A member that changes nothing
    in a batch leaves everything as it stands, bit for bit.

    Advantages that a member gives hold until a later member gives its own. In between

    - a member that keeps rows and rewards keeps them;
    - one that takes or moves rows, and keeps rewards, takes each row's advantage along with it, unless its method makes
      advantages over the rows that it leaves (`recomputes_advantages`: PODS, for example) or it does not declare what
      it acts on;
    - one that changes rewards ends them, for they are those of other rewards.

    Where they end, advantages are made from the rewards that are left, as if none had been given: the metric
    `advantages_dropped` is then 1, and the first time a warning names both members. A member that works after the
    advantage gets what stands there, or the engine's own, or, where rows or rewards have changed since, GRPO's of the
    changed batch (Eq. 9). A chain without members changes nothing.

    Metrics keep their names; one that an earlier member used already becomes `member_<n>/<name>`. Seconds add up.

    Args:
        members: curators, or what `as_curator` makes one of (a name, a dict with its `type`, settings); or the settings
            of the whole chain.

    Raises:
        ConfigError: a member is no curator, and none can be made of it.
    """

    def __init__(self, members: list[Any] | tuple[Any, ...] | ChainConfig | None = None, **settings: Any) -> None:
        if isinstance(members, (list, tuple)):
            if settings:
                raise ConfigError("Chain: expected a config or keywords, got both")
            curators = [as_curator(member, setting=f"members.{place}") for place, member in enumerate(members)]
            super().__init__(ChainConfig(members=tuple(curator.config for curator in curators)))
        else:
            super().__init__(members, **settings)
            curators = [as_curator(config) for config in self.config.members]
        self.combine(*curators)
        # Whether the warning about a member's dropped advantages was already given.
        self._warned = False

    def curate(self, rollouts: Rollouts, *, generator: Generator | None = None, details: bool = False) -> Curation:
        """Runs the members in order, all of them on the same generator."""
        rollouts.require(*self.requires, by="Chain")
        generator = self.drawing_from(generator)
        whole = own = identity(rollouts)
        current = rollouts
        original = whole.source
        # The member whose advantages hold.
        giver: Curator[Any] | None = None
        for number, member in enumerate(self.members, 1):
            if number > 1:
                current = _handed_on(current, own, whole.advantages)
            own = member.curate(current, generator=generator, details=details)
            advantages = _advantages_after(current, member, own, whole.advantages)
            dropped = whole.advantages is not None and advantages is None
            if own.advantages is not None:
                giver = member
            elif dropped and giver is not None:
                self._warn(giver, member)
            scores, anomalous = _on_original_rows(whole, own)
            metrics = _joined(whole.metrics, own.metrics, number)
            # Details name rows of the member's own input: they are of use while these are the original ones.
            in_place = whole.details is None and torch.equal(whole.source, original)
            whole = Curation(
                source=whole.source[own.source],
                rewards=_rewards_after(current, member, own, whole.rewards),
                weights=whole.weights[own.source] * own.weights.to(whole.weights),
                advantages=advantages,
                scores=scores,
                anomalous=anomalous,
                metrics={**metrics, "advantages_dropped": 1.0} if dropped else metrics,
                details=own.details if in_place else whole.details,
            )
        return whole

    def _warn(self, giver: Curator[Any], member: Curator[Any]) -> None:
        """Says, the first time, whose advantages were dropped and why, and what to do."""
        if not self._warned:
            first = type(giver).__name__
            second = type(member).__name__
            warn(
                _LOG,
                "Chain: the advantages of %s do not hold for the rows and rewards that %s leaves, and are dropped; to "
                "train on them put %s behind %s",
                first,
                second,
                first,
                second,
            )
        self._warned = True


def _rewards_after(
    current: Rollouts, member: Curator[Any], own: Curation, earlier: Float[Tensor, " b"]
) -> Float[Tensor, " c"]:
    """The rewards in force after a member: its own where it changed them, else the earlier ones of the rows it kept.

    A member sees a reward that is known to be true as it came, whatever an earlier one made of it. One that reads
    `trusted` decides on such rewards, also where it leaves them as they came.
    """
    kept = earlier[own.source]
    shown = current.rewards[own.source].to(own.rewards)
    if "trusted" in member.reads and current.trusted is not None:
        kept = torch.where(current.trusted[own.source], shown.to(kept), kept)
    if _keeps_rewards(current, own):
        return kept
    is_kept = (own.rewards == shown) | (own.rewards.isnan() & shown.isnan())
    return torch.where(is_kept, kept.to(own.rewards), own.rewards)


def _keeps_rows(own: Curation) -> bool:
    """Whether every row stands where it stood."""
    rows = torch.arange(len(own.scores), device=own.source.device)
    return torch.equal(own.source, rows)


def _keeps_rewards(current: Rollouts, own: Curation) -> bool:
    """Whether every row that is left has the reward with which it came."""
    return _equal(own.rewards, current.rewards[own.source])


def _advantages_after(
    current: Rollouts, member: Curator[Any], own: Curation, earlier: Float[Tensor, " b"] | None
) -> Float[Tensor, " c"] | None:
    """The advantages in force after a member: its own, else the earlier ones of the rows that it kept.

    None where it changed rewards, or where it moved or dropped rows and either computes advantages over what is left or
    does not declare what it acts on.
    """
    if own.advantages is not None or earlier is None or not _keeps_rewards(current, own):
        return own.advantages
    travel = member.acts_on is not None and not member.recomputes_advantages
    return earlier[own.source] if travel or _keeps_rows(own) else None


def _handed_on(current: Rollouts, own: Curation, given: Float[Tensor, " c"] | None) -> Rollouts:
    """The batch that the next member sees, with the advantages that members have given, if any hold."""
    rows = current.take(own.source)
    rewards = own.rewards
    keeps_rewards = _keeps_rewards(current, own)
    advantages = given
    if given is None and rows.advantages is not None:
        unchanged = keeps_rewards and _keeps_rows(own)
        advantages = rows.advantages if unchanged else group_advantages(rewards, rows.groups)
    if rows.trusted is not None:
        # The next member sees a reward that is known to be true, whatever this one makes of it.
        rewards = torch.where(rows.trusted, rows.rewards.to(rewards), rewards)
    # Of other rewards the components are unknown.
    components = rows.components if keeps_rewards else None
    return replace(rows, rewards=rewards, advantages=advantages, components=components)


def _equal(one: Tensor, other: Tensor) -> bool:
    """Whether two rewards of every row are equal, or both NaN."""
    same_nan = torch.equal(one.isnan(), other.isnan())
    return same_nan and torch.equal(one.nan_to_num(0.0), other.to(one).nan_to_num(0.0))


def _on_original_rows(whole: Curation, own: Curation) -> tuple[Float[Tensor, " b"], Bool[Tensor, " b"]]:
    """All scores and flags with those of a member, whose input was `whole`: an original row perhaps several times."""
    rows = whole.source
    scored = ~own.scores.isnan()
    # Copies of one row may be scored differently, in another group's company: the most suspicious one counts.
    highest = torch.full_like(whole.scores, -torch.inf)
    highest = highest.scatter_reduce(0, rows[scored], own.scores[scored].to(whole.scores), "amax")
    first_score = whole.scores.isnan() & (highest > -torch.inf)
    scores = torch.where(first_score, highest, whole.scores)
    anomalous = whole.anomalous.clone()
    anomalous[rows[own.anomalous]] = True
    return scores, anomalous


def _joined(metrics: dict[str, float], more: dict[str, float], number: int) -> dict[str, float]:
    """The metrics of the chain so far with those of the member of this number; its seconds are added."""
    joined = dict(metrics)
    for name, value in more.items():
        if name == "seconds":
            joined[name] = joined.get(name, 0.0) + value
        else:
            joined[name if name not in joined else f"member_{number}/{name}"] = value
    return joined
