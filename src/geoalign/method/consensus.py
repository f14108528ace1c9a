"""The consensus of a batch: the prototype of its pair directions, each pair's deviation from it, each rollout's GDI
(Eqs. 5 to 7).

The equations come first, as functions. Behind them stand two views of the directions with one interface: the raw unit
displacements (an ablation), and through a trained projector (the method). A consensus keeps what its last training
left behind, so that the next batch can judge it before it is trained again.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from geoalign.method.arithmetic import add_rows, full_product
from geoalign.method.distillation import Distilled, block_of, distil, orientation
from geoalign.method.pairs import Pairs
from geoalign.method.projector import Projector, ProjectorConfig, displacement


def prototype_weights(margins: Float[Tensor, " p"]) -> Float[Tensor, " p"]:
    """[P] each pair's weight in the prototype: its margin r_k - r_l (Eq. 5), relative to the largest."""
    if not len(margins):
        return margins.float()
    return (margins / margins.max()).float()


@torch.no_grad()
def projected_prototype(
    projector: Projector, on_rollouts: Float[Tensor, "b h"], pairs: Pairs, weights: Float[Tensor, " p"]
) -> Float[Tensor, " o"]:
    """[d'] v_proto = norm(sum of weight * v) with v = norm(M(u)) (Eq. 5); zero where the directions cancel exactly."""
    total = on_rollouts.new_zeros(projector.output_dim)
    for block, directions in _directions(projector, on_rollouts, pairs):
        total += full_product(weights[block], directions)
    return functional.normalize(total, dim=0)


@torch.no_grad()
def projected_cosines(
    projector: Projector, on_rollouts: Float[Tensor, "b h"], pairs: Pairs, prototype: Float[Tensor, " o"]
) -> Float[Tensor, " p"]:
    """[P] <v, v_proto> of every pair, block by block."""
    cosines = on_rollouts.new_empty(len(pairs))
    for block, directions in _directions(projector, on_rollouts, pairs):
        cosines[block] = full_product(directions, prototype)
    return cosines.clamp_(-1, 1)


def raw_prototype(states: Float[Tensor, "b d"], pairs: Pairs, weights: Float[Tensor, " p"]) -> Float[Tensor, " d"]:
    """Eq. 5 on the unit displacements themselves: a weighted sum of pairs is a weighted sum of rollouts."""
    share = weights / pairs.distance
    factor = states.new_zeros(len(states))
    add_rows(factor, pairs.winner, share)
    add_rows(factor, pairs.loser, -share)
    return functional.normalize(full_product(factor, states), dim=0)


def raw_cosines(states: Float[Tensor, "b d"], pairs: Pairs, prototype: Float[Tensor, " d"]) -> Float[Tensor, " p"]:
    """[P] <u, v_proto> of every pair."""
    along = full_product(states, prototype)
    return ((along[pairs.winner] - along[pairs.loser]) / pairs.distance).clamp(-1, 1)


def deviation_index(
    deviation: Float[Tensor, " p"], pairs: Pairs, rows: int, *, aggregation: Literal["sum", "mean", "excess"]
) -> Float[Tensor, " b"]:
    """[B] GDI: the sum of the deviations s of a rollout's pairs (Eq. 7); NaN for a rollout in no pair.

    "mean" divides by the number of its pairs (the paper's ablation). "excess" sums s minus the batch's mean deviation:
    it takes off what the number of pairs alone would give, so that being in the minority of a group is no suspicion.
    """
    if aggregation == "excess" and len(pairs):
        deviation = deviation - deviation.mean()
    # Of directions that are all equal float32 leaves about 1e-6, which is no deviation.
    deviation = deviation * bool((deviation.abs() > 1e-5).any())
    total = torch.zeros(rows, dtype=torch.float32, device=deviation.device)
    add_rows(total, pairs.winner, deviation)
    add_rows(total, pairs.loser, deviation)
    count = pair_count(pairs, rows)
    if aggregation == "mean":
        total = total / count.clamp(min=1)
    return total.masked_fill(count == 0, torch.nan)


def pair_count(pairs: Pairs, rows: int) -> Float[Tensor, " b"]:
    """How many pairs each rollout is in."""
    return torch.bincount(torch.cat([pairs.winner, pairs.loser]), minlength=rows).float()


def _directions(projector: Projector, on_rollouts: Tensor, pairs: Pairs) -> Iterator[tuple[slice, Tensor]]:
    """v = norm(M(u)), [block, d'], one block of pairs after another."""
    for block in pairs.blocks(block_of(on_rollouts.device)):
        output = projector.output(projector.features(displacement(on_rollouts, pairs.take(block))))
        yield block, functional.normalize(output, dim=1)


