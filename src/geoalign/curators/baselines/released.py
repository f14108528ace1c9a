"""What the authors' released code does, built from the same blocks, so that both can be compared on the same rollouts.

Source: repository SYSUzhouting/Trinity-RFT, commit 9cecab1, `trinity/buffer/operators/filters/`. Only its defined
behaviour is reproduced: the watcher process, the polled files and the reward of -100 for a failed service are not.
"""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from pydantic import model_validator
from torch import Generator, Tensor, nn
from torch.nn import functional

from geoalign.curators.baselines.baseline import Baseline, with_rows
from geoalign.method.arithmetic import full_linear, full_product, take_rows
from geoalign.method.consensus import deviation_index
from geoalign.method.density import cap_highest, floor_share, sparse_tail
from geoalign.method.distillation import BLOCK
from geoalign.method.groups import canonical_order, in_input_order
from geoalign.method.pairs import Pairs, preference_pairs
from geoalign.method.projector import new_linear
from geoalign.method.rectification import replace
from geoalign.method.ties import power_of_two, tied_rewards
from geoalign.settings import Count, OpenShare, Positive, PositiveShare, Several, Share, setting, settings
from geoalign.types import Curation, Rollouts


@settings
class GeoAlignReleasedConfig:
    """The settings of `GeoAlignReleased`: the values of the authors' released code."""

    type: ClassVar[str] = "geoalign_released"

    alpha: OpenShare = setting(default=0.05, help="Density share of the threshold.")
    output_dim: Several = setting(default=512, help="Width of the projected space.")
    dropout: Share = setting(default=0.1, help="Dropout while training.")
    min_epochs: Count = setting(default=50, help="Epochs before an early stop.")
    max_epochs: Count = setting(default=100, help="Epochs at most.")
    batch_size: Count = setting(default=1024, help="Pairs per training batch.")
    learning_rate: Positive = setting(default=1e-4, help="Initial Adam learning rate.")
    holdout: OpenShare = setting(default=0.1, help="Share of pairs held out.")
    target_accuracy: PositiveShare = setting(default=0.85, help="Early stop past min_epochs at this held-out accuracy.")
    max_fraction: PositiveShare = setting(default=0.2, help="At most this share of the scored rollouts is anomalous.")
    min_scores: Several = setting(default=100, help="With fewer scores nothing is flagged.")

    @model_validator(mode="after")
    def _epochs_in_order(self) -> GeoAlignReleasedConfig:
        if self.max_epochs < self.min_epochs:
            raise ValueError(f"max_epochs: expected at least min_epochs = {self.min_epochs}, got {self.max_epochs}")
        return self


