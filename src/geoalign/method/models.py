"""A consensus: a view of the directions, the prototype in it, and how far each pair deviates from that prototype.

Two views stand behind one interface: through a trained projector (the method), and the raw unit displacements (its
ablation). A consensus keeps what its last training left behind, so that the next batch can judge it before it is
trained again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from geoalign.method.consensus import projected_cosines, projected_prototype, raw_cosines, raw_prototype
from geoalign.method.distillation import Distilled, distil, orientation
from geoalign.method.pairs import Pairs
from geoalign.method.projector import Projector, ProjectorConfig, displacement

# Looks at the held-out pairs without a higher accuracy after which training stops.
PATIENCE = 3


class Consensus(ABC):
    """What one training leaves behind: the prototype (None before the first) and the deviation of its own pairs."""

    def __init__(self) -> None:
        self.prototype: Tensor | None = None
        self.train_deviation = torch.nan

    @abstractmethod
    def fit(
        self,
        states: Float[Tensor, "b d"],
        offsets: Int[Tensor, " g1"],
        pairs: Pairs,
        generator: torch.Generator | None,
        *,
        scored: bool,
    ) -> Distilled | None:
        """Trains the view on the pairs; None where there is nothing to train.

        `offsets`: where the rows of each group begin. `scored`: the pairs are to be scored by it too, so that none may
        be left out of training.
        """

    @abstractmethod
    def view(self, states: Float[Tensor, "b d"]) -> Float[Tensor, "b h"]:
        """The rollouts as `settle` and `cosines` want them; computed once a batch."""

    @abstractmethod
    def settle(self, view: Float[Tensor, "b h"], pairs: Pairs, weights: Float[Tensor, " p"]) -> None:
        """Sets the prototype to the consensus of the pairs (Eq. 5)."""

    @abstractmethod
    def cosines(self, view: Float[Tensor, "b h"], pairs: Pairs) -> Float[Tensor, " p"]:
        """<v, prototype> of each pair."""

    @abstractmethod
    def orientation(self, states: Float[Tensor, "b d"], pairs: Pairs) -> Float[Tensor, " p"]:
        """How right the consensus is on the order of each pair, between 0 and 1; chance is one half."""

    @abstractmethod
    def directions(self, states: Float[Tensor, "b d"], pairs: Pairs) -> Float[Tensor, "p o"]:
        """The unit directions of a few pairs themselves, for figures."""

    def state_dict(self) -> dict[str, Any]:
        """The consensus as tensors and numbers."""
        return {"prototype": self.prototype, "train_deviation": self.train_deviation}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`.

        Raises:
            KeyError, RuntimeError: the state is of other settings.
        """
        if set(state) != set(self.state_dict()):
            raise KeyError(f"expected {', '.join(self.state_dict())}, got {', '.join(state)}")
        self.prototype, self.train_deviation = state["prototype"], float(state["train_deviation"])


class ProjectedConsensus(Consensus):
    """Directions seen through the projector M, trained on the orientation of the pairs (Eq. 4)."""

    def __init__(self, d: int, config: ProjectorConfig, generator: torch.Generator | None) -> None:
        super().__init__()
        self.config = config
        self.probe: Tensor | None = None
        self.projector = Projector(
            d,
            layers=config.layers,
            hidden_dim=config.hidden_dim,
            output_dim=config.output_dim,
            generator=generator,
        )

    def fit(
        self,
        states: Float[Tensor, "b d"],
        offsets: Int[Tensor, " g1"],
        pairs: Pairs,
        generator: torch.Generator | None,
        *,
        scored: bool,
    ) -> Distilled:
        """Runs `distil` with the settings and keeps the last probe for judging the next batch."""
        self.projector.to(states.device)
        distilled = distil(
            self.projector,
            states,
            offsets,
            pairs,
            steps=self.config.steps,
            learning_rate=self.config.learning_rate,
            holdout=self.config.holdout,
            target_accuracy=self.config.target_accuracy,
            patience=PATIENCE if self.config.early_stop == "refit" else None,
            refit=scored and self.config.early_stop == "refit",
            groups_per_step=self.config.groups_per_step,
            generator=generator,
        )
        self.probe = distilled.probe
        return distilled

    @torch.no_grad()
    def view(self, states: Float[Tensor, "b d"]) -> Float[Tensor, "b h"]:
        """The first layer's product of every rollout."""
        return self.projector.to(states.device).on_rollouts(states)

    def settle(self, view: Float[Tensor, "b h"], pairs: Pairs, weights: Float[Tensor, " p"]) -> None:
        """Sets the prototype in the projected space."""
        self.prototype = projected_prototype(self.projector, view, pairs, weights)

    def cosines(self, view: Float[Tensor, "b h"], pairs: Pairs) -> Float[Tensor, " p"]:
        """<norm(M(u)), prototype>."""
        assert self.prototype is not None
        return projected_cosines(self.projector, view, pairs, self.prototype.to(view.device))

    def orientation(self, states: Float[Tensor, "b d"], pairs: Pairs) -> Float[Tensor, " p"]:
        """Whether the last probe orders u and -u rightly."""
        assert self.probe is not None
        return orientation(self.projector.to(states.device), self.probe.to(states.device), states, pairs)

    @torch.no_grad()
    def directions(self, states: Float[Tensor, "b d"], pairs: Pairs) -> Float[Tensor, "p o"]:
        """norm(M(u))."""
        output = self.projector.output(self.projector.features(displacement(self.view(states), pairs)))
        return functional.normalize(output, dim=1)

    def state_dict(self) -> dict[str, Any]:
        """Prototype, probe and the projector's weights."""
        return {**super().state_dict(), "probe": self.probe, "projector": dict(self.projector.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`."""
        super().load_state_dict(state)
        self.probe = state["probe"]
        self.projector.load_state_dict(state["projector"])


class RawConsensus(Consensus):
    """The raw unit displacements themselves: nothing is trained."""

    def fit(
        self,
        states: Float[Tensor, "b d"],
        offsets: Int[Tensor, " g1"],
        pairs: Pairs,
        generator: torch.Generator | None,
        *,
        scored: bool,
    ) -> None:
        """Nothing to train."""

    def view(self, states: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
        """The states as they are."""
        return states

    def settle(self, view: Float[Tensor, "b d"], pairs: Pairs, weights: Float[Tensor, " p"]) -> None:
        """Sets the prototype in the space of the states."""
        self.prototype = raw_prototype(view, pairs, weights)

    def cosines(self, view: Float[Tensor, "b d"], pairs: Pairs) -> Float[Tensor, " p"]:
        """<u, prototype>."""
        assert self.prototype is not None
        return raw_cosines(view, pairs, self.prototype.to(view.device))

    def orientation(self, states: Float[Tensor, "b d"], pairs: Pairs) -> Float[Tensor, " p"]:
        """Whether u points to the prototype's side; one half where it is at right angles."""
        return (self.cosines(states, pairs).sign() + 1) / 2

    def directions(self, states: Float[Tensor, "b d"], pairs: Pairs) -> Float[Tensor, "p d"]:
        """u."""
        return displacement(states, pairs)


def new_consensus(d: int, config: ProjectorConfig | None, generator: torch.Generator | None) -> Consensus:
    """The consensus that the settings ask for; None: raw unit displacements."""
    return RawConsensus() if config is None else ProjectedConsensus(d, config, generator)
