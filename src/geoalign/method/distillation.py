"""Training the projector on the orientation of the pairs (Eq. 4)."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from geoalign.method.density import floor_share
from geoalign.method.pairs import Pairs, group_ranges
from geoalign.method.projector import Projector, displacement, new_probe

# Pairs that go through the layers behind the first at a time: bounds memory whatever the batch. More on an accelerator,
# where starting an operation on so few takes about as long as the operation.
BLOCK = 2048
ACCELERATOR_BLOCK = 8192
# "auto": groups are drawn for a step until they hold about this many pairs, but never fewer than the minimum; where
# these hold more than twice as many (large groups), that many are drawn from them.
AUTO_PAIRS = 1024
AUTO_MIN_GROUPS = 8
# Held-out pairs only decide when to stop; more than this many say nothing more.
MAX_HELDOUT = 4096
# Steps from one look at the held-out pairs to the next.
CHECK_EVERY = 5


@dataclass(frozen=True, eq=False)
class Distilled:
    """What training leaves behind besides the projector's weights; accuracies and loss are NaN where undefined."""

    probe: Float[Tensor, " o"]
    steps: int
    loss: float
    heldout_accuracy: float


@torch.enable_grad()
def distil(
    projector: Projector,
    states: Float[Tensor, "b d"],
    row_offsets: Int[Tensor, " g1"],
    pairs: Pairs,
    *,
    steps: int,
    learning_rate: float,
    holdout: float,
    target_accuracy: float | None,
    patience: int | None = None,
    refit: bool = False,
    groups_per_step: int | Literal["auto"] | None,
    generator: torch.Generator | None,
) -> Distilled:
    """Minimises softplus(-w.M(u)) + softplus(w.M(-u)), mean over pairs, over M and a fresh probe w (Eq. 4).

    Adam, the learning rate falling from `learning_rate` to zero along a cosine. A share `holdout` of the pairs (4096 at
    most) is kept out of the loss; training stops early once their orientation accuracy, looked at every five steps,
    reaches `target_accuracy`, or has not risen by its standard error for `patience` looks. Each step takes all pairs of
    `groups_per_step` groups, walking through shuffled rounds of all groups.

    Pairs that were held out deviate more than those trained on. With `refit` no pair is treated so: the projector goes
    back to where it began and is trained on all pairs, for as many steps as served the held-out pairs best. That costs
    these steps again. Where there is nothing to stop for (`target_accuracy` None), `refit` holds nothing out instead.

    Args:
        projector: trained in place.
        states: [B, d] centred states in sorted order.
        row_offsets: [G + 1] where the rows of each group begin.
        pairs: at least one, with their distances.
        patience: looks without a gain before training stops; None, or no `target_accuracy`: never for that.
        generator: CPU generator of the probe, the held-out pairs and the group draws.

    Returns:
        The probe, the steps behind it, and the held-out accuracy after that many (NaN without held-out pairs).
    """
    probe = new_probe(projector.output_dim, generator).to(states.device)
    heldout, training = _split_pairs(pairs, 0.0 if refit and target_accuracy is None else holdout, generator)
    again = refit and len(heldout) > 0
    begun = copy.deepcopy(projector.state_dict()) if again else None
    course = _Course(projector, states, row_offsets.cpu(), steps, learning_rate, groups_per_step, generator)
    watch = _Watch(heldout, target_accuracy, patience)
    distilled = course.run(probe, training, steps, watch)
    if begun is None:
        return distilled
    projector.load_state_dict(begun)
    return replace(course.run(probe, pairs, watch.best_steps), heldout_accuracy=watch.best)