class ReleasedNetwork(nn.Module):
    """d -> d/2 -> `output_dim`, ReLU on the output too, dropout behind the first; a linear head for the orientation."""

    def __init__(self, d: int, output_dim: int, dropout: float, generator: Generator) -> None:
        super().__init__()
        self.first = new_linear(d, max(1, d // 2), generator)
        self.second = new_linear(max(1, d // 2), min(output_dim, d), generator)
        self.head = new_linear(min(output_dim, d), 1, generator)
        self.dropout = dropout

    def project(self, difference: Float[Tensor, "p h"], generator: Generator | None = None) -> Tensor:
        """[p, d'] the projection, from W h_k - W h_l; with a generator, dropout is on."""
        hidden = functional.relu(difference + self.first.bias)
        if generator is not None and self.dropout > 0:
            kept = torch.rand(hidden.shape, generator=generator, dtype=torch.float32) >= self.dropout
            hidden = hidden * kept.to(hidden) / (1 - self.dropout)
        return functional.relu(full_linear(hidden, self.second.weight, self.second.bias))

    def logit(self, projected: Float[Tensor, "p o"]) -> Float[Tensor, " p"]:
        """What the head says of the orientation of each pair."""
        return full_linear(projected, self.head.weight, self.head.bias)[:, 0]


class GeoAlignReleased(Baseline[GeoAlignReleasedConfig]):
    """GeoAlign as the released code runs it (the column "authors' code" of the table in docs/method.md).

    Raw differences instead of unit displacements; a fresh two-layer network with ReLU output in every call, trained in
    epochs of batches with a margin-weighted loss, the weights of the best validation accuracy kept; an unweighted
    prototype; everything beyond the first sparse grid point (or mean + 2 standard deviations) is anomalous, at most 20%
    of the scored rollouts; Best-Random with weights 0.5 for every best and 0.1 for every other donor.

    Needs `hidden`. Keeps no state from call to call. Below `min_scores` scored rollouts nothing is flagged.
    """

    headline = ("heldout_pair_accuracy", "pairs")

    requires = ("hidden",)
    acts_on = ("rows",)
    on_device = True

    def declare(self) -> None:
        """How many scores it takes is a setting."""
        self.min_scores = self.config.min_scores

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        hidden = rollouts.hidden
        assert hidden is not None
        started = time.perf_counter()
        rewards = rollouts.rewards.to(hidden.device)
        rows = canonical_order(rewards, rollouts.groups.to(hidden.device), hidden)
        rewards = tied_rewards(rewards[rows.order], rows.group)
        states = hidden[rows.order].float()
        pairs = preference_pairs(rewards, rows)
        metrics = {"pairs": float(len(pairs)), "projector_steps": 0.0, "heldout_pair_accuracy": torch.nan}
        deviation = states.new_zeros(0)
        if len(pairs):
            network, trained = self._train(states, pairs, generator)
            metrics.update(trained)
            deviation = 1 - _cosines(network, states, pairs)
        scores = deviation_index(deviation, pairs, len(rollouts), aggregation="sum")
        anomalous = self._flag(scores)
        stable = ~anomalous & ~rewards.isnan()
        if rollouts.donor_ok is not None:
            stable &= rollouts.donor_ok.to(stable.device)[rows.order]
        source, without = replace(rewards, rows.group, anomalous, stable, generator, odds=_released_odds)
        back = in_input_order(rows, rollouts.rewards.device)
        metrics.update(
            scored_groups=float(len(pairs.group.unique())),
            scored_rollouts=float((~scores.isnan()).sum()),
            too_few_scores=float((~scores.isnan()).sum() < self.config.min_scores),
            replaced=float((source != torch.arange(len(source), device=source.device)).sum()),
            groups_without_donor=float(without),
            seconds=time.perf_counter() - started,
        )
        curation = with_rows(rollouts, back(rows.order[source]), metrics)
        return dataclasses.replace(curation, scores=back(scores), anomalous=back(anomalous))

    @torch.enable_grad()
    def _train(self, states: Tensor, pairs: Pairs, generator: Generator) -> tuple[ReleasedNetwork, dict[str, float]]:
        """Epochs of shuffled batches; the scheduler steps once a batch with a period in epochs, as released."""
        config = self.config
        network = ReleasedNetwork(states.shape[1], config.output_dim, config.dropout, generator).to(states.device)
        shuffled = torch.randperm(len(pairs), generator=generator).to(states.device)
        count = min(floor_share(config.holdout, len(pairs)), len(pairs) - 1)
        heldout = pairs.take(shuffled[:count])
        training = shuffled[count:]
        optimizer = torch.optim.Adam(network.parameters(), lr=config.learning_rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=config.max_epochs)
        best = -1.0
        best_weights = network.state_dict()
        steps = 0
        for epoch in range(config.max_epochs):
            order = training[torch.randperm(len(training), generator=generator).to(training.device)]
            for batch in order.split(config.batch_size):
                optimizer.zero_grad()
                _loss(network, states, pairs.take(batch), generator).backward()
                optimizer.step()
                schedule.step()
                steps += 1
            accuracy = _accuracy(network, states, heldout)
            if accuracy > best or not count:
                best = accuracy
                best_weights = {name: value.clone() for name, value in network.state_dict().items()}
            if epoch + 1 >= config.min_epochs and accuracy >= config.target_accuracy:
                break
        network.load_state_dict(best_weights)
        return network, {"projector_steps": float(steps), "heldout_pair_accuracy": best if count else torch.nan}

    def _flag(self, scores: Float[Tensor, " b"]) -> Bool[Tensor, " b"]:
        """Beyond the first sparse grid point, else mean + 2 standard deviations; at most a share of the scored ones."""
        scored = ~scores.isnan()
        flagged = torch.zeros_like(scored)
        values = scores[scored].double()
        enough = len(values) >= self.config.min_scores
        tail = sparse_tail(values, alpha=self.config.alpha, tail="first_crossing") if enough else None
        if tail is not None:
            beyond = tail.flagged.to(values.device)
            if math.isnan(tail.threshold):
                beyond = values > values.mean() + 2 * values.std(correction=0)
            flagged[scored] = cap_highest(values, beyond, self.config.max_fraction)
        return flagged


def _loss(network: ReleasedNetwork, states: Tensor, pairs: Pairs, generator: Generator) -> Tensor:
    """The margin-weighted mean over pairs of softplus(-w.M(u)) + softplus(w.M(-u))."""
    difference = _differences(network, states, pairs)
    forward = network.logit(network.project(difference, generator))
    backward = network.logit(network.project(-difference, generator))
    each = functional.softplus(-forward) + functional.softplus(backward)
    # Relative to the largest, so that sums of large margins stay in range.
    margin = pairs.margin / power_of_two(pairs.margin.max())
    return (each * margin).sum() / margin.sum()


def _differences(network: ReleasedNetwork, states: Tensor, pairs: Pairs) -> Tensor:
    """W h_k - W h_l: the first layer on rollouts, as in geoalign.method.projector."""
    rows, local = torch.cat([pairs.winner, pairs.loser]).unique(return_inverse=True)
    winner, loser = local.chunk(2)
    on_rollouts = full_linear(states[rows], network.first.weight)
    return take_rows(on_rollouts, winner) - take_rows(on_rollouts, loser)


@torch.no_grad()
def _accuracy(network: ReleasedNetwork, states: Tensor, pairs: Pairs) -> float:
    """The share of directions, and of their opposites, whose orientation the head gets right; 0 without pairs."""
    if not len(pairs):
        return 0.0
    difference = _differences(network, states, pairs)
    forward = network.logit(network.project(difference)) > 0
    backward = network.logit(network.project(-difference)) < 0
    return float((forward.float() + backward.float()).mean() / 2)


@torch.no_grad()
def _cosines(network: ReleasedNetwork, states: Tensor, pairs: Pairs) -> Float[Tensor, " p"]:
    """Cosine of each projected difference to the unweighted mean of all."""
    total = states.new_zeros(network.second.out_features)
    for block in pairs.blocks(BLOCK):
        projected = network.project(_differences(network, states, pairs.take(block)))
        total += functional.normalize(projected, dim=1).sum(0)
    prototype = functional.normalize(total, dim=0)
    cosines = states.new_empty(len(pairs))
    for block in pairs.blocks(BLOCK):
        projected = network.project(_differences(network, states, pairs.take(block)))
        cosines[block] = full_product(functional.normalize(projected, dim=1), prototype)
    return cosines


def _released_odds(rewards: Float[Tensor, " n"], generator: Any) -> Float[Tensor, " n"]:
    """Weight 0.5 for every donor of the highest reward, 0.1 for the others, left unnormalised."""
    best = (rewards == rewards.max()).cpu()
    return torch.where(best, torch.tensor(0.5, dtype=torch.float32), torch.tensor(0.1, dtype=torch.float32))