class Consensus:
    """What one training leaves behind: the prototype and the deviation of its own pairs.

    This one sees the raw unit displacements themselves, for which nothing is trained (an ablation).
    `ProjectedConsensus` sees them through the projector.

    Attributes:
        prototype: [d] the direction on which the pairs agree; None before the first training.
        train_deviation: mean deviation of the pairs that it was made of; NaN before the first training.
    """

    def __init__(self) -> None:
        self.prototype: Tensor | None = None
        self.train_deviation = torch.nan

    def fit(self, states: Tensor, offsets: Tensor, pairs: Pairs, generator: torch.Generator) -> Distilled | None:
        """Trains on the orientation of the pairs; None where there is nothing to train.

        `offsets` [G + 1] says where the rows of each group begin.
        """
        return None

    def on_rollouts(self, states: Float[Tensor, "b d"]) -> Float[Tensor, "b h"]:
        """What prototype and cosines need of the rollouts, computed once a batch: here the states themselves."""
        return states

    def set_prototype(self, on_rollouts: Float[Tensor, "b h"], pairs: Pairs, weights: Float[Tensor, " p"]) -> None:
        """Makes the weighted mean direction of the pairs the prototype (Eq. 5)."""
        self.prototype = raw_prototype(on_rollouts, pairs, weights)

    def cosines(self, on_rollouts: Float[Tensor, "b h"], pairs: Pairs) -> Float[Tensor, " p"]:
        """[P] <v, v_proto> of each pair."""
        assert self.prototype is not None
        return raw_cosines(on_rollouts, pairs, self.prototype.to(on_rollouts.device))

    def orientation(self, states: Float[Tensor, "b d"], pairs: Pairs) -> Float[Tensor, " p"]:
        """[P] how right the consensus is on the order of each pair, between 0 and 1; chance is one half."""
        # One half for a pair at right angles to the prototype.
        return (self.cosines(states, pairs).sign() + 1) / 2

    def state_dict(self) -> dict[str, Any]:
        """The consensus as tensors and numbers."""
        return {"prototype": self.prototype, "train_deviation": self.train_deviation}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` returned; raises KeyError or RuntimeError where it is of other settings."""
        if set(state) != set(self.state_dict()):
            raise KeyError(f"expected {', '.join(self.state_dict())}, got {', '.join(state)}")
        self.prototype = state["prototype"]
        self.train_deviation = float(state["train_deviation"])


class ProjectedConsensus(Consensus):
    """Directions seen through the projector M, trained on the orientation of the pairs (Eq. 4)."""

    def __init__(self, d: int, config: ProjectorConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.config = config
        self.probe: Tensor | None = None
        self.projector = Projector(d, config, generator)

    def fit(self, states: Tensor, offsets: Tensor, pairs: Pairs, generator: torch.Generator) -> Distilled:
        self.projector.to(states.device)
        distilled = distil(self.projector, states, offsets, pairs, self.config, generator)
        self.probe = distilled.probe
        return distilled

    @torch.no_grad()
    def on_rollouts(self, states: Float[Tensor, "b d"]) -> Float[Tensor, "b h"]:
        return self.projector.to(states.device).on_rollouts(states)

    def set_prototype(self, on_rollouts: Float[Tensor, "b h"], pairs: Pairs, weights: Float[Tensor, " p"]) -> None:
        self.prototype = projected_prototype(self.projector, on_rollouts, pairs, weights)

    def cosines(self, on_rollouts: Float[Tensor, "b h"], pairs: Pairs) -> Float[Tensor, " p"]:
        assert self.prototype is not None
        return projected_cosines(self.projector, on_rollouts, pairs, self.prototype.to(on_rollouts.device))

    def orientation(self, states: Float[Tensor, "b d"], pairs: Pairs) -> Float[Tensor, " p"]:
        assert self.probe is not None
        return orientation(self.projector.to(states.device), self.probe.to(states.device), states, pairs)

    def state_dict(self) -> dict[str, Any]:
        return deepcopy({**super().state_dict(), "probe": self.probe, "projector": dict(self.projector.state_dict())})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.probe = state["probe"]
        self.projector.load_state_dict(state["projector"])


def new_consensus(d: int, config: ProjectorConfig | None, generator: torch.Generator) -> Consensus:
    """The consensus that the settings ask for; None: raw unit displacements."""
    if config is None:
        return Consensus()
    return ProjectedConsensus(d, config, generator)
