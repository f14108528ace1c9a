"""Seed-GRPO: prompts on whose answer the policy is unsure count for less."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from geoalign.curators.base import Baseline
from geoalign.curators.batches import reweighted, rows_by_group
from geoalign.errors import InputError
from geoalign.method.intervals import mean_of
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts

_ALPHA = {"code": 0.0417, "paper_linear": 0.02, "paper_exp": 0.02}


def cluster_masses(logprobs: Float[Tensor, " n"], clusters: Int[Tensor, " n"]) -> Float[Tensor, " c"]:
    """The mass p_c of each cluster of one group: a softmax of the length-normalised log-probabilities, summed.

    Args:
        logprobs: [n] mean log-probability per token; equal values give the shares of the rollouts.
        clusters: [n] index of each rollout's cluster, from 0.
    """
    mass = torch.softmax(logprobs.double(), dim=0)
    return mass.new_zeros(int(clusters.max()) + 1).index_add(0, clusters, mass)


def semantic_entropy(masses: Float[Tensor, " c"], *, form: Literal["shannon", "paper"]) -> Float[Tensor, ""]:
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


def dense_labels(labels: Sequence[str | None]) -> Int[Tensor, " n"]:
    """Cluster indices of one group from answers: equal ones are one cluster, each None is a cluster of its own."""
    known: dict[object, int] = {}
    return torch.tensor(
        [known.setdefault(row if label is None else label, len(known)) for row, label in enumerate(labels)]
    )


def centred(states: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
    """The states of a batch less their mean, in float32.

    The states of a language model share a large offset, beside which all cosines are near one. The mean is the batch's
    and not the group's: responses that all mean the same differ from their own mean by noise alone, whose directions
    are arbitrary, but together from the responses to other prompts.
    """
    return (states.double() - states.double().mean(dim=0)).float()


def cosine_clusters(states: Float[Tensor, "n d"], threshold: float) -> Int[Tensor, " n"]:
    """Clusters of hidden states: those joined by a chain of cosines of at least `threshold` (single linkage).

    The order of the rows does not matter. Equal states are one cluster; a state of zero length has cosine 0 to all
    others. States should be `centred`.
    """
    unit = functional.normalize(states.float(), dim=1)
    equal = torch.cdist(states.float(), states.float(), compute_mode="donot_use_mm_for_euclid_dist") == 0
    joined = (unit @ unit.T >= threshold) | equal
    labels = torch.arange(len(states))
    for first, second in joined.triu(diagonal=1).nonzero().tolist():
        low, high = labels[[first, second]].sort().values
        labels[labels == high] = low
    return labels.unique(return_inverse=True)[1]


@settings
class SeedGRPOConfig:
    type: ClassVar[str] = "seed_grpo"

    mode: Literal["code", "paper_linear", "paper_exp"] = setting(
        default="code", help="How the entropy scales the advantages."
    )
    entropy: Literal["shannon", "paper"] = setting(
        default="shannon", help="-sum p log p, or the paper's Eq. 5: the mean of -log p over the clusters."
    )
    alpha: Annotated[float, Field(ge=0)] | None = setting(
        default=None, help="Strength; null: 0.0417 for 'code', 0.02 for the paper's modes."
    )
    mass: Literal["logprobs", "share"] = setting(
        default="logprobs", help="Weigh rollouts by their mean log-probability, or all alike."
    )
    clusters: Literal["answers", "hidden"] = setting(
        default="answers", help="Same final answer, or hidden states within a cosine of each other."
    )
    threshold: Annotated[float, Field(gt=-1, le=1)] = setting(
        default=0.95,
        help="Cosine from which two hidden states, less the mean of the batch, belong together.",
    )


class SeedGRPO(Baseline[SeedGRPOConfig]):
    """Semantic-entropy-aware GRPO (arXiv 2505.12346): scales a group's advantages by the entropy of its answers.

    Rollouts with the same final answer are one cluster, each without an answer one of its own; a cluster's mass is the
    softmax, over the group, of the mean log-probabilities, summed. With `clusters="hidden"` no answers are needed; any
    other labels can be given in their place. It acts after the advantage, as `weights`; every rollout of a group counts
    in its entropy, those without a reward too. A group of one has entropy 0 and scale 1. Hidden states are centred by
    the mean of the batch before they are compared, so that what all of them share does not make them all alike.
    """

    def __init__(self, config: SeedGRPOConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self.requires = (self.config.clusters, *(["logprobs"] if self.config.mass == "logprobs" else []))

    def _curate(self, rollouts: Rollouts, generator: torch.Generator | None) -> Curation:
        logprobs = self._logprobs(rollouts)
        states = None if self.config.clusters == "answers" else centred(_cpu(rollouts.hidden))
        alpha = _ALPHA[self.config.mode] if self.config.alpha is None else self.config.alpha
        weights = torch.ones(len(rollouts))
        entropies, scales, counts = [], [], []
        for rows in rows_by_group(rollouts.groups):
            if states is None:
                assert rollouts.answers is not None
                clusters = dense_labels([rollouts.answers[row] for row in rows.tolist()])
            else:
                clusters = cosine_clusters(states[rows], self.config.threshold)
            masses = cluster_masses(logprobs[rows], clusters)
            entropies.append(float(semantic_entropy(masses, form=self.config.entropy)))
            scales.append(entropy_scale(entropies[-1], len(rows), mode=self.config.mode, alpha=alpha))
            counts.append(float(len(masses)))
            weights[rows] = scales[-1]
        metrics = {"entropy": mean_of(entropies), "scale": mean_of(scales), "clusters": mean_of(counts)}
        return reweighted(rollouts, weights, metrics)

    def _logprobs(self, rollouts: Rollouts) -> Float[Tensor, " b"]:
        if self.config.mass == "share":
            return torch.zeros(len(rollouts))
        logprobs = _cpu(rollouts.logprobs).double()
        bad = (~logprobs.isfinite()).nonzero()
        if len(bad):
            row = int(bad[0])
            raise InputError(f"SeedGRPO: expected finite logprobs, got {float(logprobs[row])} in row {row}")
        return logprobs


def _cpu(field: Tensor | None) -> Tensor:
    assert field is not None
    return field.cpu()
