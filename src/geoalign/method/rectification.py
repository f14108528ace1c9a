"""Replacing an anomalous rollout by another of its group (Eq. 8 and the ablations of the appendix)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def best_random_odds(rewards: Float[Tensor, " n"], generator: torch.Generator) -> Float[Tensor, " n"]:
    """Eq. 8: the best donor has probability 0.5, every other 0.5 / (n - 1); a single donor is certain.

    Of several best donors one, drawn anew each time, counts as the best.
    """
    if len(rewards) == 1:
        return torch.ones(1, dtype=torch.float32)
    ties = (rewards == rewards.max()).nonzero()[:, 0].cpu()
    odds = torch.full((len(rewards),), 0.5 / (len(rewards) - 1), dtype=torch.float32)
    odds[ties[torch.randint(len(ties), (1,), generator=generator)]] = 0.5
    return odds


def replace(
    rewards: Float[Tensor, " b"],
    group: Int[Tensor, " b"],
    anomalous: Bool[Tensor, " b"],
    donors: Bool[Tensor, " b"],
    generator: torch.Generator,
    *,
    odds: Callable[[Tensor, torch.Generator], Tensor] = best_random_odds,
) -> tuple[Int[Tensor, " b"], int]:
    """Replaces each anomalous row by a donor of its own group, drawn with replacement by `odds` (Best-Random, Eq. 8).

    Rows are sorted by group, as in `GroupedRows`. A group without a donor stays as it is and is counted. What decides
    is fetched to the CPU at once: row by row an accelerator would be waited for hundreds of times.

    Returns:
        [B] the row that stands in each place, and the number of groups in which an anomalous row had no donor.
    """
    rewards_on_cpu = rewards.cpu()
    source = torch.arange(len(rewards))
    groups_without_donor = 0
    for victims, candidates in _by_group(group, anomalous, donors):
        if not len(candidates):
            groups_without_donor += 1
            continue
        offered = rewards_on_cpu[candidates]
        for victim in victims.tolist():
            drawn = torch.multinomial(odds(offered, generator), 1, generator=generator)
            source[victim] = candidates[int(drawn)]
    return source.to(rewards.device), groups_without_donor


def amplify(
    group: Int[Tensor, " b"],
    anomalous: Bool[Tensor, " b"],
    stable: Bool[Tensor, " b"],
    generator: torch.Generator,
) -> tuple[Int[Tensor, " b"], int]:
    """Anomaly-Amplify: each anomalous row overwrites one uniformly drawn stable row of its group, none twice.

    Returns:
        [B] the row that stands in each place, and the number of groups in which the stable rows did not suffice.
    """
    source = torch.arange(len(group))
    groups_short_of_rows = 0
    for intruders, candidates in _by_group(group, anomalous, stable):
        if len(candidates) < len(intruders):
            groups_short_of_rows += 1
        shuffled = torch.randperm(len(candidates), generator=generator)
        overwritten = candidates[shuffled[: len(intruders)]]
        source[overwritten] = intruders[: len(overwritten)]
    return source.to(group.device), groups_short_of_rows


def rows_with_partner(
    group: Int[Tensor, " b"], anomalous: Bool[Tensor, " b"], stable: Bool[Tensor, " b"]
) -> tuple[Bool[Tensor, " b"], int]:
    """The anomalous rows whose group has a stable one, and the number of groups in which there is none."""
    groups = int(group.max()) + 1 if len(group) else 0
    has_stable = torch.zeros(groups, dtype=torch.bool, device=group.device)
    has_stable[group[stable]] = True
    has_anomalous = torch.zeros_like(has_stable)
    has_anomalous[group[anomalous]] = True
    return anomalous & has_stable[group], int((has_anomalous & ~has_stable).sum())


def _by_group(group: Tensor, first: Tensor, second: Tensor) -> list[tuple[Tensor, Tensor]]:
    """For each group with rows in `first`: those rows, and the group's rows in `second`; on the CPU."""
    group = group.cpu()
    first = first.cpu()
    second = second.cpu()
    rows = []
    for number in group[first].unique().tolist():
        members = group == number
        in_first = (members & first).nonzero()[:, 0]
        in_second = (members & second).nonzero()[:, 0]
        rows.append((in_first, in_second))
    return rows
