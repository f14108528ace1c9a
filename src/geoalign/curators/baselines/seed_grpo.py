"""Seed-GRPO: prompts on whose answer the policy is unsure count for less."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Generator, Tensor
from torch.nn import functional

from geoalign.curators.baselines.baseline import Baseline, reweighted, rows_by_group
from geoalign.errors import InputError
from geoalign.intervals import mean_of
from geoalign.method.arithmetic import full_product
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts

_ALPHA = {"code": 0.0417, "paper_linear": 0.02, "paper_exp": 0.02}


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
    joined = (full_product(unit, unit.T) >= threshold) | equal
    labels = torch.arange(len(states))
    for first, second in joined.triu(diagonal=1).nonzero().tolist():
        low, high = labels[[first, second]].sort().values
        labels[labels == high] = low
    return labels.unique(return_inverse=True)[1]


@settings
class SeedGRPOConfig:
    type: ClassVar[str] = "seed_grpo"

    mode: Literal["code", "paper_linear", "paper_exp"] = setting(default="code", help="How entropy scales advantages.")
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

    Rollouts with the same final answer are one cluster, each without an answer one of its own; a cluster's mass p is
    the softmax, over the group, of the mean log-probabilities, summed, and H = -sum p log p. With `clusters="hidden"`
    no answers are needed; any other labels can be given in their place. It acts after the advantage, as `weights`;
    every rollout of a group counts in its entropy, those without a reward too. Hidden states are centred by the mean of
    the batch before they are compared, so that what all share does not make them alike. A group of one has weight 1.

    A rollout without a token of the policy's own has no log-probability (NaN). It is no evidence of how unsure the
    policy is: it is left out of the entropy and of G, and counted in `rows_without_logprob`. It gets the weight of its
    group; a group of such rollouts alone has weight 1, and is left out of the metrics.

    Raises:
        InputError: a log-probability is infinite; the message names the row.
    """

    headline = ("entropy", "scale")
    acts_on = ("weights",)
    scores_rows = False

    def declare(self) -> None:
        """What it clusters by, and log-probabilities where they weigh the rollouts."""
        self.requires = (self.config.clusters,)
        if self.config.mass == "logprobs":
            self.requires = (self.config.clusters, "logprobs")

    def _curate(self, rollouts: Rollouts, generator: Generator | None) -> Curation:
        logprobs = self._logprobs(rollouts)
        known = ~logprobs.isnan()
        hidden = rollouts.hidden
        states = None if self.config.clusters == "answers" or hidden is None else centred(hidden)
        alpha = _ALPHA[self.config.mode] if self.config.alpha is None else self.config.alpha
        weights = torch.ones(len(rollouts), dtype=torch.float32)
        entropies = []
        scales = []
        counts = []
        for members in rows_by_group(rollouts.groups):
            rows = members[known[members]]
            if not len(rows):
                continue
            if states is not None:
                clusters = cosine_clusters(states[rows], self.config.threshold)
            else:
                clusters = self._answer_clusters(rollouts, rows)
            # p of a cluster: the softmax of the log-probabilities over the group, summed; H = -sum p log p.
            mass = torch.softmax(logprobs[rows].double(), dim=0)
            masses = mass.new_zeros(int(clusters.max()) + 1).index_add(0, clusters, mass)
            entropy = float(-torch.xlogy(masses, masses).sum())
            scale = entropy_scale(entropy, len(rows), mode=self.config.mode, alpha=alpha)
            weights[members] = scale
            entropies.append(entropy)
            scales.append(scale)
            counts.append(float(len(masses)))
        metrics = {
            "entropy": mean_of(entropies),
            "scale": mean_of(scales),
            "clusters": mean_of(counts),
            "rows_without_logprob": float((~known).sum()),
        }
        return reweighted(rollouts, weights, metrics)

    def _answer_clusters(self, rollouts: Rollouts, rows: Int[Tensor, " n"]) -> Int[Tensor, " n"]:
        """The cluster of each of these rows: equal for equal answers, its own for a row without one."""
        assert rollouts.answers is not None
        numbers: dict[object, int] = {}
        clusters = []
        for row in rows.tolist():
            answer = rollouts.answers[row]
            label = row if answer is None else answer
            clusters.append(numbers.setdefault(label, len(numbers)))
        return torch.tensor(clusters)

    def _logprobs(self, rollouts: Rollouts) -> Float[Tensor, " b"]:
        """[B] the mean log-probabilities, all 0 for equal masses; NaN where a row has no token of the policy's own."""
        if self.config.mass == "share":
            return torch.zeros(len(rollouts))
        assert rollouts.logprobs is not None
        logprobs = rollouts.logprobs.double()
        infinite = logprobs.isinf().nonzero()
        if len(infinite):
            row = int(infinite[0])
            raise InputError(
                f"SeedGRPO: expected finite logprobs, or NaN for a row without a token of the policy's own; got "
                f"{float(logprobs[row])} in row {row}"
            )
        return logprobs