@dataclass
class _Watch:
    """The held-out pairs, and when to stop for them."""

    heldout: Pairs
    target: float | None
    patience: int | None
    best: float = torch.nan
    best_steps: int = 0
    idle: int = 0

    def due(self, taken: int, most: int) -> bool:
        """Whether to look after so many steps: at the end in any case."""
        return taken == most or (self.target is not None and taken % CHECK_EVERY == 0)

    def look(self, accuracy: float, taken: int) -> bool:
        """Notes an accuracy; True where training is to stop. A gain below its standard error is none."""
        self.idle += 1
        error = math.sqrt(max(accuracy * (1 - accuracy), 0) / len(self.heldout))
        reached = self.target is not None and accuracy >= self.target
        if reached or not accuracy <= self.best + error:  # the first one is higher than NaN
            self.best, self.best_steps, self.idle = accuracy, taken, 0
        return reached or (self.target is not None and self.patience is not None and self.idle >= self.patience)


@dataclass(frozen=True, eq=False)
class _Course:
    """How a projector is trained, on whichever pairs."""

    projector: Projector
    states: Tensor
    row_offsets: Tensor
    steps: int
    learning_rate: float
    groups_per_step: int | Literal["auto"] | None
    generator: torch.Generator | None

    def run(self, first_probe: Tensor, pairs: Pairs, most: int, watch: _Watch | None = None) -> Distilled:
        """Trains on `pairs` for `most` of the schedule's steps, or until the watched pairs say stop."""
        projector, states = self.projector, self.states
        probe = first_probe.clone().requires_grad_()
        optimizer = torch.optim.Adam(
            [*projector.parameters(), probe], lr=self.learning_rate, fused=states.device.type in ("cpu", "cuda")
        )
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(self.steps, 1))
        watched = None if watch is None or not len(watch.heldout) else _rows_of(watch.heldout)
        batches = self._batches(pairs)
        loss, taken, accuracy = torch.full((), torch.nan), 0, torch.nan
        for taken in range(1, most + 1):
            optimizer.zero_grad()
            loss = _backward(projector, probe, *next(batches))
            optimizer.step()
            schedule.step()
            if watch is None or watched is None or not watch.due(taken, most):
                continue
            seen, local = watched
            accuracy = float(_right(projector, probe, states[seen], local).mean())
            if watch.look(accuracy, taken):
                break
        return Distilled(probe=probe.detach(), steps=taken, loss=float(loss), heldout_accuracy=accuracy)

    def _batches(self, pairs: Pairs) -> Iterator[tuple[Tensor, Pairs]]:
        """The states and the pairs of one step after another."""
        # Groups are drawn, and their rows and pairs listed, on the CPU: an accelerator would be waited for each time.
        groups = pairs.group.unique_consecutive().cpu()
        numbers = torch.arange(len(self.row_offsets), device=pairs.group.device)
        pair_offsets = torch.searchsorted(pairs.group, numbers).cpu()
        draws = _GroupDraws(groups, _groups_in_step(self.groups_per_step, len(groups), len(pairs)), self.generator)
        while True:
            chosen = draws.next()
            rows, batch = (None, pairs) if chosen is None else _only(chosen, self.row_offsets, pair_offsets, pairs)
            if self.groups_per_step == "auto" and len(batch) > 2 * AUTO_PAIRS:
                drawn = torch.randperm(len(batch), generator=self.generator)[: 2 * AUTO_PAIRS]
                batch = batch.take(drawn.sort().values.to(batch.winner.device))
            yield (self.states if rows is None else self.states[rows]), batch


def block_of(device: torch.device) -> int:
    """Pairs taken at a time on this device."""
    return BLOCK if device.type == "cpu" else ACCELERATOR_BLOCK


@torch.no_grad()
def orientation(
    projector: Projector, probe: Float[Tensor, " o"], states: Float[Tensor, "b d"], pairs: Pairs
) -> Float[Tensor, " p"]:
    """How right the probe is on each pair: the mean of [w.M(u) > 0] and [w.M(-u) < 0], so chance is one half."""
    rows, local = _rows_of(pairs)
    return _right(projector, probe, states[rows], local)


