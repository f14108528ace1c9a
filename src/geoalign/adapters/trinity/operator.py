"""Curation before Trinity's advantages."""

from __future__ import annotations

from typing import Any

from trinity.buffer.operators import ExperienceOperatorV1

from geoalign.adapters.step import Decision, named
from geoalign.adapters.trinity.experiences import apply_placement
from geoalign.adapters.trinity.run import CurationRun
from geoalign.curators.base import Curator
from geoalign.errors import UnsupportedError

_INSTEAD = "name geoalign.adapters.trinity.GeoAlignAdvantage as algorithm.advantage_fn instead of this operator"


class GeoAlignOperator(ExperienceOperatorV1):
    """An operator of the experience pipeline: replaces or leaves out rollouts, or shapes rewards, before advantages.

    The arguments are `curator` (a section with its `type`, or a name) and the settings of `TrinitySettings`.

    Raises:
        ConfigError: an argument is unknown or out of range.
        UnsupportedError: the curator works on advantages.
    """

    def __init__(self, **arguments: Any) -> None:
        self.run = CurationRun(arguments)
        if "advantages" in self.run.curator.requires:
            raise UnsupportedError(f"{self.run.name} needs advantages, which come after every operator: {_INSTEAD}")
        # It touches no advantage before the first flag, which may be hours away.
        if acts := acts_on_advantages(self.run.curator):
            raise UnsupportedError(f"{self.run.name} {acts} advantages, which come after every operator: {_INSTEAD}")

    async def prepare(self) -> None:
        """Loads what the curator needs."""
        await self.run.prepare()

    async def process(self, exps: list[Any]) -> tuple[list[Any], dict[str, float]]:
        """Returns the curated batch, and metrics.

        Raises:
            UnsupportedError: the curator weighs rows or gives advantages; or the experiences cannot be curated.
        """
        if not exps:
            return [], {}
        decision = await self.run.decide(exps)
        self._check(decision)
        curated, _ = apply_placement(exps, decision.placement, decision.curation.scores)
        return curated, named(decision.metrics)

    def _check(self, decision: Decision) -> None:
        placement = decision.placement
        if placement.advantages is not None:
            raise UnsupportedError(f"{self.run.name} gives advantages, which come after every operator: {_INSTEAD}")
        scored = placement.kept & ~placement.rewards.isnan()
        if bool((placement.weights[scored] != 1).any()):
            raise UnsupportedError(f"{self.run.name} weighs advantages, which come after every operator: {_INSTEAD}")


def acts_on_advantages(curator: Curator) -> str | None:
    """What the curator's strategy does to advantages once it acts: it "weighs" or "gives" them; None: neither.

    A chain weighs where any member does, and gives what its last member gives.
    """
    members = getattr(curator, "members", ())
    if members:
        acts = [acts_on_advantages(member) for member in members]
        return "weighs" if "weighs" in acts else acts[-1]
    strategy = getattr(curator.config, "strategy", None)
    return {"zero_weight": "weighs", "weight": "weighs", "soft": "gives"}.get(str(strategy))
