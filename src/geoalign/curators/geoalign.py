"""GeoAlign: replaces the rollouts that contradict the batch's consensus (Algorithm 1)."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Float
from pydantic import BeforeValidator, Field
from torch import Generator, Tensor

from geoalign.curators.curator import Curator, check_state_keys, hidden_states
from geoalign.curators.precision import full_precision
from geoalign.curators.rectifying import TailConfig, declare_strategy, flag_sparse_tail, rectify
from geoalign.errors import ConfigError, InputError
from geoalign.intervals import clustered_proportion
from geoalign.method.consensus import (
    Consensus,
    deviation_index,
    new_consensus,
    prototype_weights,
    raw_cosines,
    raw_prototype,
)
from geoalign.method.density import Tail
from geoalign.method.groups import GroupedRows, canonical_order
from geoalign.method.pairs import Pairs, centred_states, preference_pairs, with_distances
from geoalign.method.projector import ProjectorConfig
from geoalign.method.scoring import NO_GROUPS, ScoredPairs, cosine_summary, score_cross_fit, score_in_sample, unscored
from geoalign.settings import Count, OpenShare, setting, settings
from geoalign.types import Curation, CurationDetails, DensityDetails, PairDetails, Rollouts

# Of the pooled accuracy's interval in the metrics, where no gate sets one.
GATE_LEVEL = 0.95
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
    margin_weighted_prototype: bool = setting(default=True, help="Weigh pairs by margin in the prototype (Eq. 5).")
    projector: _Projector = setting(
        default_factory=ProjectorConfig,
        help="Projector settings as JSON; 'none': score raw unit displacements.",
    )
    scoring: Literal["in_sample", "cross_fit"] = setting(
        default="in_sample", help="Score with a projector trained on all groups, or on the other folds."
    )
    start_step: Annotated[int, Field(ge=0)] = setting(
        default=0, help="Batches with a reward that are only observed, before any change."
    )
    consensus_gate: OpenShare | None = setting(
        default=None,
        help="Act only where the accuracy on new groups is above chance at this confidence; null: always.",
    )
    gate_window: Count = setting(default=5, help="Calls with new groups that are pooled for the consensus gate.")

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
        projector = {"target_accuracy": target_accuracy, "groups_per_step": None, "early_stop": "paper"}
        given = overrides.pop("projector", {})
        projector = {**projector, **given} if isinstance(given, Mapping) else given
        preset = {"alpha": alpha, "max_fraction": None, "min_scores": 2, "projector": projector}
        return cls(**{**preset, **overrides})


class PairedBatch(NamedTuple):
    """A batch in sorted order, on the device of its states, with its pairs and their cosines to their raw prototype.

    `identical` is the number of pairs without a direction between the responses, which are left out.
    """

    rows: GroupedRows
    rewards: Float[Tensor, " b"]
    states: Float[Tensor, "b d"]
    pairs: Pairs
    weights: Float[Tensor, " p"]
    identical: int
    raw_cosine: Float[Tensor, " p"]


def paired_batch(rollouts: Rollouts, hidden: Float[Tensor, "b d"], *, margin_weighted: bool) -> PairedBatch:
    """Sorts the batch and forms its pairs; `margin_weighted`: their reward margins weigh them in the prototype."""
    rewards, groups = rollouts.rewards.to(hidden.device), rollouts.groups.to(hidden.device)
    rows = canonical_order(rewards, groups, hidden)
    rewards = rewards[rows.order]
    states, length = centred_states(hidden, rows)
    every, directed = with_distances(preference_pairs(rewards, rows), states, length, rows)
    if rollouts.response_keys is not None:
        # Padding leaves the states of one response apart by rounding, which is no direction.
        keys = rollouts.response_keys.to(hidden.device)[rows.order]
        directed = directed & (keys[every.winner] != keys[every.loser])
    pairs = every.take(directed)
    weights = prototype_weights(pairs.margin, margin_weighted)
    cosine = raw_cosines(states, pairs, raw_prototype(states, pairs, weights))
    return PairedBatch(rows, rewards, states, pairs, weights, len(every) - len(pairs), cosine)


def _batch_metrics(batch: PairedBatch, scores: Float[Tensor, " b"]) -> dict[str, float]:
    """Counts of rows, groups and pairs, and a summary of the raw cosines."""
    pairs, sizes = batch.pairs, batch.rows.sizes
    scored = batch.rows.group.new_zeros(len(sizes)).index_add(0, batch.rows.group, (~batch.rewards.isnan()).long())
    paired = len(pairs.group.unique_consecutive())
    return {
        "pairs": float(len(pairs)),
        "scored_groups": float(paired),
        "scored_rollouts": float((~scores.isnan()).sum()),
        "zero_displacements": float(batch.identical),
        "unscored_rewards": float(batch.rewards.isnan().sum()),
        "single_groups": float((sizes == 1).sum()),
        "tied_groups": float((scored > 1).sum() - paired),
        "chance_accuracy": CHANCE,
        **cosine_summary("raw", batch.raw_cosine),
    }


class GeoAlign(Curator[GeoAlignConfig]):
    """Geometric rollout curation (Algorithm 1 of the paper).

    In each group it draws the direction from every worse rollout's hidden state to every better one's (Eqs. 2 and 3),
    trains a small projector in which these directions agree (Eq. 4), takes their reward-weighted mean as the prototype
    (Eq. 5), sums each rollout's deviations from it (Eqs. 6 and 7), flags the rollouts in the sparse upper tail of that
    score, and puts stable rollouts of the same group in their place (Eq. 8).

    With `consensus_gate` it acts only while the orientation accuracy on groups never trained on, pooled over the last
    `gate_window` calls, is above chance at that confidence; until then it scores and logs. Not in the paper.

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

    def __init__(self, config: GeoAlignConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self._calls = 0
        self._width: int | None = None
        self._consensus: list[Consensus] = []
        self.judged: Float[Tensor, "2 g"] = NO_GROUPS
        # The same of the last calls that judged any.
        self._gate: list[Tensor] = []

    def declare(self) -> None:
        """What happens to flagged rows, how many scores it takes and what the gate pools are settings."""
        declare_strategy(self, self.config.strategy)
        self.min_scores = self.config.min_scores
        self.pooled_batches = self.config.gate_window

    def curate(self, rollouts: Rollouts, *, generator: Generator | None = None, details: bool = False) -> Curation:
        """Scores the batch, and replaces (or weighs, drops, amplifies) its anomalous rollouts.

        The same rows and generator state give the same bits on the same CPU with as many threads; another order of the
        rows gives the same decisions up to rounding. On an accelerator the same holds as far as its libraries keep the
        order of their sums (`geoalign.method.arithmetic`).
        """
        started = time.perf_counter()
        generator = self.drawing_from(generator)
        with full_precision(rollouts):
            hidden = hidden_states(rollouts, by="GeoAlign")
            if self._width not in (None, hidden.shape[1]):
                raise InputError(f"hidden: expected {self._width} columns as in earlier calls, got {hidden.shape[1]}")
            self._width = hidden.shape[1]
            batch = paired_batch(rollouts, hidden, margin_weighted=self.config.margin_weighted_prototype)
            scored = self._score(batch, generator)
            deviation = 1 - scored.cosine
            scores = deviation_index(deviation, batch.pairs, len(rollouts), aggregation=self.config.aggregation)
            flags = flag_sparse_tail(scores, self.config)
            self.judged = scored.counts
            if self.judged.shape[1]:
                self._gate = [*self._gate, self.judged][-self.config.gate_window :]
            gate = self.config.consensus_gate
            pooled = clustered_proportion(*torch.cat([NO_GROUPS, *self._gate], dim=1).numpy(), level=gate or GATE_LEVEL)
            # Fewer than five judged groups, or none, say nothing: two are both right by chance, without any spread.
            closed = gate is not None and not (pooled.low > CHANCE and sum(each.shape[1] for each in self._gate) >= 5)
            observing = self._calls < self.config.start_step or closed
            # A batch without a single reward shows nothing.
            if bool((~batch.rewards.isnan()).any()):
                self._calls += 1
            curation = rectify(
                rollouts,
                batch.rows,
                scores,
                flags,
                strategy=self.config.strategy,
                observing=observing,
                generator=generator,
                metrics={
                    **_batch_metrics(batch, scores),
                    **scored.metrics,
                    **cosine_summary("projected", scored.cosine),
                    **pooled.named("pooled_new_group_accuracy"),
                    "gate_closed": float(closed),
                },
                details=self._details(batch, scored, flags.tail) if details else None,
            )
        return curation.with_metrics(seconds=time.perf_counter() - started)

    def _learnt(self) -> dict[str, Any]:
        return {
            "calls": self._calls,
            "width": self._width,
            "consensus": [consensus.state_dict() for consensus in self._consensus],
            "gate": list(self._gate),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        check_state_keys(state, ("calls", "width", "consensus", "gate"), by="GeoAlign")
        width, folds = state["width"], len(state["consensus"])
        if folds not in (0, self._folds):
            raise ConfigError(f"GeoAlign state: expected one of {self._folds} folds, got one of {folds}")
        restored = [new_consensus(int(width or 0), self.config.projector, Generator()) for _ in range(folds)]
        try:
            for consensus, saved in zip(restored, state["consensus"], strict=True):
                consensus.load_state_dict(saved)
        except (KeyError, RuntimeError) as error:
            raise ConfigError(f"GeoAlign state: expected projectors of its settings ({error})") from error
        self._gate = list(state["gate"])
        self._calls, self._width, self._consensus = int(state["calls"]), width, restored

    @property
    def _folds(self) -> int:
        """How many consensus the scoring keeps."""
        return (self.config.projector or ProjectorConfig()).folds if self.config.scoring == "cross_fit" else 1

    def _score(self, batch: PairedBatch, generator: Generator) -> ScoredPairs:
        """Every pair's cosine to its prototype; no pair at all where there are fewer paired groups than needed."""
        config, pairs = self.config, batch.pairs
        if len(pairs.group.unique_consecutive()) < self._folds:
            return unscored(pairs)
        earlier, width = self._consensus, batch.states.shape[1]
        if not (earlier and (config.projector is None or config.projector.warm_start)):
            self._consensus = [new_consensus(width, config.projector, generator) for _ in range(self._folds)]
        parts = (batch.states, batch.rows, pairs, batch.weights, generator)
        if config.scoring == "cross_fit":
            return score_cross_fit(self._consensus, *parts)
        return score_in_sample(self._consensus[0], (earlier or self._consensus)[0], *parts)

    def _details(self, batch: PairedBatch, scored: ScoredPairs, tail: Tail | None) -> CurationDetails:
        order, pairs = batch.rows.order, batch.pairs
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
        return CurationDetails(
            pairs=PairDetails(
                winner=order[pairs.winner],
                loser=order[pairs.loser],
                margin=pairs.margin,
                deviation=1 - scored.cosine,
                raw_cosine=batch.raw_cosine,
                projected_cosine=scored.cosine,
            ),
            density=density,
        )