@torch.no_grad()
def _right(projector: Projector, probe: Tensor, seen: Tensor, local: Pairs) -> Tensor:
    """`orientation` of pairs that are numbered by the states that they need, `seen`."""
    on_rollouts = projector.on_rollouts(seen)
    right = torch.empty(len(local), device=seen.device)
    for block in local.blocks(block_of(seen.device)):
        first = displacement(on_rollouts, local.take(block))
        forward = projector.logit(projector.features(first), probe) > 0
        backward = projector.logit(projector.features(-first), probe) < 0
        right[block] = (forward.float() + backward.float()) / 2
    return right


def _backward(projector: Projector, probe: Tensor, states: Tensor, pairs: Pairs) -> Tensor:
    """Accumulates the gradients of the mean loss, block by block; pair gradients meet on the rollouts first."""
    on_rollouts = projector.on_rollouts(states)
    leaf = on_rollouts.detach().requires_grad_()
    total = torch.zeros((), device=states.device)
    for block in pairs.blocks(block_of(states.device)):
        first = displacement(leaf, pairs.take(block))
        logits = projector.logit(projector.features(torch.cat([first, -first])), probe)
        forward, backward = logits.chunk(2)
        loss = (functional.softplus(-forward) + functional.softplus(backward)).sum() / len(pairs)
        loss.backward()
        total += loss.detach()
    on_rollouts.backward(leaf.grad)
    return total


def _split_pairs(pairs: Pairs, share: float, generator: torch.Generator | None) -> tuple[Pairs, Pairs]:
    """Draws the held-out pairs; at least one pair is left to train on."""
    count = min(floor_share(share, len(pairs)), MAX_HELDOUT, len(pairs) - 1)
    out = torch.zeros(len(pairs), dtype=torch.bool)
    out[torch.randperm(len(pairs), generator=generator)[:count]] = True
    out = out.to(pairs.winner.device)
    return pairs.take(out), pairs.take(~out)


def _groups_in_step(wanted: int | Literal["auto"] | None, groups: int, pairs: int) -> int:
    if wanted is None:
        return groups
    if wanted == "auto":
        wanted = max(AUTO_MIN_GROUPS, -(-AUTO_PAIRS * groups // pairs))
    return min(wanted, groups)


class _GroupDraws:
    """Groups for one step after another, in shuffled rounds, on the CPU; None stands for all of them."""

    def __init__(self, groups: Tensor, size: int, generator: torch.Generator | None) -> None:
        self._groups, self._size, self._generator = groups, size, generator
        self._queue = groups.new_empty(0)

    def next(self) -> Tensor | None:
        if self._size == len(self._groups):
            return None
        if len(self._queue) < self._size:
            shuffled = torch.randperm(len(self._groups), generator=self._generator)
            self._queue = self._groups[shuffled]
        chosen, self._queue = self._queue[: self._size], self._queue[self._size :]
        return chosen.sort().values


def _only(chosen: Tensor, row_offsets: Tensor, pair_offsets: Tensor, pairs: Pairs) -> tuple[Tensor, Pairs]:
    """The rows of the chosen groups and their pairs, renumbered to those rows, on the device of the pairs."""
    rows = group_ranges(row_offsets, chosen).to(pairs.winner.device)
    batch = pairs.take(group_ranges(pair_offsets, chosen).to(pairs.winner.device))
    return rows, Pairs(
        torch.searchsorted(rows, batch.winner),
        torch.searchsorted(rows, batch.loser),
        batch.group,
        batch.margin,
        batch.distance,
    )


def _rows_of(pairs: Pairs) -> tuple[Tensor, Pairs]:
    """The rows that the pairs need, and the pairs renumbered to them."""
    rows, local = torch.cat([pairs.winner, pairs.loser]).unique(return_inverse=True)
    winner, loser = local.chunk(2)
    return rows, Pairs(winner, loser, pairs.group, pairs.margin, pairs.distance)
