"""Denoised rewards: every rollout gets the reward that it should have been given, as far as can be judged."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator, hidden_states, identity
from geoalign.curators.denoise.model import Fit, Posterior, infer
from geoalign.curators.denoise.ridge import RunningRidge, fold_predictions
from geoalign.curators.denoise.rows import NoisyRows, joined, noisy_rows
from geoalign.curators.precision import full_precision
from geoalign.errors import InputError
from geoalign.method.groups import FOLDS, GroupedRows, canonical_order, group_centred, in_input_order
from geoalign.method.intervals import Interval, grouped_correlation
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts

# Of batches: by then a fit with the default decay holds less than a tenth of a prompt.
REMEMBERED = 22
# Of the correction that trusted rows teach.
_PENALTIES = (0.1, 1.0, 10.0)
# A batch contradicts what was learnt with this certainty.
_CONTRADICTED = 0.999
# Of the log-odds that a reward is wrong.
_CERTAIN = 30.0


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
    nothing is changed. The modules `rows`, `ridge` and `model` beside this one, and docs/denoise.md, say how.

    The curation's rewards are the expected true ones, matched in slope as far as `least_slope` lets them, and its
    advantages those of them; `scores` are the log-odds that a reward is wrong, `anomalous` those above 0.

    Needs `hidden` unless `geometry="none"`, `components` with `component`; heeds `answers`, `response_keys`,
    `prompt_keys` and `trusted`. NaN rewards stay NaN.

    Raises:
        InputError: `hidden` is missing, its width differs from earlier calls or is no multiple of `states`; or there
            is no such component.
    """

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
        self._ridge = RunningRidge(decay=self.config.decay)
        self._past: list[NoisyRows] = []
        self._fit: Fit | None = None
        # Prompts of the batches that the fit still remembers.
        self._prompts: list[Int[Tensor, " p"]] = []

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Returns the denoised rewards and their advantages.

        The same rows and generator state give the same bits on the same CPU with as many threads. Draws from
        `generator` with `geometry="permuted"` only.
        """
        started = time.perf_counter()
        if not len(rollouts):
            return identity(rollouts)
        with full_precision(rollouts):
            order = canonical_order(rollouts.rewards, rollouts.groups, rollouts.hidden)
            answers, noisy = self.config.answers, self._noisy(rollouts)
            rows = noisy_rows(rollouts, order, answers=answers != "none", rewards=noisy, seen=self._prompts)
            states = self._states(rollouts, order)
            if forgotten := self._ridge.fitted and states is not None:
                predicted = self._predicted(rows, states, generator)
                # What was learnt may hold no longer: the batch is then a first one.
                if forgotten := correlation(predicted, level=_CONTRADICTED).high < 0:
                    self._forget()
            if states is not None:
                rows = predicted if self._ridge.fitted and not forgotten else self._predicted(rows, states, generator)
            window = [*self._past, rows][-self.config.window :]
            self._past = window[-(self.config.window - 1) :] if self.config.window > 1 else []
            if rollouts.prompt_keys is not None and states is not None:
                self._prompts = [*self._prompts, rollouts.prompt_keys.cpu().unique()][-REMEMBERED:]
            recent = joined(window, self.config.decay)
            test = correlation(recent, level=self.config.level)
            known = recent.prediction * recent.unseen
            scale = ((recent.weights @ known.square()) / recent.weights.sum()).sqrt()
            z = known / scale if test.low > 0 else None
            posterior = infer(
                recent,
                z,
                least_slope=self.config.least_slope,
                exclusive=answers != "shared",
                earlier=self._fit,
            )[-len(rollouts) :]
            self._fit = posterior.fit
            metrics = {
                "states_used": float(test.low > 0),
                "correlation": test.estimate,
                "correlation_low": test.low,
                "correlation_high": test.high,
                "repeated_prompts": float((~rows.unseen).sum()),
                "forgotten": float(forgotten),
                **posterior.metrics,
            }
            if states is not None and bool(rows.trusted.any()):
                correction, learnt = learnt_correction(states, posterior, rows, level=self.config.level)
                posterior, metrics = posterior.corrected(correction), {**metrics, **learnt}
            curation = _curation(rollouts, order, rows, posterior, metrics)
        return curation.with_metrics(seconds=time.perf_counter() - started)

    def state_dict(self) -> dict[str, Any]:
        """The fit, and the rows of the batches that the next one's noise model is fitted on."""
        return {
            "ridge": self._ridge.state_dict(),
            "past": [dict(vars(rows)) for rows in self._past],
            "fit": {} if self._fit is None else self._fit._asdict(),
            "prompts": list(self._prompts),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`.

        Raises:
            ConfigError: the state is of another curator.
        """
        self._expect_keys(state, "ridge", "past", "fit", "prompts")
        self._ridge.load_state_dict(state["ridge"])
        self._fit = Fit(**state["fit"]) if state["fit"] else None
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

    def _states(self, rollouts: Rollouts, order: GroupedRows) -> Float[Tensor, "b d"] | None:
        """The states in sorted order, centred within groups; of several each over its mean square."""
        if self.config.geometry == "none":
            return None
        hidden, count = hidden_states(rollouts, by="Denoise"), self.config.states
        if hidden.shape[1] % count:
            raise InputError(f"hidden: expected a multiple of states = {count} columns, got {hidden.shape[1]}")
        states = group_centred(hidden[order.order.to(hidden.device)], order.group.to(hidden.device))
        if count > 1:
            blocks = states.chunk(count, dim=1)
            sizes = [block.square().sum(dim=1).mean().sqrt().clamp(min=1e-30) for block in blocks]
            states = torch.cat([block / size for block, size in zip(blocks, sizes, strict=True)], dim=1)
        return states

    def _predicted(self, rows: NoisyRows, states: Float[Tensor, "b d"], generator: torch.Generator | None) -> NoisyRows:
        """The rows with what the fit says of them; a first batch is predicted by folds."""
        folded, used = not self._ridge.fitted, rows.fitted_on
        z = self._ridge.predict(states, rows.standardised * used, used, rows.fold).double().cpu()
        # The scale changes with the penalty: unscaled, the batch of the weakest one would speak for the window.
        z = z / z.square().mean().sqrt().clamp(min=1e-30)
        # Far out a fit is a guess, and one that a policy finds if it is praise.
        length = states.square().sum(dim=1).double().cpu()
        familiar = (3 * length.median() / length.clamp(min=1e-30)).clamp(max=1).square()
        z = torch.where(z > 0, z * familiar, z)
        if self.config.geometry == "permuted":
            z = z[torch.rand(len(z), generator=generator, dtype=torch.float64).add(rows.group).argsort()]
        # Groups of different folds predict each other: every product of reward and prediction counts twice.
        return replace(rows, prediction=z, inflation=torch.full_like(rows.rewards, 2.0 if folded else 1.0))


def correlation(rows: NoisyRows, *, level: float) -> Interval:
    """The `grouped_correlation` of the predictions with the rewards, of prompts that the fit had not seen."""
    weights = rows.weights * (rows.fitted_on & rows.unseen)
    numbers = (each.numpy() for each in (rows.prediction, rows.standardised, rows.group, weights))
    return grouped_correlation(*numbers, inflation=rows.inflation.numpy(), level=level)


def learnt_correction(
    states: Float[Tensor, "n d"], posterior: Posterior, rows: NoisyRows, *, level: float
) -> tuple[Float[Tensor, " n"], dict[str, float]]:
    """What the rewards of trusted rows are beyond expectation, as a ridge on their states says of the other rows.

    With z the folds' predictions of these surprises d, r their correlation and l the lower end of its interval over
    all penalties, the ridge's prediction is multiplied by (l / r) sum z d / sum z^2: the trusted rows are the same in
    every batch, and so is the fit's error; over a training a policy follows it as it follows a reward's. 0 while l
    is not above 0, and of rows that are trusted or unscored.
    """
    own = rows.trusted
    surprise = (posterior.observation - posterior.prior) * own
    fold = torch.where(own, rows.group.masked_fill(~own, -1).unique(return_inverse=True)[1] % FOLDS, -1)
    values = fold_predictions(states, surprise, own, fold, _PENALTIES).double().cpu()
    d, group, every = surprise[own], rows.group[own].numpy(), posterior.observation[own].numpy() * 0 + 1
    level = 1 - (1 - level) / len(_PENALTIES)
    tests = [grouped_correlation(z.numpy(), d.numpy(), group, every, inflation=2.0, level=level) for z in values[own].T]
    best = int(torch.tensor([test.low for test in tests]).nan_to_num(-torch.inf).argmax())
    test, z = tests[best], values[own, best]
    metrics = {"trusted": float(own.sum()), "correction": test.estimate, "correction_low": test.low}
    if not test.low > 0:
        return torch.zeros_like(posterior.observation), metrics
    slope = test.low / test.estimate * float(z @ d / z.square().sum())
    return slope * values[:, best] * (rows.scored & ~own & (posterior.scale > 0)), metrics


def _curation(
    rollouts: Rollouts, order: GroupedRows, rows: NoisyRows, posterior: Posterior, metrics: dict[str, float]
) -> Curation:
    """The curation that the posterior gives, in input order."""
    index = order.order.cpu()
    back = in_input_order(GroupedRows(index, order.group.cpu(), order.offsets.cpu()), rollouts.rewards.device)
    odds = torch.logit(posterior.wrong, eps=1e-13).clamp(-_CERTAIN, _CERTAIN)
    open_rows = rows.scored & ~rows.trusted
    change, group = (posterior.rewards - rows.rewards)[open_rows], rows.group[open_rows]
    metrics = {
        **metrics,
        "anomalous": float(((odds > 0) & rows.scored).sum()),
        "changed_groups": len(group[change != 0].unique()) / max(len(group.unique()), 1),
        "mean_change": float(change.abs().mean()) if len(change) else torch.nan,
        "unscored_rewards": float(rollouts.rewards.isnan().sum()),
    }
    scores = odds.masked_fill(~rows.scored, torch.nan).float()
    judged = replace(identity(rollouts, metrics), scores=back(scores), anomalous=back((odds > 0) & rows.scored))
    if not bool((change != 0).any()):
        return judged
    # What stands beside a noisy component.
    rest = rollouts.rewards.cpu().double()[index] - rows.rewards
    given = (posterior.rewards + rest, posterior.advantages(rows.group, rest))
    rewards, advantages = (back(each.to(rollouts.rewards.dtype)) for each in given)
    return replace(judged, rewards=rewards, advantages=advantages)
