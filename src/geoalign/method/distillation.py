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
from geoalign.method.projector import Projector, ProjectorConfig, displacement, new_probe

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
# Steps from one look at the held-out pairs to the next; looks without a higher accuracy after which "refit" stops.
CHECK_EVERY = 5
PATIENCE = 3


@dataclass(frozen=True, eq=False)
class Distilled:
    """What training leaves behind besides the projector's weights; accuracies and loss are NaN where undefined."""

    probe: Float[Tensor, " o"]
    steps: int
    loss: float
    heldout_accuracy: float


def distil(
    projector: Projector,
    states: Float[Tensor, "b d"],
    row_offsets: Int[Tensor, " g1"],
    pairs: Pairs,
    config: ProjectorConfig,
    generator: torch.Generator,
    *,
    scored: bool,
) -> Distilled:
    """Minimises softplus(-w.M(u)) + softplus(w.M(-u)), mean over pairs, over M and a fresh probe w (Eq. 4).

    Adam, `steps` steps, the learning rate falling from `learning_rate` to zero along a cosine. A share `holdout` of the
    pairs (4096 at most) is kept out of the loss; training stops early once their orientation accuracy, looked at every
    five steps, reaches `target_accuracy` (the paper's rule, appendix "Projector"). Each step takes all pairs of
    `groups_per_step` groups, walking through shuffled rounds of all groups.

    `early_stop="refit"`: training also stops once that accuracy has not risen by its standard error for three looks.
    And as held-out pairs deviate more than those trained on, pairs that the projector is to score (`scored`) are
    treated alike: it goes back to where it began and is trained on all pairs, for as many steps as served the held-out
    ones best. Where there is nothing to stop for (`target_accuracy` None) none are held out.

    Args:
        projector: trained in place.
        states: [B, d] centred states in sorted order.
        row_offsets: [G + 1] where the rows of each group begin.
        pairs: at least one, with their distances.
        generator: CPU generator of the probe, the held-out pairs and the group draws.
        scored: whether the pairs are to be scored by the projector, too.

    Returns:
        The probe, the steps behind it, and the held-out accuracy after that many (NaN without held-out pairs).
    """

    def train(chosen: Pairs, most: int, watch: _Watch | None) -> Distilled:
        batches = _batches(states, row_offsets.cpu(), chosen, config.groups_per_step, generator)
        return _train(projector, probe.clone(), states, batches, config, most, watch)

    probe = new_probe(projector.output_dim, generator).to(states.device)
    refit = scored and config.early_stop == "refit"
    holdout = 0.0 if refit and config.target_accuracy is None else config.holdout
    heldout, training = _split_pairs(pairs, holdout, generator)
    watch = _Watch(heldout, config) if len(heldout) else None
    begun = copy.deepcopy(projector.state_dict()) if refit else None
    distilled = train(training, config.steps, watch)
    if begun is None or watch is None:
        return distilled
    projector.load_state_dict(begun)
    return replace(train(pairs, watch.best_steps, None), heldout_accuracy=watch.best)


@dataclass
class _Watch:
    """The held-out pairs, and when to stop for them."""

    heldout: Pairs
    config: ProjectorConfig
    best: float = torch.nan
    best_steps: int = 0
    idle: int = 0

    def due(self, taken: int, most: int) -> bool:
        """Whether to look after so many steps: at the end in any case."""
        return taken == most or (self.config.target_accuracy is not None and taken % CHECK_EVERY == 0)

    def look(self, accuracy: float, taken: int) -> bool:
        """Notes an accuracy; True where training is to stop. A gain below its standard error is none."""
        self.idle += 1
        target = self.config.target_accuracy
        error = math.sqrt(max(accuracy * (1 - accuracy), 0) / len(self.heldout))
        reached = target is not None and accuracy >= target
        if reached or not accuracy <= self.best + error:  # the first one is higher than NaN
            self.best = accuracy
            self.best_steps = taken
            self.idle = 0
        patient = target is None or self.config.early_stop != "refit" or self.idle < PATIENCE
        return reached or not patient


@torch.enable_grad()
def _train(
    projector: Projector,
    probe: Tensor,
    states: Tensor,
    batches: Iterator[tuple[Tensor, Pairs]],
    config: ProjectorConfig,
    most: int,
    watch: _Watch | None,
) -> Distilled:
    """Trains on the batches for `most` of the schedule's steps, or until the watched pairs say stop."""
    probe.requires_grad_()
    parameters = [*projector.parameters(), probe]
    optimizer = torch.optim.Adam(parameters, lr=config.learning_rate, fused=states.device.type in ("cpu", "cuda"))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(config.steps, 1))
    watched = None if watch is None else _rows_of(watch.heldout)
    loss = states.new_full((), torch.nan)
    accuracy = torch.nan
    taken = 0
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


def _batches(
    states: Tensor,
    row_offsets: Tensor,
    pairs: Pairs,
    groups_per_step: int | Literal["auto"] | None,
    generator: torch.Generator,
) -> Iterator[tuple[Tensor, Pairs]]:
    """The states and the pairs of one step after another, their groups drawn in shuffled rounds of all."""
    # Groups are drawn, and their rows and pairs listed, on the CPU: an accelerator would be waited for each time.
    device = pairs.winner.device
    groups = pairs.group.unique_consecutive().cpu()
    pair_offsets = torch.searchsorted(pairs.group, torch.arange(len(row_offsets), device=device)).cpu()
    size = _groups_in_step(groups_per_step, len(groups), len(pairs))
    queue = groups[:0]
    while True:
        seen, batch = states, pairs
        if size < len(groups):
            if len(queue) < size:
                queue = groups[torch.randperm(len(groups), generator=generator)]
            chosen, queue = queue[:size].sort().values, queue[size:]
            rows = group_ranges(row_offsets, chosen).to(device)
            batch = pairs.take(group_ranges(pair_offsets, chosen).to(device))
            winner, loser = torch.searchsorted(rows, batch.winner), torch.searchsorted(rows, batch.loser)
            seen, batch = states[rows], replace(batch, winner=winner, loser=loser)
        if groups_per_step == "auto" and len(batch) > 2 * AUTO_PAIRS:
            drawn = torch.randperm(len(batch), generator=generator)[: 2 * AUTO_PAIRS]
            batch = batch.take(drawn.sort().values.to(device))
        yield seen, batch


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
    right = seen.new_empty(len(local))
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
    total = states.new_zeros(())
    for block in pairs.blocks(block_of(states.device)):
        first = displacement(leaf, pairs.take(block))
        logits = projector.logit(projector.features(torch.cat([first, -first])), probe)
        forward, backward = logits.chunk(2)
        loss = (functional.softplus(-forward) + functional.softplus(backward)).sum() / len(pairs)
        loss.backward()
        total += loss.detach()
    on_rollouts.backward(leaf.grad)
    return total


def _split_pairs(pairs: Pairs, share: float, generator: torch.Generator) -> tuple[Pairs, Pairs]:
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


def _rows_of(pairs: Pairs) -> tuple[Tensor, Pairs]:
    """The rows that the pairs need, and the pairs renumbered to them."""
    rows, local = torch.cat([pairs.winner, pairs.loser]).unique(return_inverse=True)
    winner, loser = local.chunk(2)
    return rows, replace(pairs, winner=winner, loser=loser)
