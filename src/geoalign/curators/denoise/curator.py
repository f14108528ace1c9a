"""Denoised rewards: every rollout gets the reward that it should have been given, as far as can be judged."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator, hidden_states, identity
from geoalign.curators.denoise.predictions import combined_prediction, learnt_correction
from geoalign.curators.denoise.ridge import Predictions, RunningRidge, fold_predictions, group_centred, side_by_side
from geoalign.curators.denoise.rows import NoisyRows, joined, noisy_rows
from geoalign.curators.denoise.truth import Belief, believe
from geoalign.curators.precision import full_precision
from geoalign.curators.rectifying import Flags, rectify
from geoalign.errors import ConfigError, InputError
from geoalign.method.groups import GroupedRows, canonical_order, in_input_order
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts

# Of batches: by then a fit with the default decay holds less than a tenth of a prompt.
REMEMBERED = 22


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
    answers: Literal["exclusive", "shared", "none"] = setting(
        default="exclusive",
        help="Rows of one answer share a truth: at most one answer of a group is right, several may be, or no use.",
    )
    component: str | None = setting(
        default=None, help="The reward component that is noisy; it alone is denoised, the others stay. null: their sum."
    )
    strategy: Literal["soft", "weight", "drop", "replace"] = setting(
        default="soft",
        help="Denoised rewards; or rewards as they are, wrong ones weighted down, dropped or replaced.",
    )
    least_slope: Annotated[float, Field(gt=0, le=1)] = setting(
        default=0.3,
        help="Bias against variance: 1 gives expected rewards, less mends their slope on true ones by up to 1/this.",
    )
    level: Annotated[float, Field(gt=0, lt=1)] = setting(
        default=0.95, help="States are used while the interval of this level of their correlation excludes chance."
    )
    decay: Annotated[float, Field(gt=0, le=1)] = setting(default=0.9, help="Weight of a batch relative to the next.")
    window: Annotated[int, Field(ge=1)] = setting(default=10, help="Batches that the noise model is fitted on.")


class Denoise(Curator[DenoiseConfig]):
    """Gives every row the reward that it should have been given under a model of the noise, by all that is known of it.

    What is known: a prediction of the reward from hidden states, by a ridge regression on earlier batches only
    (`geoalign.curators.denoise.ridge`; in the first batch, by folds over its groups), on each of several states alone
    and on all of them together; answers and identical responses, whose rows share a true reward. The noise model
    (`geoalign.curators.denoise.truth`) weighs them against the rewards. Predictions count while the interval of their
    correlation with rewards of prompts that they had not seen lies above 0. Where that is not so and there are neither
    answers nor identical responses with different rewards, nothing is changed. Trusted rows keep their reward; what it
    is beyond expectation is learnt from their states, and where folds over their groups agree on it, the expected
    rewards of the other rows are corrected by it.

    `scores` are the log-odds that a reward is wrong, `anomalous` those above 0. With `strategy="soft"` the curation's
    rewards are the expected true ones, matched in slope as far as `least_slope` lets them, and its advantages those of
    them.

    Needs `hidden` unless `geometry="none"`, `components` with `component`; heeds `answers`, `response_keys`,
    `prompt_keys` and `trusted`. NaN rewards stay NaN.

    Raises:
        InputError: `hidden` is missing, its width differs from earlier calls or is no multiple of `states`; or there
            is no such component.
    """

    config_class = DenoiseConfig
    requires: tuple[str, ...] = ("hidden",)
    optional: tuple[str, ...] = ("answers", "response_keys", "prompt_keys", "trusted")

    def __init__(self, config: DenoiseConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        if self.config.geometry == "none":
            self.requires = ()
        if self.config.component is not None:
            self.requires = (*self.requires, "components")
        if self.config.answers == "none":
            self.optional = self.optional[1:]
        count = self.config.states if self.config.geometry != "none" else 0
        # Of several states one fit each, and one of all.
        self._ridges = [RunningRidge(2, decay=self.config.decay) for _ in range(count + (count > 1))]
        self._past: list[NoisyRows] = []
        # Prompts of the batches that the fits still remember.
        self._prompts: list[Int[Tensor, " p"]] = []

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
            shared, least_slope = self.config.answers == "shared", self.config.least_slope
            belief = believe(recent, z, least_slope=least_slope, exclusive=not shared)[-len(rollouts) :]
            self._learn(rollouts, states, rows, predictions)
            belief, corrected = self._corrected(belief, rows, states)
            rest = rollouts.rewards.cpu().double()[order.order.cpu()] - rows.rewards
            belief = belief.shifted(rest) if self.config.component is not None else belief
            metrics = {**metrics, **belief.metrics, **corrected, "repeated_prompts": float((~rows.unseen).sum())}
            curation = self._curation(rollouts, order, rows, belief, generator, metrics)
        return curation.with_metrics(seconds=time.perf_counter() - started)

    def state_dict(self) -> dict[str, Any]:
        """The fits, and the rows of the batches that the next one's noise model is fitted on."""
        return {
            "ridges": [ridge.state_dict() for ridge in self._ridges],
            "past": [dict(vars(rows)) for rows in self._past],
            "prompts": list(self._prompts),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`.

        Raises:
            ConfigError: the state is of another curator, or was saved with another `states` or `geometry`.
        """
        if set(state) != {"ridges", "past", "prompts"}:
            raise ConfigError(f"Denoise state: expected the keys past, prompts and ridges, got {sorted(state)}")
        if len(state["ridges"]) != len(self._ridges):
            raise ConfigError(
                f"Denoise state: expected {len(self._ridges)} fits (settings geometry, states: one each, and one of "
                f"several together), got {len(state['ridges'])}"
            )
        for ridge, saved in zip(self._ridges, state["ridges"], strict=True):
            ridge.load_state_dict(saved)
        self._past = [NoisyRows(**rows) for rows in state["past"]]
        self._prompts = list(state["prompts"])

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
        """The batch as the noise model reads it, with what each fit says of it; a first batch is predicted by folds."""
        seen = torch.cat(self._prompts) if self._prompts else None
        rows = noisy_rows(
            rollouts, order, answers=self.config.answers != "none", rewards=self._noisy(rollouts), seen=seen
        )
        predictions = [ridge.predict(block) for ridge, block in zip(self._ridges, states, strict=True)]
        values = [each.best for each in predictions]
        folded = bool(self._ridges) and not self._ridges[0].fitted
        if folded:
            values = [fold_predictions(block, *_targets(rows), rows.fold)[0] for block in states]
        z = torch.stack([value.double().cpu() for value in values], dim=1) if values else rows.predictions
        # The scale changes with the penalty: unscaled, the batch of the weakest one would speak for the whole window.
        z = z / z.square().mean(dim=0, keepdim=True).sqrt().clamp(min=1e-30)
        if states:
            z = z * torch.where(z > 0, torch.stack([_familiar(block) for block in states], dim=1)[:, :, None], 1.0)
        if self.config.geometry == "permuted":
            z = z[torch.rand(len(z), generator=generator, dtype=torch.float64).add(rows.group).argsort()]
        # Groups of different folds predict each other: every product of reward and prediction counts twice.
        inflation = torch.full_like(rows.rewards, 2.0 if folded else 1.0)
        return replace(rows, predictions=z, inflation=inflation), predictions

    def _noisy(self, rollouts: Rollouts) -> Float[Tensor, " b"]:
        """The rewards, or the component of them that is noisy."""
        name = self.config.component
        if name is None:
            return rollouts.rewards
        rollouts.require("components", by="Denoise")
        assert rollouts.components is not None
        if name not in rollouts.components:
            raise InputError(f"component: expected one of {', '.join(sorted(rollouts.components))}; got {name!r}")
        return rollouts.components[name].to(rollouts.rewards).masked_fill(rollouts.rewards.isnan(), torch.nan)

    def _corrected(
        self, belief: Belief, rows: NoisyRows, states: Sequence[Float[Tensor, "b _"]]
    ) -> tuple[Belief, dict[str, float]]:
        """The belief with the errors taken out that the trusted rows show the states to predict."""
        if not states or not bool(rows.trusted.any()):
            return belief, {}
        surprise = ((rows.rewards - belief.prior) / belief.scale).masked_fill(belief.scale == 0, 0.0)
        correction, interval = learnt_correction(states[-1], surprise, rows, level=self.config.level)
        metrics = {"correction": interval.estimate, "correction_low": interval.low}
        corrected = belief if correction is None else belief.corrected(correction, rows)
        return corrected, {"trusted": float(rows.trusted.sum()), **metrics}

    def _learn(
        self,
        rollouts: Rollouts,
        states: Sequence[Float[Tensor, "b _"]],
        rows: NoisyRows,
        predictions: Sequence[Predictions],
    ) -> None:
        """Takes the batch into the fits and into the recent batches, and remembers its prompts."""
        for ridge, block, made in zip(self._ridges, states, predictions, strict=True):
            ridge.add(block, *_targets(rows), made)
        self._past = [*self._past, rows][1 - self.config.window :] if self.config.window > 1 else []
        if rollouts.prompt_keys is not None and self._ridges:
            keys = rollouts.prompt_keys.cpu().unique()
            self._prompts = [*self._prompts, keys][-REMEMBERED:]

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
        given = rollouts.rewards.cpu().double()[on_cpu.order]
        change = (belief.estimate - given)[open_rows]
        metrics = {
            **metrics,
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
        judged = replace(identity(rollouts, metrics), scores=back(scores), anomalous=back(anomalous))
        if self.config.strategy == "weight":
            return replace(judged, weights=judged.weights * back((1 - belief.wrong).float()))
        if not bool((change != 0).any()):
            return judged
        rewards = back(belief.estimate).to(rollouts.rewards.dtype)
        return replace(judged, rewards=rewards, advantages=back(belief.advantages(rows.group)).to(rewards.dtype))


def _familiar(states: Float[Tensor, "b d"]) -> Float[Tensor, " b"]:
    """Factor on praise by extrapolation: min(1, (3 / l)^2), l a centred state's square length over the median one.

    Far out a fit is a guess, and one that a policy finds if it is praise.
    """
    length = states.square().sum(dim=1).double().cpu()
    return (3 * length.median() / length.clamp(min=1e-30)).clamp(max=1).square()


def _targets(rows: NoisyRows) -> tuple[Float[Tensor, "n 2"], Bool[Tensor, " n"]]:
    """What either fit is to predict, and the rows whose directions both know: those between extremes, if any."""
    fitted_on = rows.fitted_on
    between = fitted_on[:, 1]
    return rows.standardised[:, None] * fitted_on, between if bool(between.any()) else fitted_on[:, 0]
