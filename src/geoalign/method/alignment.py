"""Where each rollout stands along a prototype among all rollouts of its group, and whether its reward says the same.

A deviation index compares a rollout only with those of another reward. Its alignment compares it with all of the group:
of two rollouts with the same reward, one can stand where better ones stand.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.method.advantages import group_advantages
from geoalign.method.consensus import Consensus
from geoalign.method.groups import GroupedRows
from geoalign.method.pairs import Pairs, preference_pairs


def all_pairs(rewards: Float[Tensor, " b"], rows: GroupedRows) -> Pairs:
    """Every two scored rows of a group, whatever their rewards; the one that stands later in sorted order first."""
    position = torch.arange(len(rewards), dtype=torch.float32, device=rewards.device)
    return preference_pairs(position.masked_fill(rewards.isnan(), torch.nan), rows)


def along_prototypes(
    folds: Sequence[Consensus], fold: Int[Tensor, " g"], states: Float[Tensor, "b d"], pairs: Pairs
) -> Float[Tensor, " p"]:
    """(<v(u), prototype> - <v(-u), prototype>) / 2 of every pair, by the consensus of its group's fold.

    v(-u) is not -v(u) after a projector; half the difference changes its sign with u. On raw directions it is the
    cosine itself.
    """
    along = torch.zeros(len(pairs), device=states.device)
    for number, consensus in enumerate(folds):
        held = fold[pairs.group] == number
        asked = pairs.take(held)
        if len(asked):
            turned = Pairs(asked.loser, asked.winner, asked.group, asked.margin, asked.distance)
            view = consensus.view(states)
            along[held] = (consensus.cosines(view, asked) - consensus.cosines(view, turned)) / 2
    return along


def alignments(
    along: Float[Tensor, " p"], pairs: Pairs, rewards: Float[Tensor, " b"], rows: GroupedRows
) -> Float[Tensor, " b"]:
    """t_i = sum over the others j of the group of along(h_i - h_j) / (n - 1), between -1 and 1; 0 in the group's mean.

    Args:
        along: of each pair, winner minus loser; pairs without a direction are left out and count 0.
        rewards: rows without one (NaN) are nobody's others; n is the number of rows with one.
    """
    total = torch.zeros(len(rewards), dtype=along.dtype, device=along.device)
    total.index_add_(0, pairs.winner, along).index_add_(0, pairs.loser, along, alpha=-1)
    return total / others(rewards, rows)


def others(rewards: Float[Tensor, " b"], rows: GroupedRows) -> Float[Tensor, " b"]:
    """[B] scored rows of the group less one, at least one."""
    scored = torch.zeros(len(rows.sizes), device=rewards.device).index_add_(0, rows.group, (~rewards.isnan()).float())
    return (scored - 1).clamp(min=1)[rows.group]


def contradiction(
    alignment: Float[Tensor, " b"], rewards: Float[Tensor, " b"], group: Int[Tensor, " b"]
) -> Float[Tensor, " b"]:
    """-y t: how far the alignment of a rollout contradicts its reward y, standardised in its group.

    Up to a factor the log-odds that the reward has the wrong sign, where alignments are normal around y.
    """
    # In float32 the squares of rewards around 1e30 overflow, and those around 1e-30 vanish.
    wide = rewards if rewards.device.type == "mps" else rewards.double()
    return -group_advantages(wide, group, eps=torch.finfo(wide.dtype).tiny).to(alignment) * alignment
