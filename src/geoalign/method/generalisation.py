"""How a consensus does on groups that it was never trained on, and the folds that make such groups."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.method.intervals import Interval, clustered_proportion
from geoalign.method.models import Consensus
from geoalign.method.pairs import Pairs

# Accuracies and deviations that only describe a fit are taken over at most this many pairs.
JUDGED_PAIRS = 8192


def _none() -> np.ndarray:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class NewGroups:
    """Orientation accuracy on new groups, groups taken as independent, and the mean deviation there.

    `right` and `total` are the pairs ordered rightly and all pairs, [G], group by group.
    """

    accuracy: Interval
    deviation: float
    right: Float[np.ndarray, " g"] = field(default_factory=_none)
    total: Float[np.ndarray, " g"] = field(default_factory=_none)


UNKNOWN = NewGroups(Interval(torch.nan, torch.nan, torch.nan), torch.nan)


def summarise_new_groups(right: Float[Tensor, " p"], cosine: Float[Tensor, " p"], pairs: Pairs) -> NewGroups:
    """Accuracy with its group-wise interval, and mean deviation, from how each pair was judged (at least one)."""
    _, member = pairs.group.unique_consecutive(return_inverse=True)
    groups = int(member[-1]) + 1
    per_group = torch.zeros(groups, device=right.device).index_add_(0, member, right)
    total = torch.bincount(member, minlength=groups).to(right.dtype)
    counts = per_group.cpu().numpy(), total.cpu().numpy()
    return NewGroups(clustered_proportion(*counts), float((1 - cosine).mean()), *counts)


def judge_new_groups(
    consensus: Consensus, states: Float[Tensor, "b d"], pairs: Pairs, generator: torch.Generator | None
) -> NewGroups:
    """Judges a consensus of an earlier batch on this one, before it is trained on it.

    Free of new rollouts, because prompts are new in every iteration. Whole groups are drawn until they hold about 8192
    pairs. NaN where the consensus was never trained.
    """
    if consensus.prototype is None:
        return UNKNOWN
    groups = pairs.group.unique_consecutive()
    wanted = max(1, len(groups) * JUDGED_PAIRS // len(pairs))
    if wanted < len(groups):
        drawn = torch.randperm(len(groups), generator=generator)[:wanted]
        chosen = torch.zeros(int(groups[-1]) + 1, dtype=torch.bool, device=groups.device)
        chosen[groups[drawn.to(groups.device)]] = True
        pairs = pairs.take(chosen[pairs.group])
    cosine = consensus.cosines(consensus.view(states), pairs)
    return summarise_new_groups(consensus.orientation(states, pairs), cosine, pairs)


def every_nth(pairs: Pairs, most: int = JUDGED_PAIRS) -> Pairs:
    """At most `most` pairs, evenly spread over all; draws nothing."""
    return pairs.take(slice(None, None, -(-len(pairs) // most))) if len(pairs) > most else pairs


def fold_of_groups(pairs: Pairs, groups: int, folds: int, generator: torch.Generator | None) -> Int[Tensor, " g"]:
    """A random fold for each group that has pairs, sizes even; -1 for the others."""
    paired = pairs.group.unique_consecutive()
    fold = torch.full((groups,), -1, device=paired.device)
    shuffled = torch.randperm(len(paired), generator=generator).to(paired.device)
    fold[paired[shuffled]] = torch.arange(len(paired), device=paired.device) % folds
    return fold
