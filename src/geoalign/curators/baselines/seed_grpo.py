"""Seed-GRPO: prompts on whose answer the policy is unsure count for less."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator
from geoalign.curators.batches import mean_of, reweighted, rows_by_group
from geoalign.curators.precision import full_precision
from geoalign.errors import ConfigError, InputError
from geoalign.method.semantic_entropy import (
    centred,
    cluster_masses,
    cosine_clusters,
    dense_labels,
    entropy_scale,
    semantic_entropy,
)
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts

# One label per row; rows of a group with equal labels mean the same, None means nothing another row means.
Clustering = Callable[[Rollouts], Sequence[object] | Tensor]
_ALPHA = {"code": 0.0417, "paper_linear": 0.02, "paper_exp": 0.02}


@settings
class SeedGRPOConfig:
    """The settings of `SeedGRPO` (arXiv 2505.12346)."""

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


class SeedGRPO(Curator[SeedGRPOConfig]):
    """Semantic-entropy-aware GRPO (arXiv 2505.12346): scales a group's advantages by the entropy of its answers.

    Rollouts with the same final answer are one cluster, each without an answer one of its own; a cluster's mass is the
    softmax, over the group, of the mean log-probabilities, summed. With `clusters="hidden"`, or with a function given
    as `clustering`, no answers are needed. It acts after the advantage, as `weights`; every rollout of a group counts
    in its entropy, those without a reward too. A group of one has entropy 0 and scale 1. Hidden states are centred by
    the mean of the batch before they are compared, so that what all of them share does not make them all alike.

    Args:
        clustering: takes the rollouts and returns one label per row; wins over the setting `clusters`.

    Raises:
        InputError: there are no answers and no clustering, no log-probabilities (unless `mass="share"`), or one that is
            not finite, or a wrong number of labels.
    """

    def __init__(
        self, config: SeedGRPOConfig | None = None, *, clustering: Clustering | None = None, **settings: Any
    ) -> None:
        super().__init__(config, **settings)
        if clustering is not None and not callable(clustering):
            raise ConfigError(
                f"SeedGRPO: expected clustering to be a function of the rollouts, got {type(clustering).__name__}"
            )
        self._clustering = clustering
        labels = () if clustering is not None else ("answers",) if self.config.clusters == "answers" else ("hidden",)
        self.requires = (*labels, "logprobs") if self.config.mass == "logprobs" else labels

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Weighs the groups; draws nothing from `generator`."""
        rollouts.require(*self.requires, by=self._name())
        with full_precision(rollouts):
            logprobs = self._logprobs(rollouts)
            labels = self._labels(rollouts)
            weights = torch.ones(len(rollouts))
            entropies, scales, counts = [], [], []
            alpha = _ALPHA[self.config.mode] if self.config.alpha is None else self.config.alpha
            for rows in rows_by_group(rollouts.groups):
                clusters = dense_labels([labels[row] for row in rows.tolist()])
                masses = cluster_masses(logprobs[rows], clusters)
                entropy = float(semantic_entropy(masses, form=self.config.entropy))
                scale = entropy_scale(entropy, len(rows), mode=self.config.mode, alpha=alpha)
                weights[rows] = scale
                entropies.append(entropy)
                scales.append(scale)
                counts.append(float(len(masses)))
        metrics = {"entropy": mean_of(entropies), "scale": mean_of(scales), "clusters": mean_of(counts)}
        return reweighted(rollouts, weights, metrics)

    def _name(self) -> str:
        needs_answers = self._clustering is None and self.config.clusters == "answers"
        return "SeedGRPO (without a clustering function)" if needs_answers else "SeedGRPO"

    def _logprobs(self, rollouts: Rollouts) -> Float[Tensor, " b"]:
        if self.config.mass == "share":
            return torch.zeros(len(rollouts))
        logprobs = rollouts.logprobs
        assert logprobs is not None
        bad = ~logprobs.isfinite()
        if bad.any():
            row = int(bad.nonzero()[0])
            raise InputError(f"SeedGRPO: expected finite logprobs, got {float(logprobs[row])} in row {row}")
        return logprobs.cpu().double()

    def _labels(self, rollouts: Rollouts) -> Sequence[object]:
        if self._clustering is not None:
            labels = self._clustering(rollouts)
            labels = labels.tolist() if isinstance(labels, Tensor) else list(labels)
            if len(labels) != len(rollouts):
                raise InputError(f"SeedGRPO: expected {len(rollouts)} labels from clustering, got {len(labels)}")
            return labels
        if self.config.clusters == "answers":
            assert rollouts.answers is not None
            return rollouts.answers
        assert rollouts.hidden is not None
        states = centred(rollouts.hidden.cpu())
        clusters: list[object] = [None] * len(rollouts)
        for rows in rows_by_group(rollouts.groups):
            for row, label in zip(rows.tolist(), cosine_clusters(states[rows], self.config.threshold), strict=True):
                clusters[row] = label
        return clusters
