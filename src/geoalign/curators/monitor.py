"""A curator that only watches another one."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Bool
from pydantic import Field, field_validator
from torch import Generator, Tensor

from geoalign.curators.alarms import raise_alarm, warn
from geoalign.curators.appeals import Appeals
from geoalign.curators.curator import anomalous_share, identity
from geoalign.curators.holder import Holder
from geoalign.curators.random_checks import CHECKED_RATES, RandomChecks, draw_rows
from geoalign.curators.registry import CuratorSection, default_curator
from geoalign.curators.second_verifier import SecondVerifierGuard, ask, observed_rewards, questions_about
from geoalign.errors import ConfigError
from geoalign.intervals import Interval
from geoalign.method.bounds import false_negative_bounds, false_positive_bounds, judged_units, least_errors
from geoalign.method.groups import canonical_order
from geoalign.noise.error_rates import RATES, error_rates
from geoalign.noise.rows import NoisyRows, joined_batches, noisy_rows, two_values
from geoalign.settings import Count, CountOrNone, setting, settings
from geoalign.settings.problems import nearest
from geoalign.text import quote
from geoalign.types import Curation, Rollouts

_LOG = logging.getLogger(__name__)
# The metrics by the model of the verdicts, whose intervals are of the last `window` batches.
_MODELLED = ("true_positive_rate", *RATES)
_NO_SUCH_METRIC = (
    "monitor.bounds: in %s batches there was no metric %s, so its bound has raised no alarm%s: all names are in "
    "docs/metrics.md"
)


@settings
class MonitorConfig:
    """The settings of `Monitor`; in YAML `curator` is a section of its own, with its `type`."""

    type: ClassVar[str] = "monitor"

    curator: CuratorSection = setting(default_factory=lambda: default_curator("denoise"), help="The curator to log.")
    bounds: dict[str, float | Annotated[tuple[float, float], Field(strict=False)]] = setting(
        default_factory=dict, help="A metric's largest value, or [smallest, largest]; alarm: a whole interval outside."
    )
    window: Count = setting(default=10, help="Batches from which the verifier's error rates are estimated.")
    checks: CountOrNone = setting(default=0, help="Rows of a batch, drawn at random, that second_rewards judges.")
    check_window: Count = setting(default=100, help="Random checks after which both error rates get an interval.")

    @field_validator("bounds")
    @classmethod
    def _ends_in_order(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name, bound in value.items():
            if isinstance(bound, tuple) and bound[0] > bound[1]:
                raise ValueError(
                    f"expected [smallest, largest] for {quote(name)}, got [{bound[0]:g}, {bound[1]:g}], in which no "
                    "value lies"
                )
        return value


class Monitor(Holder[MonitorConfig]):
    """The scores, flags and metrics of another curator; no row, reward or weight is changed.

    Where rewards are verdicts it adds the verifier's `false_positive_rate`, `false_negative_rate` and `informedness` in
    the last batches, with 95% intervals `<name>_low` and `<name>_high` (`error_rates`), NaN where verdicts on equal
    answers do not tell them: then the rates are a guess, in which repeated errors are missing. `anomalous_share` is of
    the rows that the other curator scores. Of every metric with an interval `<name>_drift` is the change since the
    first window, once no batch is in both, with an interval of its own. Where at most one answer to a prompt is right,
    it adds what the verdicts of the last batches prove (`geoalign.method.bounds`): `least_false_positive_rate`,
    `least_false_negative_rate` and, of all verdicts, `least_wrong_share`.

    With `checks` it draws so many rows of each batch at random and has `second_rewards` judge them, which changes
    nothing. Their rates have intervals that hold for the whole run, and an alarm where one rises (`RandomChecks`).
    An `Appeals` within does the same with its own rows.

    A metric outside its bounds, with all of its interval if it has one, raises an alarm, once until its estimate is
    back inside; `alarms` counts those outside, those of the random checks, and those of the curator within. A NaN or
    missing metric raises none: after `window` batches a warning names the bounds on metrics that no batch had. A bound
    on `checked_...` rates is exceeded wrongly in at most one run in twenty, and one on a `least_...` metric never. Of
    the rates by the model, which are a guess, no such thing is known: a bound on one of them, or on its drift, counts
    as exceeded only once it was so in `window` batches in a row.

    The rates are of the verdicts that the inner curator declares to judge: of the first of its `components`, or of the
    whole reward, with answers read as it reads them, exclusive where it does not say.

    Args:
        config: its settings, or the curator alone; as a keyword, `curator`: as `Holder` says.

    Raises:
        ConfigError: `checks` are asked for around an `Appeals`, which asks the second verifier itself; or a bound has a
            smallest value above the largest.
    """

    headline = ("identified", "false_positive_rate", "false_negative_rate")

    kept = ("past", "first", "outside", "outside_for", "batches", "random_checks")

    def __init__(self, config: Any = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self.also_reads("answers", "response_keys", "trusted")
        self.acts_on = ()
        self.drops_rows = False
        self.recomputes_advantages = False
        self.absolute_advantages = False
        self.answer_reading = self._inner.answer_reading or "exclusive"
        self.pooled_batches = max(self._inner.pooled_batches, self.config.window)
        self._past: list[dict[str, Any]] = []
        # Of each metric with an interval: the batch in which it first had one, the estimate and both ends.
        self._first: dict[str, list[float]] = {}
        self._outside: list[str] = []
        # In how many batches in a row a metric was outside of its bound; of those that have been among the metrics.
        self._outside_for: dict[str, int] = {}
        self._batches = 0
        self._random_checks = RandomChecks(self.config.check_window)
        self._guard = SecondVerifierGuard()
        if self.config.checks:
            if any(isinstance(curator, Appeals) for curator in self.held_curators()):
                raise ConfigError(
                    "monitor.checks: expected 0 around appeals, which asks the second verifier itself; set "
                    "random_share of appeals instead"
                )
            self.requires = tuple(dict.fromkeys((*self.requires, "second_rewards")))
            self.also_reads("response_keys")

    def curate(self, rollouts: Rollouts, *, generator: Generator | None = None, details: bool = False) -> Curation:
        """What the inner curator says of the batch, and what the verdicts say of the verifier."""
        if self.config.checks:
            rollouts.require("second_rewards", by="Monitor")
        watched = self._inner.curate(rollouts, generator=generator, details=details)
        if not len(rollouts):
            return identity(rollouts)
        self._batches += 1
        share = anomalous_share(watched, rollouts)
        metrics = {**watched.metrics, "anomalous_share": share, **self._rates(rollouts)}
        alarms = watched.metrics.get("alarms", 0.0)
        if self.config.checks:
            checked = self._checked(rollouts, self.drawing_from(generator))
            alarms += checked["alarms"]
            metrics |= checked
        metrics |= self._drift(metrics)
        metrics["alarms"] = alarms + self._alarms(metrics)
        if self._batches == self.config.window:
            self._warn_of_bounds_on_nothing(metrics)
        return replace(
            identity(rollouts, metrics),
            scores=watched.scores,
            anomalous=watched.anomalous,
            details=watched.details,
        )

    def _rates(self, rollouts: Rollouts) -> dict[str, float]:
        """The error rates in the window of recent batches; where verdicts do not tell them their intervals are NaN."""
        given = rollouts.components or {}
        judged = [name for name in self.components if name in given]
        component = judged[0] if judged else None
        order = canonical_order(rollouts.rewards, rollouts.groups)
        rows = noisy_rows(rollouts, order, answers=self.answer_reading != "none", component=component)
        self._past = [*self._past, dict(vars(rows))][-self.config.window :]
        recent = joined_batches(self._past, 1.0)
        values = two_values(recent.rewards[recent.scored])
        if values is None:
            return {f"{name}_{end}": math.nan for name in _MODELLED for end in ("low", "high")}
        accepted = recent.rewards > sum(values) / 2
        verdict = accepted.double().masked_fill(~recent.scored, torch.nan)
        rates = error_rates(replace(recent, rewards=verdict), exclusive=self.answer_reading != "shared")
        _, false_negative, _ = rates.intervals
        true_positive = Interval(1 - false_negative.estimate, 1 - false_negative.high, 1 - false_negative.low)
        metrics = true_positive.as_metrics("true_positive_rate")
        for name, rate in zip(RATES, rates.intervals, strict=True):
            metrics |= rate.as_metrics(name)
        if self.answer_reading == "exclusive":
            metrics |= _proven(recent, accepted)
        return metrics

    def _checked(self, rollouts: Rollouts, generator: Generator) -> dict[str, float]:
        """Has rows that are drawn at random judged, and says what the checks of the training tell so far."""
        assert rollouts.second_rewards is not None
        drawn = draw_rows(rollouts, self.config.checks, generator)
        questions = questions_about(drawn, rollouts, among=drawn)
        guarded = replace(rollouts, second_rewards=self._guard.of(rollouts.second_rewards))
        verdicts = ask(questions, guarded, self._random_checks.seen_verdicts, observed_rewards(rollouts))
        self._guard.warn_of_unread(verdicts.unread)
        self._random_checks.add(rollouts, verdicts.rows, verdicts.values)
        checks = self._random_checks.metrics(len(verdicts.rows))
        return {**checks, "appeals_unanswered": float(verdicts.missing)}

    def _drift(self, metrics: dict[str, float]) -> dict[str, float]:
        """For each metric with an interval the difference b - a of its value now to its first one, with an interval.

        The ends are b - a - sqrt((b - b_low)^2 + (a_high - a)^2) and b - a + sqrt((b_high - b)^2 + (a - a_low)^2)
        (Newcombe 1998). There is one once no batch is in both windows.
        """
        drifts: dict[str, float] = {}
        for name in [each.removesuffix("_low") for each in metrics if each.endswith("_low")]:
            if name in CHECKED_RATES:
                # Their windows are others, and `RandomChecks` compares them.
                continue
            b = metrics.get(name, math.nan)
            b_low = metrics[f"{name}_low"]
            b_high = metrics.get(f"{name}_high", math.nan)
            # The inner curator may pool more batches than this one.
            window = self.config.window if name in _MODELLED else self.pooled_batches
            if self._batches < window or math.isnan(b + b_low + b_high):
                continue
            batch, a, a_low, a_high = self._first.setdefault(name, [self._batches, b, b_low, b_high])
            if self._batches >= batch + window:
                drift = b - a
                low = drift - math.hypot(b - b_low, a_high - a)
                high = drift + math.hypot(b_high - b, a - a_low)
                drifts |= Interval(drift, low, high).as_metrics(f"{name}_drift")
        return drifts

    def _alarms(self, metrics: dict[str, float]) -> int:
        """How many metrics are outside of their bounds; raises an alarm for those that have just left them."""
        for name, bound in self.config.bounds.items():
            if name not in metrics and name not in self._outside_for:
                # It has not been among the metrics so far.
                continue
            least, greatest = bound if isinstance(bound, tuple) else (-math.inf, bound)
            value = metrics.get(name, math.nan)
            low = metrics.get(f"{name}_low", value)
            high = metrics.get(f"{name}_high", value)
            is_outside = low > greatest or high < least
            self._outside_for[name] = self._outside_for.get(name, 0) + 1 if is_outside else 0
            is_modelled = name.removesuffix("_drift") in _MODELLED
            patience = self.config.window if is_modelled else 1
            if name not in self._outside and self._outside_for[name] >= patience:
                self._outside.append(name)
                span = f" ({low:.3g} to {high:.3g})" if low < high else ""
                where = f"in batch {self._batches}, outside of {bound}"
                raise_alarm(f"{name} is outside of its bound", f"{name} is {value:.3g}{span} {where}")
            elif name in self._outside and least <= value <= greatest:
                self._outside.remove(name)
        return len(self._outside)

    def _warn_of_bounds_on_nothing(self, metrics: Mapping[str, float]) -> None:
        """Names the bounded metrics that no batch had, each with the nearest one that there is."""
        rates = [name.removesuffix("_low") for name in metrics if name.endswith("_low")]
        # Where rewards were no verdicts only the ends of their rates are among the metrics, and a drift comes later.
        known = {*metrics, *rates, *(f"{name}_drift" for name in rates)}
        for name in self.config.bounds:
            if name in known or name in self._outside_for:
                continue
            near = nearest(name, sorted(known))
            hint = f" (nearest: {near})" if near else ""
            warn(_LOG, _NO_SUCH_METRIC, self._batches, quote(name), hint)


def _proven(rows: NoisyRows, accepted: Bool[Tensor, " n"]) -> dict[str, float]:
    """The least that both rates and the share of wrong verdicts can be; trusted rows are left out."""
    judged = rows.scored & ~rows.trusted
    units = judged_units(
        accepted=accepted[judged],
        group=rows.group[judged],
        unit=rows.answer[judged],
        excludes=(rows.answered & rows.exclusive)[judged],
        truth=torch.full((int(judged.sum()),), torch.nan),
    )
    return {
        "least_false_positive_rate": false_positive_bounds(units).low,
        "least_false_negative_rate": false_negative_bounds(units).low,
        "least_wrong_share": least_errors(units) / max(int(judged.sum()), 1),
    }
