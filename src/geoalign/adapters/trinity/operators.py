"""What Trinity loads: curation before its advantages, or together with them.

The second is for curators that weigh advantages or give their own.
"""

from __future__ import annotations

from typing import Any

from trinity.algorithm import ADVANTAGE_FN
from trinity.algorithm.advantage_fn import AdvantageFn
from trinity.buffer.operators import ExperienceOperatorV1
from trinity.buffer.operators.experience_operator import ensure_v1_operator

from geoalign.adapters.exports import check_engine
from geoalign.adapters.trinity.curation import CurationRun
from geoalign.adapters.trinity.experiences import apply_assignment
from geoalign.adapters.trinity.refusals import check_operator
from geoalign.errors import ConfigError, UnsupportedError

check_engine("trinity-rft")


class GeoAlignOperator(ExperienceOperatorV1):
    """An operator of the experience pipeline: replaces or leaves out rollouts, or shapes rewards, before advantages.

    The arguments are those of `TrinitySettings`; curators that work on advantages are refused.
    """

    def __init__(self, **arguments: Any) -> None:
        self.run = CurationRun(arguments)
        session = self.run.session
        check_operator(session.name, session.curator.acts_on or ())

    async def prepare(self) -> None:
        """Loads what the curator needs."""
        await self.run.prepare()

    async def process(self, exps: list[Any]) -> tuple[list[Any], dict[str, float]]:
        """Returns the curated batch, and metrics."""
        if not exps:
            return [], {}
        decision = await self.run.decide(exps)
        assignment = decision.assignment
        did = {
            "weights": bool((assignment.weights[assignment.active] != 1).any()),
            "advantages": assignment.advantages is not None,
        }
        check_operator(self.run.session.name, [what for what, done in did.items() if done])
        curated, _ = apply_assignment(exps, assignment, decision.curation.scores)
        return curated, self.run.metrics_to_log({**decision.metrics, "left_out_rows": len(exps) - len(curated)})


class GeoAlignAdvantage(AdvantageFn, ExperienceOperatorV1):
    """An advantage function: curates, lets another one of Trinity's compute the advantages, then weighs them.

    Args:
        base: Trinity's advantage function, one that works on experiences.
        base_args: its arguments; those that are not given have its defaults.
        arguments: as `GeoAlignOperator`.
    """

    def __init__(self, base: str = "grpo", base_args: dict[str, Any] | None = None, **arguments: Any) -> None:
        self.run = CurationRun(arguments)
        try:
            kind, why = ADVANTAGE_FN.get(base), ""
        except (ValueError, ImportError) as error:
            kind, why = None, f": {error}"
        if AdvantageFn not in getattr(kind, "__mro__", ()):
            raise ConfigError(f"base: expected an advantage function of Trinity-RFT, got {base!r}{why}")
        if kind.compute_in_trainer():
            raise UnsupportedError(
                f"base {base!r} computes advantages inside the trainer, where experiences can no longer be curated; "
                "use one that works on experiences, such as grpo"
            )
        self.base = ensure_v1_operator(kind(**{**kind.default_args(), **(base_args or {})}))

    def __call__(self, exps: Any, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        """Refused: the batch can no longer be curated there."""
        raise UnsupportedError("GeoAlignAdvantage inside the trainer; use an algorithm that computes before it")

    @classmethod
    def default_args(cls) -> dict[str, Any]:
        """The arguments where `algorithm.advantage_fn_args` has none."""
        return {}

    @classmethod
    def compute_in_trainer(cls) -> bool:
        """False: it works on experiences, in the pipeline."""
        return False

    async def prepare(self) -> None:
        """Loads what the curator needs."""
        await self.run.prepare()
        await self.base.prepare()

    async def process(self, exps: list[Any]) -> tuple[list[Any], dict[str, Any]]:
        """Returns the curated batch with advantages, and metrics."""
        if not exps:
            return [], {}
        decision = await self.run.decide(exps)
        assignment = decision.assignment
        kept, positions = apply_assignment(exps, assignment, decision.curation.scores)
        position_of = {id(experience): position for experience, position in zip(kept, positions, strict=True)}
        weighed, metrics = await self.base.process(kept) if kept else ([], {})
        for experience in weighed:
            position = position_of.get(id(experience))
            if position is None:
                raise UnsupportedError(
                    f"base {type(self.base).__name__} returned experience {experience.eid.uid}, which it was not given "
                    "(duplicate_experiences): its weight is not known; set it to false"
                )
            if assignment.advantages is not None:
                experience.advantages = assignment.advantages[position] * experience.action_mask
            experience.advantages = experience.advantages * assignment.weights[position]
            experience.returns = experience.advantages.clone()
        own = self.run.metrics_to_log({**decision.metrics, "left_out_rows": len(exps) - len(kept)})
        return weighed, {**metrics, **own}

    async def close(self) -> None:
        """Closes the other advantage function."""
        await self.base.close()
