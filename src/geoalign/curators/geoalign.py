"""GeoAlign: replaces the rollouts that contradict the batch's consensus (Algorithm 1)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import BeforeValidator
from torch import Generator, Tensor

from geoalign.curators.curator import Curator, hidden_states
from geoalign.curators.precision import full_precision
from geoalign.curators.rectifying import TailConfig, declare_strategy, flag_sparse_tail, rectify
from geoalign.curators.saved_settings import check_state_keys
from geoalign.errors import ConfigError, InputError
from geoalign.intervals import Interval, clustered_proportion
from geoalign.method.consensus import Consensus, deviation_index, new_consensus
from geoalign.method.density import Tail
from geoalign.method.projector import ProjectorConfig
from geoalign.method.scoring import (
    CROSS_FIT_FOLDS,
    NO_GROUPS,
    PairedBatch,
    ScoredPairs,
    cosine_summary,
    paired_batch,
    score_cross_fit,
    score_in_sample,
    unscored,
)
from geoalign.settings import OpenShare, setting, settings
from geoalign.types import Curation, CurationDetails, DensityDetails, PairDetails, Rollouts

# Level of the pooled accuracy's interval among the metrics, where no gate sets one.
GATE_LEVEL = 0.95
# Calls whose groups the gate pools, and the groups that open it: two groups may both be right by chance.
GATE_CALLS = 5
GATE_GROUPS = 5
CHANCE = 0.5


def _from_json(value: Any) -> Any:
    """Lets a command line give a nested setting as JSON: '{"layers": 2}', or 'none'."""
    if isinstance(value, str):
        if value.strip().lower() in ("none", "null"):
            return None
        try:
            value = json.loads(value)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"expected a JSON object such as '{{\"layers\": 2}}' or 'none': {error}") from error
        if not isinstance(value, dict):
            raise ValueError("expected a JSON object such as '{\"layers\": 2}' or 'none', got other JSON")
    return value


if TYPE_CHECKING:
    _Projector = ProjectorConfig | None
else:
    # `str` stands in the union, second, for command lines: HfArgumentParser knows no nested settings and reads the type
    # `X | str | None` as text. It never survives validation.
    _Projector = Annotated[ProjectorConfig | str | None, BeforeValidator(_from_json)]


@settings
class GeoAlignConfig(TailConfig):
    """The settings of `GeoAlign` (Algorithm 1 and Eqs. 2 to 8)."""

    type: ClassVar[str] = "geoalign"

    aggregation: Literal["sum", "mean", "excess"] = setting(
        default="sum",
        help="GDI: sum (Eq. 7), mean, or sum in excess of the batch's mean, of a rollout's pair deviations.",
    )
    projector: _Projector = setting(
        default_factory=ProjectorConfig,
        help="Projector settings as JSON; 'none': score raw unit displacements.",
    )
    scoring: Literal["in_sample", "cross_fit"] = setting(
        default="in_sample", help="Score with a projector trained on all groups, or on the other folds."
    )
    consensus_gate: OpenShare | None = setting(
        default=None,
        help="Act only where the accuracy on new groups is above chance at this confidence; null: always.",
    )

    @classmethod
    def preset(cls, name: str, *, task: str, **overrides: Any) -> GeoAlignConfig:
        """The paper's settings for `task` "math" or "dialogue"; keywords override single values.

        `preset("paper", task=...)`: alpha 0.05 / 0.12, early stop at accuracy 0.95 / 0.85, no cap, no minimum
        count beyond what a density needs, all groups in every step.

        A mapping as `projector`, `projector={"layers": 4}`, overrides the single values that it names; a
        `ProjectorConfig` takes the preset's place, and None leaves the projector out.

        Raises:
            ConfigError: an unknown preset or task; a value out of range.
        """
        if name != "paper":
            raise ConfigError(f"preset: expected 'paper', got {name!r}")
        values = {"math": (0.05, 0.95), "dialogue": (0.12, 0.85)}
        if task not in values:
            raise ConfigError(f"task: expected one of {sorted(values)}, got {task!r}")
        alpha, target_accuracy = values[task]
        projector = overrides.pop("projector", {})
        if isinstance(projector, Mapping):
            projector = {"target_accuracy": target_accuracy, "groups_per_step": None, **projector}
        preset = {"alpha": alpha, "max_fraction": None, "min_scores": 2, "projector": projector}
        return cls(**{**preset, **overrides})


class GeoAlign(Curator[GeoAlignConfig]):
    """Geometric rollout curation (Algorithm 1 of the paper).

    In each group it draws the direction from every worse rollout's hidden state to every better one's (Eqs. 2 and 3),
    trains a small projector in which these directions agree (Eq. 4), takes their reward-weighted mean as the prototype
    (Eq. 5), sums each rollout's deviations from it (Eqs. 6 and 7), flags the rollouts in the sparse upper tail of that
    score, and puts stable rollouts of the same group in their place (Eq. 8).

    With `consensus_gate` it acts only while the orientation accuracy on groups never trained on, pooled over the last
    five calls that judged any, is above chance at that confidence; until then it scores and logs. Not in the paper.

    Needs `hidden`; heeds `response_keys`: rows of one key have no direction between them. Groups without a strict pair
    are unscored and unchanged; a batch without any pair is returned unchanged. A group whose flagged rollouts find no
    donor stays as it is and is counted.

    Attributes:
        judged: [2, G] of the last call's new groups, pairs that were ordered rightly and all pairs; no group where none
            was judged.

    Raises:
        InputError: `hidden` is missing, has fewer than two columns, or another width than in earlier calls.
    """

    headline = ("new_group_accuracy", "pairs")
    requires = ("hidden",)
    optional = ("response_keys",)
    pooled_batches = GATE_CALLS

    def __init__(self, config: GeoAlignConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self._width: int | None = None
        # One consensus, or one for each fold; empty before the first pair.
        self._consensus: list[Consensus] = []
        self.judged: Float[Tensor, "2 g"] = NO_GROUPS
        # `judged` of the last calls that judged any.
        self._gate: list[Tensor] = []

    def declare(self) -> None:
        """What happens to flagged rows, and how many scores it takes, are settings."""
        declare_strategy(self, self.config.strategy)
        self.min_scores = self.config.min_scores

    def curate(self, rollouts: Rollouts, *, generator: Generator | None = None, details: bool = False) -> Curation:
        """Scores the batch, and replaces (or weighs, drops, amplifies) its anomalous rollouts.

        The same rows and generator state give the same bits on the same CPU with as many threads; another order of the
        rows gives the same decisions up to rounding. On an accelerator the same holds as far as its libraries keep the
        order of their sums (`geoalign.method.arithmetic`).
        """
        started = time.perf_counter()
        generator = self.drawing_from(generator)
        with full_precision(rollouts):
            batch = paired_batch(rollouts, self._states(rollouts))
            scored = self._score(batch, generator)
            # Eqs. 6 and 7.
            deviation = 1 - scored.cosine
            scores = deviation_index(deviation, batch.pairs, len(rollouts), aggregation=self.config.aggregation)
            flags = flag_sparse_tail(scores, self.config)
            pooled_accuracy = self._pooled_accuracy(scored.counts)
            closed = self._gate_is_closed(pooled_accuracy)
            metrics = {
                **_batch_metrics(batch, scores),
                **scored.metrics,
                **cosine_summary("projected", scored.cosine),
                **pooled_accuracy.as_metrics("pooled_new_group_accuracy"),
                "gate_closed": float(closed),
            }
            curation = rectify(
                rollouts,
                batch.rows,
                scores,
                flags,
                strategy=None if closed else self.config.strategy,
                generator=generator,
                metrics=metrics,
            )
            if details:
                curation = replace(curation, details=self._details(batch, scored, flags.tail))
        return curation.with_metrics(seconds=time.perf_counter() - started)

    def _states(self, rollouts: Rollouts) -> Float[Tensor, "b d"]:
        """The hidden states of a batch, which are as wide as those of earlier calls."""
        hidden = hidden_states(rollouts, by="GeoAlign")
        width = hidden.shape[1]
        if self._width not in (None, width):
            raise InputError(f"hidden: expected {self._width} columns as in earlier calls, got {width}")
        self._width = width
        return hidden

    @property
    def _folds(self) -> int:
        """How many consensuses the scoring keeps: one, or one for each fold."""
        return CROSS_FIT_FOLDS if self.config.scoring == "cross_fit" else 1

    def _score(self, batch: PairedBatch, generator: Generator) -> ScoredPairs:
        """Every pair's cosine to its prototype; no pair at all where fewer groups have pairs than there are folds."""
        if batch.paired_groups < self._folds:
            return unscored(batch.pairs)
        projector = self.config.projector
        keeps_weights = projector is None or projector.warm_start
        earlier = self._consensus
        if not earlier or not keeps_weights:
            width = batch.states.shape[1]
            self._consensus = [new_consensus(width, projector, generator) for _ in range(self._folds)]
        if self.config.scoring == "cross_fit":
            return score_cross_fit(self._consensus, batch, generator)
        consensus = self._consensus[0]
        return score_in_sample(consensus, earlier[0] if earlier else consensus, batch, generator)

    def _pooled_accuracy(self, judged: Float[Tensor, "2 g"]) -> Interval:
        """The orientation accuracy on new groups, pooled over the last calls that judged any, this one among them."""
        self.judged = judged
        if judged.shape[1]:
            self._gate = [*self._gate, judged][-GATE_CALLS:]
        right, pairs = torch.cat([NO_GROUPS, *self._gate], dim=1).numpy()
        return clustered_proportion(right, pairs, level=self.config.consensus_gate or GATE_LEVEL)

    def _gate_is_closed(self, pooled_accuracy: Interval) -> bool:
        """Whether the curator has a gate, and the accuracy on new groups is too low to open it."""
        if self.config.consensus_gate is None:
            return False
        groups = sum(judged.shape[1] for judged in self._gate)
        return groups < GATE_GROUPS or not pooled_accuracy.low > CHANCE

    def _details(self, batch: PairedBatch, scored: ScoredPairs, tail: Tail | None) -> CurationDetails:
        """The pairs by input rows, and the density of the scores where there is one."""
        order = batch.rows.order
        pairs = batch.pairs
        density = None
        if tail is not None:
            points, heights = tail.estimate.curve()
            density = DensityDetails(
                grid=points.cpu(),
                density=heights.cpu(),
                peak=tail.peak,
                mode=tail.mode,
                alpha=self.config.alpha,
                threshold=tail.threshold,
            )
        of_pairs = PairDetails(
            winner=order[pairs.winner],
            loser=order[pairs.loser],
            margin=pairs.margin,
            deviation=1 - scored.cosine,
            raw_cosine=batch.raw_cosine,
            projected_cosine=scored.cosine,
        )
        return CurationDetails(pairs=of_pairs, density=density)

    def _learnt(self) -> dict[str, Any]:
        return {
            "width": self._width,
            "consensus": [consensus.state_dict() for consensus in self._consensus],
            "gate": list(self._gate),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        check_state_keys(state, ("width", "consensus", "gate"), by="GeoAlign")
        width = state["width"]
        folds = len(state["consensus"])
        if folds not in (0, self._folds):
            raise ConfigError(f"GeoAlign state: expected one of {self._folds} folds, got one of {folds}")
        restored = [new_consensus(int(width or 0), self.config.projector, Generator()) for _ in range(folds)]
        try:
            for consensus, saved in zip(restored, state["consensus"], strict=True):
                consensus.load_state_dict(saved)
        except (KeyError, RuntimeError) as error:
            raise ConfigError(f"GeoAlign state: expected projectors of its settings ({error})") from error
        self._width = width
        self._consensus = restored
        self._gate = list(state["gate"])


def _batch_metrics(batch: PairedBatch, scores: Float[Tensor, " b"]) -> dict[str, float]:
    """Counts of rows, groups and pairs, and a summary of the raw cosines."""
    sizes = batch.rows.sizes
    has_reward = (~batch.rewards.isnan()).long()
    rewards_of_group = torch.zeros_like(sizes).index_add(0, batch.rows.group, has_reward)
    return {
        "pairs": float(len(batch.pairs)),
        "scored_groups": float(batch.paired_groups),
        "scored_rollouts": float((~scores.isnan()).sum()),
        "zero_displacements": float(batch.identical),
        "unscored_rewards": float(batch.rewards.isnan().sum()),
        "single_groups": float((sizes == 1).sum()),
        "tied_groups": float((rewards_of_group > 1).sum() - batch.paired_groups),
        "chance_accuracy": CHANCE,
        **cosine_summary("raw", batch.raw_cosine),
    }
