"""Denoised rewards: every rollout gets the reward that it should have been given, as far as can be judged."""

from __future__ import annotations

import logging
import math
import time
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor

from geoalign.curators.alarms import warn
from geoalign.curators.curator import Curator, hidden_states, identity
from geoalign.curators.precision import full_precision
from geoalign.errors import InputError
from geoalign.intervals import Interval
from geoalign.method.groups import GroupedRows, canonical_order, content_folds, group_centred, in_input_order
from geoalign.method.ties import tied_rewards
from geoalign.noise.channel import NoiseFit
from geoalign.noise.identification import (
    disputed,
    identification,
    observations_corrected_without_rates,
)
from geoalign.noise.posterior import Posterior, infer
from geoalign.noise.ridge import fold_predictions, grouped_correlation, predict_next
from geoalign.noise.rows import NoisyRows, joined_batches, keys_in_prompts, noisy_rows
from geoalign.noise.trusted import trusted_answer_keys
from geoalign.settings import Count, OpenShare, PositiveShare, setting, settings
from geoalign.types import Curation, Rollouts

_LOG = logging.getLogger(__name__)
# Batches whose responses are remembered; of older ones less than a tenth is left in the fit at the default decay.
REMEMBERED = 22
# Penalty of the ridge on trusted rows.
_PENALTY = 0.3
# Level at which a batch contradicts the fit.
_CONTRADICTED = 0.999
# Probabilities nearer to 0 or 1 are not told apart, so that log-odds reach from -29.9 to 29.9.
_LEAST_PROBABILITY = 1e-13
# Metrics that rest on the model's rates.
_RATE_METRICS = ("true_positive_rate", "false_positive_rate", "informedness", "wrong_share", "recovered")
_NOT_IDENTIFIED = (
    "denoise: rewards stay as they are, because %s. To correct them, have a few rows of each batch checked by a second "
    "verifier (curator `appeals`) or give labelled rollouts."
)


@settings
class DenoiseConfig:
    """The settings of `Denoise`."""

    type: ClassVar[str] = "denoise"

    geometry: Literal["states", "permuted", "none"] = setting(
        default="states",
        help="Predict rewards from hidden states; 'permuted': predictions shuffled (a control), 'none': do not.",
    )
    states: Count = setting(
        default=1, help="How many hidden states of equal width (layers, positions) are concatenated in `hidden`."
    )
    answers: Literal["exclusive", "shared", "none"] = setting(
        default="exclusive",
        help="Equal answers share a true reward: at most one answer of a group is right, several may be, or unused.",
    )
    component: str | None = setting(
        default=None, help="The noisy reward component: it alone is denoised, the others stay. null: denoise their sum."
    )
    unanswered: Literal["wrong", "kept"] = setting(
        default="wrong",
        help="A response without an answer, where most have one: it is wrong, or nothing is concluded from it.",
    )
    unidentified: Literal["kept", "modelled"] = setting(
        default="kept",
        help="Where verdicts do not tell how often they are wrong, rewards are kept, or denoised as if they did.",
    )
    least_slope: PositiveShare = setting(
        default=0.3,
        help="Bias against variance: 1 gives expected rewards; less restores their scale, at most by 1/this.",
    )
    level: OpenShare = setting(
        default=0.95, help="States are used while the interval of their correlation, at this level, excludes chance."
    )
    decay: PositiveShare = setting(default=0.9, help="Weight of a batch relative to the next.")
    window: Count = setting(default=10, help="Batches that the noise model is fitted on.")


