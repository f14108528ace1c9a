"""The semantic entropy of a group's answers, and how Seed-GRPO scales advantages by it (arXiv 2505.12346)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional


def cluster_masses(logprobs: Float[Tensor, " n"], clusters: Int[Tensor, " n"]) -> Float[Tensor, " c"]:
    """The mass p_c of each cluster of one group: a softmax of the length-normalised log-probabilities, summed.

    Args:
        logprobs: [n] mean log-probability per token; equal values give the shares of the rollouts.
        clusters: [n] index of each rollout's cluster, from 0.
    """
    mass = torch.softmax(logprobs.double(), dim=0)
    return mass.new_zeros(int(clusters.max()) + 1).index_add(0, clusters, mass)


def semantic_entropy(
    masses: Float[Tensor, " c"], *, form: Literal["shannon", "paper"] = "shannon"
) -> Float[Tensor, ""]:
    """H = -sum p log p, or (form "paper", Eq. 5) the mean of -log p over the clusters; 0 for one cluster."""
    if form == "paper":
        return -masses.log().mean()
    return -torch.xlogy(masses, masses).sum()


def entropy_scale(
    entropy: float, size: int, *, mode: Literal["code", "paper_linear", "paper_exp"], alpha: float
) -> float:
    """The factor on the advantages of a group of `size` rollouts; 1 for a group of one.

    "code": 1 / (1 + a H) with a = alpha / log G. "paper_linear": 1 - alpha H / log G, not below 0. "paper_exp":
    exp(-alpha H / log G).
    """
    if size < 2:
        return 1.0
    relative = alpha * entropy / math.log(size)
    if mode == "code":
        return 1 / (1 + relative)
    return max(0.0, 1 - relative) if mode == "paper_linear" else math.exp(-relative)


def dense_labels(labels: Sequence[object]) -> Int[Tensor, " n"]:
    """Cluster indices of one group from labels: equal labels are one cluster, each None is a cluster of its own."""
    known: dict[object, int] = {}
    dense = []
    for row, label in enumerate(labels):
        # A key that no label can equal keeps a missing answer apart from all others.
        dense.append(known.setdefault(("missing", row) if label is None else ("label", label), len(known)))
    return torch.tensor(dense, dtype=torch.long)


def centred(states: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
    """The states of a batch less their mean, in float32.

    The states of a language model share a large offset, beside which all cosines are near one. The mean is the batch's
    and not the group's: responses that all mean the same differ from their own mean by noise alone, whose directions
    are arbitrary, but together from the responses to other prompts. In a batch of one group there are no others, and
    the two are the same.
    """
    return (states.double() - states.double().mean(dim=0)).float()


def cosine_clusters(states: Float[Tensor, "n d"], threshold: float) -> list[int]:
    """Clusters of hidden states: those joined by a chain of cosines of at least `threshold` (single linkage).

    The order of the rows does not matter. Equal states are one cluster; a state of zero length has cosine 0 to all
    others. States should be `centred`.
    """
    unit = functional.normalize(states.float(), dim=1)
    equal = torch.cdist(states.float(), states.float(), compute_mode="donot_use_mm_for_euclid_dist") == 0
    joined = (unit @ unit.T >= threshold) | equal
    labels = list(range(len(states)))
    for first, second in joined.triu(diagonal=1).nonzero().tolist():
        low, high = sorted((labels[first], labels[second]))
        if low != high:
            labels = [low if label == high else label for label in labels]
    return labels
