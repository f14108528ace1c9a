"""Training the projector on the orientation of the pairs (Eq. 4)."""

from __future__ import annotations

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
# Steps from one look at the held-out pairs to the next.
CHECK_EVERY = 5


@dataclass(frozen=True, eq=False)
class Distilled:
    """The results of a training, apart from the projector's weights.

    Attributes:
        probe: [d'] the probe w.
        steps: how many steps were taken.
        loss: the mean loss of the last step; NaN without a step.
        heldout_accuracy: orientation accuracy on the held-out pairs at the end; NaN where none were held out.
    """

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
) -> Distilled:
    """Trains the projector M and a fresh probe w on the orientation of the pairs (Eq. 4).

        L(psi, w) = mean over pairs of  softplus(-w.M(u)) + softplus(w.M(-u))

    is minimised by `config.steps` steps of Adam, whose learning rate falls from `learning_rate` to zero along a cosine.
    Each step takes all pairs of `groups_per_step` groups, walking through shuffled rounds of all groups.

    A share `holdout` of the pairs (4096 at most) is kept out of the loss. Their orientation accuracy is looked at every
    five steps, and training stops once it reaches `target_accuracy` (appendix "Projector").

    Args:
        projector: trained in place.
        states: [B, d] centred states in sorted order.
        row_offsets: [G + 1] where the rows of each group begin.
        pairs: at least one, with their distances.
        generator: CPU generator of the probe, the held-out pairs and the group draws.
    """
    probe = new_probe(projector.output_dim, generator).to(states.device)
    heldout, training = _split_pairs(pairs, config.holdout, generator)
    batches = _batches(states, row_offsets.cpu(), training, config.groups_per_step, generator)
    return _train(projector, probe, states, batches, heldout, config)


@torch.enable_grad()
def _train(
    projector: Projector,
    probe: Tensor,
    states: Tensor,
    batches: Iterator[tuple[Tensor, Pairs]],
    heldout: Pairs,
    config: ProjectorConfig,
) -> Distilled:
    """Takes the steps of the schedule, one batch each, or as many as it takes to reach the target accuracy."""
    probe.requires_grad_()
    parameters = [*projector.parameters(), probe]
    optimizer = torch.optim.Adam(parameters, lr=config.learning_rate, fused=states.device.type in ("cpu", "cuda"))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=max(config.steps, 1))
    target = config.target_accuracy
    loss = states.new_full((), torch.nan)
    accuracy = torch.nan
    step = 0
    for step in range(1, config.steps + 1):
        optimizer.zero_grad()
        batch_states, batch_pairs = next(batches)
        loss = _backward(projector, probe, batch_states, batch_pairs)
        optimizer.step()
        schedule.step()
        look_for_target = target is not None and step % CHECK_EVERY == 0
        if len(heldout) and (look_for_target or step == config.steps):
            accuracy = float(orientation(projector, probe, states, heldout).mean())
            if target is not None and accuracy >= target:
                break
    return Distilled(probe=probe.detach(), steps=step, loss=float(loss), heldout_accuracy=accuracy)


def _batches(
    states: Tensor,
    row_offsets: Tensor,
    pairs: Pairs,
    groups_per_step: int | Literal["auto"] | None,
    generator: torch.Generator,
) -> Iterator[tuple[Tensor, Pairs]]:
    """The states and the pairs of one step after another, without end.

    Groups are drawn in shuffled rounds of all of them. The pairs of a step are numbered by the states of that step.
    """
    # Groups are drawn, and their rows and pairs listed, on the CPU: an accelerator would be waited for each time.
    device = pairs.winner.device
    groups = pairs.group.unique_consecutive().cpu()
    pair_offsets = torch.searchsorted(pairs.group, torch.arange(len(row_offsets), device=device)).cpu()
    size = _groups_in_step(groups_per_step, len(groups), len(pairs))
    round_of_groups = groups[:0]
    while True:
        step_states = states
        step_pairs = pairs
        if size < len(groups):
            if len(round_of_groups) < size:
                round_of_groups = groups[torch.randperm(len(groups), generator=generator)]
            drawn_groups = round_of_groups[:size].sort().values
            round_of_groups = round_of_groups[size:]
            rows = group_ranges(row_offsets, drawn_groups).to(device)
            of_groups = pairs.take(group_ranges(pair_offsets, drawn_groups).to(device))
            step_states = states[rows]
            step_pairs = replace(
                of_groups,
                winner=torch.searchsorted(rows, of_groups.winner),
                loser=torch.searchsorted(rows, of_groups.loser),
            )
        if groups_per_step == "auto" and len(step_pairs) > 2 * AUTO_PAIRS:
            drawn = torch.randperm(len(step_pairs), generator=generator)[: 2 * AUTO_PAIRS]
            step_pairs = step_pairs.take(drawn.sort().values.to(device))
        yield step_states, step_pairs