class Denoise(Curator[DenoiseConfig]):
    """Replaces every reward by an estimate of the true one under a model of the noise.

    It uses a prediction by a ridge regression of earlier batches' rewards on their hidden states, while its
    correlation with rewards of new prompts is above chance; answers and identical responses, whose rows share a true
    reward; and trusted rows, which keep their reward and train a correction of the others. Without any of these
    nothing is changed. `geoalign.noise` and docs/denoise.md say how.

    The curation's rewards are the expected true ones, matched in slope as far as `least_slope` lets them, and its
    advantages follow from them; `scores` are the log-odds that a reward is wrong, `anomalous` those above 0. They reach
    from -29.9, where nothing is known of a reward but itself, to 29.9.

    Needs `hidden` unless `geometry="none"`, `components` with `component`; heeds `answers`, `response_keys`,
    `prompt_keys` and `trusted`. NaN rewards stay NaN.

    Raises:
        InputError: `hidden` is missing, its width differs from earlier calls or is no multiple of `states`; or there
            is no such component.
    """

    headline = ("identified", "recovered")
    requires: tuple[str, ...] = ("hidden",)
    optional: tuple[str, ...] = ("answers", "response_keys", "prompt_keys", "trusted")
    kept = ("ridge", "past", "fit", "seen", "trusted_answers")
    acts_on = ("rewards", "advantages")
    log_odds = True

    def __init__(self, config: DenoiseConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        # Whether the warning about unidentified rates was already given.
        self._warned = False
        self._forget()

    def declare(self) -> None:
        """What it reads are settings."""
        config = self.config
        reads_states = config.geometry != "none"
        self.requires = ("hidden",) if reads_states else ()
        if config.component is not None:
            self.requires = (*self.requires, "components")
            self.components = (config.component,)
        if config.answers == "none":
            self.optional = tuple(name for name in self.optional if name != "answers")
        self.answer_reading = config.answers
        self.pooled_batches = config.window

    def _forget(self) -> None:
        """Begins anew: nothing of earlier batches is left."""
        self._ridge: dict[str, Any] = {}
        self._fit: dict[str, Tensor] = {}
        # The rows that the noise model is fitted on, and the responses of the batches that the fit still remembers.
        self._past: list[dict[str, Tensor]] = []
        self._seen: list[Int[Tensor, " _"]] = []
        # Of each batch in `_past` the keys of its rows.
        self._trusted_answers: list[Int[Tensor, " _"]] = []

    def curate(self, rollouts: Rollouts, *, generator: Generator | None = None, details: bool = False) -> Curation:
        """Returns the denoised rewards and their advantages.

        The same rows and generator state give the same bits on the same CPU with as many threads. Draws from
        `generator` with `geometry="permuted"` only.
        """
        started = time.perf_counter()
        if not len(rollouts):
            return identity(rollouts)
        rollouts.require(*self.requires, by="Denoise")
        generator = self.drawing_from(generator)
        with full_precision(rollouts):
            curation = self._curated(rollouts, generator)
        return curation.with_metrics(seconds=time.perf_counter() - started)

    def _curated(self, rollouts: Rollouts, generator: Generator | None) -> Curation:
        order = canonical_order(rollouts.rewards, rollouts.groups, rollouts.hidden)
        rows = self._read(rollouts, order)
        states = self._states(rollouts, order)
        had_a_fit = bool(self._ridge)
        if states is not None:
            rows = self._predicted(self._with_answers_as_target(rows), states, generator)
        self._remember(rollouts, order, rows)

        recent = joined_batches(self._past, self.config.decay)
        states_used, of_states = self._tested_states(recent)
        of_batch = self._inferred(recent, states_used=states_used)[-len(rollouts) :]
        posterior, identified = self._as_far_as_identified(of_batch, rows, by_states=states_used)
        metrics = {
            **of_states,
            "repeated_responses": float((~rows.unseen).sum()),
            "forgotten": float(had_a_fit and rows.inflation[0] > 1),
            **posterior.metrics,
            **identified,
        }
        if states is not None and posterior.rests_on_rates and bool(rows.trusted.any()):
            correction, learnt = learnt_correction(states, posterior, rows, level=self.config.level)
            posterior = posterior.corrected(correction)
            metrics |= learnt
        return _curation(rollouts, order, rows, posterior, metrics)

    # --- a batch and those before it ----------------------------------------------------------------------------------

    def _read(self, rollouts: Rollouts, order: GroupedRows) -> NoisyRows:
        """The batch in sorted order, as the noise model sees it; without predictions yet."""
        return noisy_rows(
            rollouts,
            order,
            answers=self.config.answers != "none",
            component=self.config.component,
            seen=self._seen,
            unanswered_wrong=self.config.unanswered == "wrong",
        )

    def _remember(self, rollouts: Rollouts, order: GroupedRows, rows: NoisyRows) -> None:
        """Takes the batch into the window, and its responses among those that the ridge has seen."""
        window = self.config.window
        self._past = [*self._past, dict(vars(rows))][-window:]
        self._trusted_answers = [*self._trusted_answers, trusted_answer_keys(rollouts, order, rows)][-window:]
        if rollouts.prompt_keys is not None and self.config.geometry != "none":
            self._seen = [*self._seen, keys_in_prompts(rollouts).unique()][-REMEMBERED:]

    def _tested_states(self, recent: NoisyRows) -> tuple[bool, dict[str, float]]:
        """Whether the predictions are used, by the rows of the window, and what is to be logged.

        They are while their correlation with rewards of new prompts is above chance. A prediction that contradicts
        answers among equal rewards predicts the verifier's errors, and is not used.
        """
        agreement = correlation(recent, level=self.config.level)
        among_equal_rewards = correlation(recent.among_equal_rewards, level=self.config.level)
        are_used = agreement.low > 0 and not among_equal_rewards.estimate < 0
        metrics = {
            "states_used": float(are_used),
            **agreement.as_metrics("correlation"),
            "agreement": among_equal_rewards.estimate,
        }
        return are_used, metrics

    def _inferred(self, recent: NoisyRows, *, states_used: bool) -> Posterior:
        """The posterior of all rows of the window; its fit is where the next batch's begins."""
        posterior = infer(
            recent,
            _of_mean_square_1(recent) if states_used else None,
            least_slope=self.config.least_slope,
            exclusive=self.config.answers != "shared",
            earlier=self._fit,
        )
        self._fit = posterior.fit
        return posterior

    # --- what the verdicts identify -----------------------------------------------------------------------------------

    def _as_far_as_identified(
        self, posterior: Posterior, rows: NoisyRows, *, by_states: bool
    ) -> tuple[Posterior, dict[str, float]]:
        """The posterior as far as the verdicts identify the model's rates, and what is to be logged.

        Where they do it is the posterior itself. Where they do not, the rewards are as observed, but for
        `observations_corrected_without_rates`. Nothing that goes undisputed is then suspected, unless states speak
        (`by_states`), and metrics that rest on rates are NaN.
        """
        if posterior.units is None:
            return posterior, {}
        answer_keys = torch.cat(self._trusted_answers)
        found = identification(posterior.units, NoiseFit(**posterior.fit), answer_keys)
        metrics = {
            "log_likelihood_gain": found.log_likelihood_gain,
            **found.error_correlation.as_metrics("error_correlation"),
            "identified": float(found.identified) if found.tested else math.nan,
        }
        if found.identified or self.config.unidentified == "modelled":
            return posterior, metrics
        if len(self._past) >= self.config.window and not self._warned:
            self._warned = True
            warn(_LOG, _NOT_IDENTIFIED, found.reason)
        certain = observations_corrected_without_rates(rows, posterior, exclusive=self.config.answers != "shared")
        wrong = posterior.wrong
        if not by_states:
            suspect = disputed(rows, posterior.observation, exclusive=self.config.answers != "shared")
            suspect |= certain != posterior.observation
            wrong = torch.where(suspect, wrong, wrong.clamp(max=0.5))
        kept = replace(posterior, estimate=certain, wrong=wrong, rests_on_rates=False)
        return kept, {**metrics, **dict.fromkeys(_RATE_METRICS, math.nan)}

    # --- the prediction from states -----------------------------------------------------------------------------------

    def _states(self, rollouts: Rollouts, order: GroupedRows) -> Float[Tensor, "b d"] | None:
        """[B, d] the states in sorted order, centred within groups; of several each over its mean square."""
        if self.config.geometry == "none":
            return None
        hidden = hidden_states(rollouts, by="Denoise")
        count = self.config.states
        if hidden.shape[1] % count:
            raise InputError(f"hidden: expected a multiple of states = {count} columns, got {hidden.shape[1]}")
        states = group_centred(hidden[order.order.to(hidden.device)], order.group.to(hidden.device))
        if count > 1:
            blocks = states.unflatten(1, (count, -1))
            mean_square = blocks.square().sum(dim=2, keepdim=True).mean(dim=0)
            states = (blocks / mean_square.sqrt().clamp(min=1e-30)).flatten(1)
        return states

    def _with_answers_as_target(self, rows: NoisyRows) -> NoisyRows:
        """The rows with what answers alone say of their true rewards as the target of the ridge.

        Fitted to the verdicts themselves, the ridge would learn those of the verifier's errors that answers reveal.
        """
        if not bool(rows.answered.any()):
            return rows
        batches = [*self._past, dict(vars(rows))][-self.config.window :]
        window = joined_batches(batches, self.config.decay)
        of_window = infer(window, None, least_slope=1.0, exclusive=self.config.answers != "shared")
        of_batch = of_window[-len(rows.group) :]
        if not of_batch.verdicts:
            return rows
        target = of_batch.standardised
        return replace(rows, target=target, fitted=(target != 0) & ~rows.trusted)

    def _predicted(self, rows: NoisyRows, states: Float[Tensor, "b d"], generator: Generator | None) -> NoisyRows:
        """The rows with predictions of the ridge, which takes them in; a first batch is cross-fitted over folds."""
        is_first = not self._ridge
        target = rows.target * rows.fitted
        values, self._ridge = predict_next(
            self._ridge, states, target, rows.fitted, rows.group, decay=self.config.decay
        )
        # The scale depends on the penalty: unscaled, the batch with the weakest one would dominate the window.
        unit = torch.nn.functional.normalize(values.double().cpu(), dim=0, eps=1e-30)
        z = unit * len(values) ** 0.5
        z = damped_praise(z, states, rows.fitted)
        if self.config.geometry == "permuted":
            shuffled = torch.rand(len(z), generator=generator, dtype=torch.float64)
            z = z[shuffled.add(rows.group).argsort()]
        # Cross-fitted groups predict each other: every product of reward and prediction counts twice.
        inflation = torch.full_like(z, 2.0 if is_first else 1.0)
        predicted = replace(rows, prediction=z * rows.unseen, inflation=inflation)
        if not is_first and correlation(predicted, level=_CONTRADICTED).high < 0:
            # The earlier fit no longer holds: this batch is treated as the first.
            self._forget()
            return self._predicted(replace(rows, unseen=torch.ones_like(rows.unseen)), states, generator)
        return predicted


def damped_praise(
    prediction: Float[Tensor, " n"], states: Float[Tensor, "n d"], fitted: Bool[Tensor, " n"]
) -> Float[Tensor, " n"]:
    """[N] the predictions, smaller where they are above 0 and the state lies far from those of the `fitted` rows.

    Far from the data the ridge extrapolates, and a policy would exploit praise there. The square of a state's distance
    from the mean of its group is allowed three times the median of the `fitted` rows; beyond that the prediction is
    multiplied by the square of the ratio. Rows that are not fitted do not count for the median: where whole groups are
    identical their distances are 0, and every other row would be far. Without a fitted row nothing is far.
    """
    length = states.square().sum(dim=1).double().cpu()
    if not bool(fitted.any()):
        return prediction
    allowed = 3 * length[fitted].median()
    familiar = (allowed / length.clamp(min=1e-30)).clamp(max=1).square()
    return torch.where(prediction > 0, prediction * familiar, prediction)


def _of_mean_square_1(rows: NoisyRows) -> Float[Tensor, " n"]:
    """[N] the predictions, over their weighted root mean square."""
    scale = ((rows.weights @ rows.prediction.square()) / rows.weights.sum()).sqrt()
    return rows.prediction / scale


def correlation(rows: NoisyRows, *, level: float) -> Interval:
    """The `grouped_correlation` of the predictions with the rewards, of prompts that the ridge had not seen."""
    weights = rows.weights * (rows.fitted & rows.unseen)
    return grouped_correlation(
        rows.prediction.numpy(),
        rows.target.numpy(),
        rows.group.numpy(),
        weights.numpy(),
        inflation=rows.inflation.numpy(),
        level=level,
    )


def learnt_correction(
    states: Float[Tensor, "n d"], posterior: Posterior, rows: NoisyRows, *, level: float
) -> tuple[Float[Tensor, " n"], dict[str, float]]:
    """A correction of the other rows: a ridge from the states of trusted rows to their residuals, true reward - m.

    With d these residuals, z their cross-fitted predictions, r the correlation of both and l the lower end of its
    interval, predictions are multiplied by (l / r) sum z d / sum z^2, the slope at its lower bound: the trusted rows
    are the same in every batch, and so is the fit's error, which a policy would exploit.

    Returns:
        [N] the correction, 0 while l <= 0, and of rows that are trusted or unscored; and what is to be logged.
    """
    trusted = rows.trusted
    residuals = (posterior.observation - posterior.prior) * trusted
    length = states.square().sum(dim=1).double().cpu()
    fold = content_folds(length * trusted, rows.group).masked_fill(~trusted, -1)
    predicted = fold_predictions(states, residuals, trusted, fold, _PENALTY).double().cpu().nan_to_num(0, 0, 0)
    of_trusted = replace(
        rows,
        prediction=predicted,
        target=residuals,
        fitted=trusted,
        inflation=torch.full_like(residuals, 2.0),
        weights=torch.ones_like(predicted),
    )
    agreement = correlation(of_trusted, level=level)
    slope = 0.0
    if agreement.low > 0:
        z = predicted * trusted
        slope = agreement.low / agreement.estimate * float(z @ residuals / z.square().sum())
    corrected_rows = rows.scored & ~trusted & (posterior.scale > 0)
    metrics = {
        "trusted": float(trusted.sum()),
        "correction": agreement.estimate,
        "correction_low": agreement.low,
    }
    return slope * predicted * corrected_rows, metrics


def _curation(
    rollouts: Rollouts, order: GroupedRows, rows: NoisyRows, posterior: Posterior, metrics: dict[str, float]
) -> Curation:
    """The curation that the posterior gives, in input order."""
    on_cpu = GroupedRows(order.order.cpu(), order.group.cpu(), order.offsets.cpu())
    back = in_input_order(on_cpu, rollouts.rewards.device)
    log_odds_wrong = torch.logit(posterior.wrong, eps=_LEAST_PROBABILITY)
    anomalous = (log_odds_wrong > 0) & rows.scored
    open_rows = rows.scored & ~rows.trusted
    change = (posterior.rewards - rows.rewards)[open_rows]
    groups = rows.group[open_rows]
    metrics = {
        **metrics,
        "changed_groups": len(groups[change != 0].unique()) / max(len(groups.unique()), 1),
        "mean_change": float(change.abs().mean()) if len(change) else torch.nan,
        "unscored_rewards": float(rollouts.rewards.isnan().sum()),
    }
    scores = log_odds_wrong.masked_fill(~rows.scored, torch.nan).float()
    judged = replace(identity(rollouts, metrics), scores=back(scores), anomalous=back(anomalous))
    if not bool((change != 0).any()):
        return judged

    whole = _with_other_components(posterior, rollouts.rewards.cpu()[on_cpu.order], rows)
    # Expected rewards may lie a little beyond the observed ones, and so beyond what their dtype holds.
    dtype = rollouts.rewards.dtype
    largest = torch.finfo(dtype).max
    expected = whole.rewards.clamp(min=-largest, max=largest).to(dtype)
    # A reward that stays has the bits that it came with: above, those that differ by rounding are equal.
    is_changed = rows.scored & (posterior.rewards != rows.rewards)
    rewards = torch.where(back(is_changed), back(expected), rollouts.rewards)
    if not posterior.rests_on_rates:
        # Of rewards without a model the trainer's own advantages are right.
        return replace(judged, rewards=rewards)
    return replace(judged, rewards=rewards, advantages=back(whole.advantages.to(dtype)))


def _with_other_components(posterior: Posterior, rewards: Float[Tensor, " n"], rows: NoisyRows) -> Posterior:
    """The posterior of whole rewards, of which the noisy component was judged; of a row without it the whole reward.

    Args:
        rewards: [N] as they came, in sorted order.
    """
    rest = tied_rewards(rewards.double(), rows.group) - rows.rewards.nan_to_num()
    observed = posterior.observed.nan_to_num() + rest
    return replace(posterior, observed=observed, offset=posterior.offset.nan_to_num() + rest)
