"""Denoised rewards: every rollout gets the reward that it should have been given, as far as can be judged."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator, hidden_states, identity
from geoalign.curators.denoise.model import Belief, NoisyRows, believe, joined, noisy_rows
from geoalign.curators.denoise.ridge import RunningRidge, fold_predictions
from geoalign.curators.precision import full_precision
from geoalign.curators.rectifying import Flags, rectify
from geoalign.errors import ConfigError, InputError
from geoalign.method.groups import FOLDS, GroupedRows, canonical_order, group_centred, in_input_order
from geoalign.method.intervals import Interval, grouped_correlation
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts

# Of batches: by then a fit with the default decay holds less than a tenth of a prompt.
REMEMBERED = 22
# Of the correction that trusted rows teach.
_PENALTIES = (0.1, 1.0, 10.0)


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

    What is known: a prediction by a ridge regression of earlier batches' rewards on their hidden states, while its
    correlation with rewards of new prompts is above chance; answers and identical responses, whose rows share a true
    reward; and trusted rows, which keep their reward and teach a correction of the others. Without any of these
    nothing is changed. The modules `ridge` and `model` beside this one, and docs/denoise.md, say how.

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
        self._forget()

    def _forget(self) -> None:
        count = self.config.states if self.config.geometry != "none" else 0
        # Of several states one fit each, and one of all side by side.
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
            rows = noisy_rows(
                rollouts,
                order,
                answers=self.config.answers != "none",
                rewards=self._noisy(rollouts),
                seen=self._prompts,
            )
            states, forgotten = self._states(rollouts, order), False
            if states:
                earlier, found = self._ridges[0].fitted, self._predicted(rows, states, generator)
                if forgotten := earlier and contradicted(found):
                    # What was learnt holds no longer: the batch is a first one.
                    self._forget()
                    found = self._predicted(rows, states, generator)
                rows = found
            window = [*self._past, rows][-self.config.window :]
            self._past = window[-(self.config.window - 1) :] if self.config.window > 1 else []
            if rollouts.prompt_keys is not None and states:
                self._prompts = [*self._prompts, rollouts.prompt_keys.cpu().unique()][-REMEMBERED:]
            recent = joined(window, self.config.decay)
            z, metrics = gated(recent, self.config.level)
            exclusive = self.config.answers != "shared"
            belief = believe(recent, z, least_slope=self.config.least_slope, exclusive=exclusive)[-len(rollouts) :]
            if states and bool(rows.trusted.any()):
                correction, corrected = learnt_correction(states[-1], belief, rows, level=self.config.level)
                belief, metrics = belief.corrected(correction), {**metrics, **corrected}
            metrics = {
                **metrics,
                **belief.metrics,
                "repeated_prompts": float((~rows.unseen).sum()),
                "forgotten": float(forgotten),
            }
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

    def _states(self, rollouts: Rollouts, order: GroupedRows) -> list[Float[Tensor, "b _"]]:
        """The states in sorted order, centred within groups; behind several all of them, each over its mean square."""
        if not self._ridges:
            return []
        hidden, count = hidden_states(rollouts, by="Denoise"), self.config.states
        if hidden.shape[1] % count:
            raise InputError(f"hidden: expected a multiple of states = {count} columns, got {hidden.shape[1]}")
        states = group_centred(hidden[order.order.to(hidden.device)], order.group.to(hidden.device))
        if count == 1:
            return [states]
        blocks = list(states.chunk(count, dim=1))
        sizes = [block.square().sum(dim=1).mean().sqrt().clamp(min=1e-30) for block in blocks]
        return [*blocks, torch.cat([block / size for block, size in zip(blocks, sizes, strict=True)], dim=1)]

    def _predicted(
        self, rows: NoisyRows, states: Sequence[Float[Tensor, "b _"]], generator: torch.Generator | None
    ) -> NoisyRows:
        """The rows with what each fit says of them; a first batch is predicted by folds."""
        folded, (every, between) = not self._ridges[0].fitted, rows.fitted_on.unbind(1)
        # The rows whose directions both kinds of fits know: those between extremes, if any.
        used = between if bool(between.any()) else every
        targets, values = rows.standardised[:, None] * rows.fitted_on, []
        for ridge, block in zip(self._ridges, states, strict=True):
            z = ridge.predict(block, targets, used, rows.fold).double().cpu()
            # The scale changes with the penalty: unscaled, the batch of the weakest one would speak for the window.
            z = z / z.square().mean(dim=0, keepdim=True).sqrt().clamp(min=1e-30)
            # Far out a fit is a guess, and one that a policy finds if it is praise.
            length = block.square().sum(dim=1).double().cpu()
            familiar = (3 * length.median() / length.clamp(min=1e-30)).clamp(max=1).square()
            values.append(torch.where(z > 0, z * familiar[:, None], z))
        predictions = torch.stack(values, dim=1)
        if self.config.geometry == "permuted":
            shuffled = torch.rand(len(predictions), generator=generator, dtype=torch.float64).add(rows.group).argsort()
            predictions = predictions[shuffled]
        # Groups of different folds predict each other: every product of reward and prediction counts twice.
        return replace(rows, predictions=predictions, inflation=torch.full_like(rows.rewards, 2.0 if folded else 1.0))

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
        device = rollouts.rewards.device
        back = in_input_order(GroupedRows(order.order.cpu(), order.group.cpu(), order.offsets.cpu()), device)
        anomalous = (belief.log_odds > 0) & rows.scored
        open_rows = rows.scored & ~rows.trusted
        change = (belief.rewards - rows.rewards)[open_rows]
        group = rows.group[open_rows]
        metrics = {
            **metrics,
            "anomalous": float(anomalous.sum()),
            "changed_groups": len(group[change != 0].unique()) / max(len(group.unique()), 1),
            "mean_change": float(change.abs().mean()) if len(change) else torch.nan,
            "unscored_rewards": float(rollouts.rewards.isnan().sum()),
        }
        scores = belief.log_odds.masked_fill(~rows.scored, torch.nan).float()
        if self.config.strategy in ("drop", "replace"):
            hit = anomalous.to(device)
            return rectify(
                rollouts,
                order,
                scores.to(device),
                Flags(suspect=hit, anomalous=hit, stable=rows.scored.to(device) & ~hit),
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
        # What stands beside a noisy component.
        rest = rollouts.rewards.cpu().double()[order.order.cpu()] - rows.rewards
        rewards, advantages = belief.rewards + rest, belief.advantages(rows.group, rest)
        return replace(
            judged,
            rewards=back(rewards).to(rollouts.rewards.dtype),
            advantages=back(advantages.to(rollouts.rewards.dtype)),
        )


def correlation(z: Tensor, y: Tensor, weights: Tensor, rows: NoisyRows, level: float) -> Interval:
    """The `grouped_correlation` of a prediction of the rows with their standardised rewards y."""
    numbers = (each.numpy() for each in (z, y, rows.group, weights))
    return grouped_correlation(*numbers, inflation=rows.inflation.numpy(), level=level)


def contradicted(rows: NoisyRows, level: float = 0.999) -> bool:
    """Whether a batch's rewards go against what earlier ones predict: an interval of a correlation lies below 0.

    `level` is that of all states' tests together.
    """
    weights, y = (rows.fitted_on & rows.unseen[:, None]).double(), rows.standardised
    level = 1 - (1 - level) / rows.predictions[0].numel()
    kinds = zip(rows.predictions.unbind(2), weights.T, strict=True)
    return any(correlation(z, y, weight, rows, level).high < 0 for kind, weight in kinds for z in kind.T)


def gated(rows: NoisyRows, level: float) -> tuple[Float[Tensor, " n"] | None, dict[str, float]]:
    """The predictions of all states as one, of mean square 1; None where they say nothing.

    A state takes part where the interval of its correlation with the rewards lies above 0; those that do are weighted
    by least squares on the rewards, so that one without a signal of its own adds nothing. Of fits on all rows and on
    rows between the extremes, each tested on its own kind, the one with the higher lower bound is taken; `level` is
    that of both tests together. Rows of prompts that a fit has seen are neither tested nor predicted.
    """
    weights = rows.weights[:, None] * (rows.fitted_on & rows.unseen[:, None])
    y, views, level = rows.standardised, [], (1 + level) / 2
    for predictions, weight in zip(rows.predictions.unbind(2), weights.T, strict=True):
        tests = [correlation(z, y, weight, rows, level) for z in predictions.T]
        used = [index for index, each in enumerate(tests) if each.low > 0]
        if not used:
            views.append((max(tests, key=_low), 0, None))
            continue
        telling = predictions[:, used]
        gram = telling.T @ (telling * weight[:, None])
        gram.diagonal().add_(1e-6 * float(gram.diagonal().mean()))
        z = telling @ torch.linalg.solve(gram, telling.T @ (weight * y)).clamp(min=0)
        whole, scale = correlation(z, y, weight, rows, level), ((weight @ z.square()) / weight.sum()).sqrt()
        views.append((whole, len(used), z * rows.unseen / scale))
    whole, count, combined = max(views, key=lambda view: _low(view[0]))
    bounds = {"correlation": whole.estimate, "correlation_low": whole.low, "correlation_high": whole.high}
    return combined, {"states_used": float(count), **bounds}


def _low(test: Interval) -> float:
    return -math.inf if math.isnan(test.low) else test.low


def learnt_correction(
    states: Float[Tensor, "n d"], belief: Belief, rows: NoisyRows, *, level: float
) -> tuple[Float[Tensor, " n"], dict[str, float]]:
    """What the rewards of trusted rows are beyond expectation, as a ridge on their states says of the other rows.

    With z the folds' predictions of these surprises d, r their correlation and l the lower end of its interval over
    all penalties, the ridge's prediction is multiplied by (l / r) sum z d / sum z^2: the trusted rows are the same in
    every batch, and so is the fit's error; over a training a policy follows it as it follows a reward's. 0 while l
    is not above 0, and of rows that are trusted or unscored.
    """
    own = rows.trusted
    surprise = ((belief.claim - belief.prior) * own)[:, None]
    fold = torch.where(own, rows.group.masked_fill(~own, -1).unique(return_inverse=True)[1] % FOLDS, -1)
    values = fold_predictions(states, surprise, own, fold, _PENALTIES)[:, :, 0].double().cpu()
    known, d = values[:, own], surprise[own, 0]
    group, every = rows.group[own].numpy(), torch.ones_like(d).numpy()
    level = 1 - (1 - level) / len(known)
    each = [grouped_correlation(z.numpy(), d.numpy(), group, every, inflation=2.0, level=level) for z in known]
    best = int(torch.tensor([test.low for test in each]).nan_to_num(-torch.inf).argmax())
    test, z = each[best], known[best]
    metrics = {"trusted": float(own.sum()), "correction": test.estimate, "correction_low": test.low}
    if not test.low > 0:
        return torch.zeros_like(belief.claim), metrics
    slope = test.low / test.estimate * float(z @ d / z.square().sum())
    return slope * values[best] * (rows.scored & ~own & (belief.scale > 0)), metrics