def block_of(device: torch.device) -> int:
    """Pairs taken at a time on this device."""
    return BLOCK if device.type == "cpu" else ACCELERATOR_BLOCK


@torch.no_grad()
def orientation(
    projector: Projector, probe: Float[Tensor, " o"], states: Float[Tensor, "b d"], pairs: Pairs
) -> Float[Tensor, " p"]:
    """[P] how right the probe is on each pair: the mean of [w.M(u) > 0] and [w.M(-u) < 0], so chance is one half."""
    # Only the states that the pairs need go through the first layer, and the pairs are numbered by these.
    rows, local = torch.cat([pairs.winner, pairs.loser]).unique(return_inverse=True)
    winner, loser = local.chunk(2)
    local_pairs = replace(pairs, winner=winner, loser=loser)
    on_rollouts = projector.on_rollouts(states[rows])
    right = states.new_empty(len(pairs))
    for block in local_pairs.blocks(block_of(states.device)):
        first = displacement(on_rollouts, local_pairs.take(block))
        forward_right = projector.logit(projector.features(first), probe) > 0
        backward_right = projector.logit(projector.features(-first), probe) < 0
        right[block] = (forward_right.float() + backward_right.float()) / 2
    return right


def _backward(projector: Projector, probe: Tensor, states: Tensor, pairs: Pairs) -> Tensor:
    """Adds the gradients of the mean loss to the parameters, block by block, and returns that loss.

    The gradients of all pairs are summed on the rollouts first; the first layer is gone through once.
    """
    on_rollouts = projector.on_rollouts(states)
    leaf = on_rollouts.detach().requires_grad_()
    total_loss = states.new_zeros(())
    for block in pairs.blocks(block_of(states.device)):
        first = displacement(leaf, pairs.take(block))
        logits = projector.logit(projector.features(torch.cat([first, -first])), probe)
        forward, backward = logits.chunk(2)
        loss = (functional.softplus(-forward) + functional.softplus(backward)).sum() / len(pairs)
        loss.backward()
        total_loss += loss.detach()
    on_rollouts.backward(leaf.grad)
    return total_loss


def _split_pairs(pairs: Pairs, share: float, generator: torch.Generator) -> tuple[Pairs, Pairs]:
    """The held-out pairs, drawn at random, and the pairs to train on, at least one."""
    count = min(floor_share(share, len(pairs)), MAX_HELDOUT, len(pairs) - 1)
    heldout = torch.zeros(len(pairs), dtype=torch.bool)
    heldout[torch.randperm(len(pairs), generator=generator)[:count]] = True
    heldout = heldout.to(pairs.winner.device)
    return pairs.take(heldout), pairs.take(~heldout)


def _groups_in_step(wanted: int | Literal["auto"] | None, groups: int, pairs: int) -> int:
    """How many of the groups a step takes: all, `wanted`, or ("auto") so many that they hold about `AUTO_PAIRS`."""
    if wanted is None:
        return groups
    if wanted == "auto":
        wanted = max(AUTO_MIN_GROUPS, -(-AUTO_PAIRS * groups // pairs))
    return min(wanted, groups)
