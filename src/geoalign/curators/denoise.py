"""Denoised rewards: every rollout gets the reward that it should have been given, as far as can be judged."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator, hidden_states, identity
from geoalign.curators.denoising.belief import Belief
from geoalign.curators.denoising.binary import believe_verdicts, is_binary
from geoalign.curators.denoising.continuous import believe_replacement
from geoalign.curators.denoising.predictions import combined_prediction
from geoalign.curators.denoising.rows import NoisyRows, joined, noisy_rows, shuffled_within
from geoalign.curators.precision import full_precision
from geoalign.curators.rectifying import Flags, rectify
from geoalign.errors import ConfigError, InputError
from geoalign.method.correction import learnt_correction
from geoalign.method.groups import GroupedRows, canonical_order, in_input_order
from geoalign.method.ridge import Predictions, RunningRidge, fold_predictions, group_centred, side_by_side
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts


@settings
class DenoiseConfig:
    """The settings of `Denoise`."""

    type: ClassVar[str] = "denoise"

    geometry: Literal["states", "permuted", "none"] = setting(
        default="states",
        help="Predict rewards from hidden states; 'permuted' shuffles the predictions within groups (a control).",
    )
    states: Annotated[int, Field(ge=1)] = setting(
        default=1, help="Hidden states of several layers or positions stand side by side: so many of equal width."
    )
    answers: bool = setting(
        default=True, help="Use final answers, where rows have them: at most one of a group is right."
    )
    cluster_prior: Annotated[float, Field(ge=0)] | None = setting(
        default=None, help="Exponent of a cluster's share in its prior odds of being right; null: estimated."
    )
    strategy: Literal["soft", "weight", "drop", "replace"] = setting(
        default="soft",
        help="Denoised rewards; or rewards as they are, wrong ones weighted down, dropped or replaced.",
    )
    unbiased: bool = setting(
        default=True, help="Rewards favour neither predictable nor already frequent answers; false: expected ones."
    )
    level: Annotated[float, Field(gt=0, lt=1)] = setting(
        default=0.95, help="States are used while the interval of this level of their correlation excludes chance."
    )
    decay: Annotated[float, Field(gt=0, le=1)] = setting(default=0.9, help="Weight of a batch relative to the next.")
    window: Annotated[int, Field(ge=1)] = setting(default=10, help="Batches that the noise model is fitted on.")
    trusted_weight: Annotated[float, Field(gt=0)] = setting(
        default=5.0, help="Weight of a trusted row in the fit of verdicts, relative to any other."
    )


class Denoise(Curator[DenoiseConfig]):
    """Gives every row the reward that it should have been given under a model of the noise, by all that is known of it.

    What is known: a prediction of the reward from hidden states, by a ridge regression on earlier batches only
    (`geoalign.method.ridge`; in the first batch, by folds over its groups), on each of several states alone and on all
    of them together; answers, of which at most one in a group is
    right; identical responses, whose true reward is one. Binary rewards are noisy verdicts
    (`geoalign.method.verdicts`), continuous ones kept or replaced (`geoalign.method.replaced_rewards`). The
    predictions count while the interval of their correlation with rewards that they had not seen lies above 0. Where
    that is not so and there are neither answers nor identical responses with different rewards, nothing is changed.
    Trusted rows keep their reward; what it is beyond expectation is learnt from their states, and where folds over
    their groups agree on it, the expected rewards of the other rows are corrected by it (`geoalign.method.correction`).

    `scores` are the log-odds that a reward is wrong, `anomalous` those above 0. With `strategy="soft"` the curation's
    rewards are the expected true ones or, with `unbiased`, doubly robust (`geoalign.method.doubly_robust`), and its
    advantages those of them.

    Needs `hidden` unless `geometry="none"`; heeds `answers`, `response_keys` and `trusted`. NaN rewards stay NaN.

    Raises:
        InputError: `hidden` is missing, its width differs from earlier calls or is no multiple of `states`.
    """

    config_class = DenoiseConfig
    requires: tuple[str, ...] = ("hidden",)
    optional: tuple[str, ...] = ("answers", "response_keys", "trusted")

    def __init__(self, config: DenoiseConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        if self.config.geometry == "none":
            self.requires = ()
        if not self.config.answers:
            self.optional = ("response_keys", "trusted")
        count = self.config.states if self.config.geometry != "none" else 0
        # Of several states one fit each, and one of all.
        fits = count + (count > 1)
        self._ridges = [RunningRidge(2, decay=self.config.decay) for _ in range(fits)]
        self._past: list[NoisyRows] = []

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Returns the denoised rewards, or the rewards with wrong ones weighted down, dropped or replaced.

        The same rows and generator state give the same bits on the same CPU with as many threads. Draws from
        `generator` with `strategy="replace"` and `geometry="permuted"` only.
        """
        started = time.perf_counter()
        if not len(rollouts):
            return identity(rollouts)
        with full_precision(rollouts):
            order = canonical_order(rollouts.rewards, rollouts.groups, rollouts.hidden)
            states = self._states(rollouts, order)
            rows, predictions = self._predicted(rollouts, order, states, generator)
            recent = joined([*self._past, rows][-self.config.window :], self.config.decay)
            z, metrics = combined_prediction(recent, self.config.level)
            belief = self._belief(recent, z)[-len(rollouts) :]
            self._learn(states, rows, predictions, belief)
            belief, corrected = self._corrected(belief, rows, states)
            curation = self._curation(rollouts, order, rows, belief, generator, {**metrics, **corrected})
        return curation.with_metrics(seconds=time.perf_counter() - started)

    def state_dict(self) -> dict[str, Any]:
        """The fits, and the rows of the batches that the next one's noise model is fitted on."""
        return {
            "ridges": [ridge.state_dict() for ridge in self._ridges],
            "past": [vars(rows) for rows in self._past],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`.

        Raises:
            ConfigError: the state is of another curator, or was saved with another `states` or `geometry`.
        """
        if set(state) != {"ridges", "past"}:
            raise ConfigError(f"Denoise state: expected the keys past and ridges, got {sorted(state)}")
        if len(state["ridges"]) != len(self._ridges):
            raise ConfigError(
                f"Denoise state: expected {len(self._ridges)} fits (settings geometry, states: one each, and one of "
                f"several together), got {len(state['ridges'])}"
            )
        for ridge, saved in zip(self._ridges, state["ridges"], strict=True):
            ridge.load_state_dict(saved)
        self._past = [NoisyRows(**rows) for rows in state["past"]]

    def _states(self, rollouts: Rollouts, order: GroupedRows) -> list[Float[Tensor, "b _"]]:
        """The states of each position or layer, and of several all together, in sorted order, centred within groups."""
        if not self._ridges:
            return []
        hidden = hidden_states(rollouts, by="Denoise")
        count = self.config.states
        if hidden.shape[1] % count:
            raise InputError(f"hidden: expected a multiple of states = {count} columns, got {hidden.shape[1]}")
        index, group = order.order.to(hidden.device), order.group.to(hidden.device)
        blocks = [group_centred(block[index], group) for block in hidden.chunk(count, dim=1)]
        return blocks if count == 1 else [*blocks, side_by_side(blocks)]

    def _predicted(
        self,
        rollouts: Rollouts,
        order: GroupedRows,
        states: Sequence[Float[Tensor, "b _"]],
        generator: torch.Generator | None,
    ) -> tuple[NoisyRows, list[Predictions]]:
        """The batch as the noise models read it, with what each fit says of it; a first batch is predicted by folds."""
        rows = noisy_rows(rollouts, order, answers=self.config.answers, trusted_weight=self.config.trusted_weight)
        predictions = [ridge.predict(block) for ridge, block in zip(self._ridges, states, strict=True)]
        values = [each.best for each in predictions]
        folded = bool(self._ridges) and not self._ridges[0].fitted
        if folded:
            targets, weights = rows.standardised, self._fit_weights(rows, None)
            values = [fold_predictions(block, targets, weights, rows.group) for block in states]
        z = torch.stack([value.double().cpu() for value in values], dim=1) if values else rows.predictions
        # The scale changes with the penalty: unscaled, the batch of the weakest one would speak for the whole window.
        z = z / z.square().mean(dim=0, keepdim=True).sqrt().clamp(min=1e-30)
        if self.config.geometry == "permuted":
            z = z[shuffled_within(rows.group, generator)]
        # Groups of different folds predict each other: every product of reward and prediction counts twice.
        inflation = torch.full_like(rows.rewards, 2.0 if folded else 1.0)
        return replace(rows, predictions=z, inflation=inflation), predictions

    def _belief(self, recent: NoisyRows, z: Float[Tensor, " n"] | None) -> Belief:
        """What the noise model of these rewards, fitted on the recent batches, believes of their rows."""
        if not is_binary(recent):
            return believe_replacement(recent, z, unbiased=self.config.unbiased)
        return believe_verdicts(
            recent,
            z,
            answers=self.config.answers,
            cluster_prior=self.config.cluster_prior,
            unbiased=self.config.unbiased,
            share_interval=True,
        )

    def _corrected(
        self, belief: Belief, rows: NoisyRows, states: Sequence[Float[Tensor, "b _"]]
    ) -> tuple[Belief, dict[str, float]]:
        """The belief with the errors taken out that the trusted rows show the states to predict."""
        if not states or not bool(rows.trusted.any()):
            return belief, {}
        correction, interval = learnt_correction(
            states[-1], belief.surprise(rows.rewards), rows.trusted, rows.group, level=self.config.level
        )
        metrics = {
            "trusted": float(rows.trusted.sum()),
            "correction": interval.estimate,
            "correction_low": interval.low,
        }
        return belief if correction is None else belief.corrected(correction, rows), metrics

    def _learn(
        self,
        states: Sequence[Float[Tensor, "b _"]],
        rows: NoisyRows,
        predictions: Sequence[Predictions],
        belief: Belief,
    ) -> None:
        """Takes the batch into the fits, each reward as far as it is believed, and into the recent batches."""
        weights = self._fit_weights(rows, belief)
        for index, (ridge, block) in enumerate(zip(self._ridges, states, strict=True)):
            ridge.add(block, rows.standardised, weights, predictions[index] if ridge.fitted else None)
        self._past = [*self._past, rows][1 - self.config.window :] if self.config.window > 1 else []

    def _fit_weights(self, rows: NoisyRows, belief: Belief | None) -> Float[Tensor, "n 2"]:
        believed = torch.ones_like(rows.rewards) if belief is None else 1 - belief.wrong
        return believed[:, None] * rows.fitted_on

    def _curation(
        self,
        rollouts: Rollouts,
        order: GroupedRows,
        rows: NoisyRows,
        belief: Belief,
        generator: torch.Generator | None,
        metrics: dict[str, float],
    ) -> Curation:
        """The curation that the belief comes to, in input order."""
        on_cpu = GroupedRows(order.order.cpu(), order.group.cpu(), order.offsets.cpu())
        back = in_input_order(on_cpu, rollouts.rewards.device)
        anomalous = (belief.log_odds > 0) & rows.scored
        open_rows = rows.scored & ~rows.trusted
        change = (belief.estimate - rows.rewards)[open_rows]
        metrics = {
            **metrics,
            **belief.metrics,
            "anomalous": float(anomalous.sum()),
            "changed_groups": len(rows.group[open_rows][change != 0].unique())
            / max(len(rows.group[open_rows].unique()), 1),
            "mean_change": float(change.abs().mean()) if len(change) else torch.nan,
            "unscored_rewards": float(rollouts.rewards.isnan().sum()),
        }
        scores = belief.log_odds.masked_fill(~rows.scored, torch.nan).float()
        if self.config.strategy in ("drop", "replace"):
            device = rollouts.rewards.device
            hit, stable = anomalous.to(device), (rows.scored & ~anomalous).to(device)
            return rectify(
                rollouts,
                order,
                scores.to(device),
                Flags(suspect=hit, anomalous=hit, stable=stable),
                strategy=self.config.strategy,
                observing=False,
                generator=generator,
                metrics=metrics,
            )
        unchanged = identity(rollouts, metrics)
        judged = replace(unchanged, scores=back(scores), anomalous=back(anomalous))
        if self.config.strategy == "weight":
            return replace(judged, weights=judged.weights * back((1 - belief.wrong).float()))
        if not bool((change != 0).any()):
            return judged
        rewards = back(belief.estimate).to(rollouts.rewards.dtype)
        return replace(judged, rewards=rewards, advantages=back(belief.advantages(rows.group)).to(rewards.dtype))
