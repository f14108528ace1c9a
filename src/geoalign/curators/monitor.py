"""A curator that only watches another one, and the error rates of the verifier behind binary rewards."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from torch.autograd.functional import jacobian

from geoalign.curators.base import Curator, identity
from geoalign.curators.denoise.model import Units, by_verdict, verdict_units
from geoalign.curators.denoise.rows import NoisyRows, joined, noisy_rows, total, two_values
from geoalign.curators.registry import CuratorSection, default_curator, make_curator
from geoalign.method.groups import canonical_order
from geoalign.method.intervals import Interval, t_quantile
from geoalign.settings import Count, setting, settings
from geoalign.types import Curation, Rollouts

_LOG = logging.getLogger(__name__)
LEVEL = 0.95
RATES = ("false_positive_rate", "false_negative_rate", "informedness")


@settings
class MonitorConfig:
    """The settings of `Monitor`; in YAML `curator` is a section of its own, with its `type`."""

    type: ClassVar[str] = "monitor"

    curator: CuratorSection = setting(
        default_factory=lambda: default_curator("denoise"), help="The curator that watches."
    )
    bounds: dict[str, float | Annotated[tuple[float, float], Field(strict=False)]] = setting(
        default_factory=dict, help="Metric to its greatest value, or to [least, greatest]; of an interval both ends."
    )
    window: Count = setting(default=10, help="Batches of which the verifier's error rates are estimated.")


class Monitor(Curator[MonitorConfig]):
    """The scores, flags and metrics of another curator; no row, reward or weight is changed.

    Where rewards are verdicts it adds the verifier's `false_positive_rate`, `false_negative_rate` and `informedness` in
    the last batches, with 95% intervals `<name>_low` and `<name>_high` (`error_rates`), NaN where neither answers nor
    contradictions tell them. `anomalous_share` is of scored rows. Of every metric with an interval `<name>_drift` is
    the change since the first window, once no batch is in both, with an interval of its own.

    A metric that leaves its bounds, its interval where it has one, is logged as a warning, once until its estimate is
    back; `alarms` counts those outside. NaN, and what the inner curator does not give in a batch, leaves no bound.
    As a keyword `curator` may be a curator itself.
    """

    kept = ("past", "first", "outside", "batches")

    def __init__(self, config: MonitorConfig | None = None, **settings: Any) -> None:
        inner = settings.get("curator")
        if isinstance(inner, Curator):
            settings["curator"] = inner.config
        super().__init__(config, **settings)
        self._inner = inner if isinstance(inner, Curator) else make_curator(self.config.curator)
        self.members, self.requires = (self._inner,), self._inner.requires
        self.optional = tuple(dict.fromkeys((*self._inner.optional, "answers", "response_keys")))
        self._past: list[dict[str, Any]] = []
        # Of each metric with an interval the batch in which it was first told, and what.
        self._first: dict[str, list[float]] = {}
        self._outside: list[str] = []
        self._batches = 0

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """What the inner curator says of the batch, and what the verdicts say of the verifier."""
        seen = self._inner.curate(rollouts, generator=generator, details=details)
        if not len(rollouts):
            return identity(rollouts)
        self._batches += 1
        share = seen.anomalous[~rollouts.rewards.isnan()].double().mean()
        metrics = {**seen.metrics, "anomalous_share": float(share), **self._rates(rollouts)}
        metrics |= self._drift(metrics)
        metrics["alarms"] = float(self._alarms(metrics))
        plain = identity(rollouts, metrics)
        return replace(plain, scores=seen.scores, anomalous=seen.anomalous, details=seen.details)

    def _rates(self, rollouts: Rollouts) -> dict[str, float]:
        """The error rates in the window of recent batches; where they cannot be told their intervals are NaN."""
        answers, component = (getattr(self._inner.config, name, "") for name in ("answers", "component"))
        part = component if component in (rollouts.components or {}) else None
        order = canonical_order(rollouts.rewards, rollouts.groups)
        rows = noisy_rows(rollouts, order, answers=answers != "none", component=part)
        self._past = [*self._past, dict(vars(rows))][-self.config.window :]
        recent = joined(self._past, 1.0)
        rates = None
        if (values := two_values(recent.rewards[recent.scored])) is not None:
            verdict = (recent.rewards > sum(values) / 2).double().masked_fill(~recent.scored, torch.nan)
            rates = error_rates(replace(recent, rewards=verdict), exclusive=answers != "shared")
        if rates is None:
            return {f"{name}_{end}": math.nan for name in RATES for end in ("low", "high")}
        told = {"true_positive_rate": 1 - rates[1].estimate}
        for name, rate in zip(RATES, rates, strict=True):
            told |= rate.named(name)
        return told

    def _drift(self, metrics: dict[str, float]) -> dict[str, float]:
        """The differences d = b - a of intervals now to the first ones, their ends d -+ sqrt(reach_b^2 + reach_a^2)
        with the reaches on either side (Newcombe 1998)."""
        found: dict[str, float] = {}
        for name in [each.removesuffix("_low") for each in metrics if each.endswith("_low")]:
            b, low, high = (metrics.get(name + end, math.nan) for end in ("", "_low", "_high"))
            if self._batches >= self.config.window and not math.isnan(b + low + high):
                batch, a, a_low, a_high = self._first.setdefault(name, [self._batches, b, low, high])
                if self._batches >= batch + self.config.window:
                    ends = b - a - math.hypot(b - low, a_high - a), b - a + math.hypot(high - b, a - a_low)
                    found |= Interval(b - a, *ends).named(f"{name}_drift")
        return found

    def _alarms(self, metrics: dict[str, float]) -> int:
        """How many metrics are outside of their bounds; logs those that have just left them."""
        for name, bound in self.config.bounds.items():
            least, greatest = bound if isinstance(bound, tuple) else (-math.inf, bound)
            value = metrics.get(name, math.nan)
            low, high = (metrics.get(f"{name}_{end}", value) for end in ("low", "high"))
            if name not in self._outside and (low > greatest or high < least):
                self._outside.append(name)
                span = f" ({low:.3g} to {high:.3g})" if low < high else ""
                _LOG.warning("%s is %.3g%s in batch %d, outside of %s", name, value, span, self._batches, bound)
            elif name in self._outside and least <= value <= greatest:
                self._outside.remove(name)
        return len(self._outside)


def error_rates(rows: NoisyRows, *, exclusive: bool = True, level: float = LEVEL) -> list[Interval] | None:
    """False positive rate, false negative rate and J = 1 - both, by the model of noisy verdicts alone, without states.

    With t_u the posterior probability that unit u (one answer or response to a prompt) is right, n_u its rows and v_u
    those of them that were rewarded (`geoalign.curators.denoise.model`),

        FPR = sum (1 - t) v / sum (1 - t) n,   FNR = sum t (n - v) / sum t n,

    the model's rates without the pseudo-counts that hold them where verdicts are few: a verifier that contradicts
    nothing has rates of nearly 0, not those of the prior. Rows alone in their group say nothing of the verifier and are
    left out, as are those with neither an answer nor a response that got both verdicts.

    Intervals take groups as independent: with psi = (TPR, FPR, theta), s_g the gradient of a group's log-likelihood
    (by Fisher's identity that of its complete data, expected under t) and H the Hessian of the penalised sum, leaving a
    group out moves psi by H^-1 s_g, so the influence of a group on a sum N of the above is N_g - (dN / dpsi) H^-1 s_g;
    Student's t on one degree of freedom less than groups. The verifier's rates are cut to [0, 1].

    Where no answer or response got both verdicts no error is seen: rates of 0 to 1 - (1 - level)^(1 / n), below which
    n verdicts on refused answers given twice, or on rewarded ones, would all have been right by chance.

    None where nothing tells wrong verdicts from right ones: no answers, and no response with both verdicts.
    """
    verdict, groups = (rows.rewards == rows.rewards.nan_to_num(-torch.inf).max()).double(), int(rows.group.max()) + 1
    contradicted = (by_verdict(rows.response, verdict, rows.scored) > 0).all(dim=1)[rows.response]
    known = rows.accompanied & (rows.answered | contradicted)
    if not bool(known.any()):
        return None
    units, of, times = _distinct(rows, verdict_units(rows, torch.zeros_like(verdict), verdict, known, exclusive))
    if not bool((units.counts > 0).all(dim=1).any()):
        repeated = units.weight * (units.counts.sum(dim=1) >= 2)
        ends = [1 - (1 - level) ** (1 / count) if count else 1.0 for count in (repeated @ units.counts).tolist()]
        return [*(Interval(0.0, 0.0, end) for end in ends), Interval(1.0, max(1 - sum(ends), -1.0), 1.0)]
    fit, (kept, replaced) = units.fit({}, rounds=1000), units.pseudo
    (refused, rewarded), (no, yes) = units.counts.unbind(1), units.independent(fit).unbind(1)

    def by_groups(psi: Tensor) -> tuple[Tensor, Tensor]:
        """[G, 4] the sums, and [G, F + 2] the gradients of the log-likelihoods."""
        wrong = torch.stack([1 - psi[0], psi[1]])
        each = fit._replace(theta=psi[2:], replaced=wrong.sum(), anywhere=wrong / wrong.sum())
        before, after = units.probabilities(each)
        every = refused + rewarded
        counts = torch.stack([(1 - after) * rewarded, (1 - after) * every, after * refused, after * every], dim=1)
        rates = [after * (yes / psi[0] - no / (1 - psi[0])), (1 - after) * (yes / psi[1] - no / (1 - psi[1]))]
        scores = torch.cat([torch.stack(rates, dim=1), units.features * (after - before)[:, None]], dim=1)
        sums, gradients = counts.new_zeros(len(times), 4), scores.new_zeros(len(times), len(psi))
        return sums.index_add(0, of, counts), gradients.index_add(0, of, scores)

    def totals(psi: Tensor) -> tuple[Tensor, Tensor]:
        """The sums over all groups, and the gradient of the penalised log-likelihood."""
        sums, scores = by_groups(psi)
        apart = kept / (psi[0] - psi[1])
        prior = torch.stack([apart - replaced / (1 - psi[0]), replaced / psi[1] - apart])
        return times @ sums, times @ scores + torch.cat([prior, units.start - psi[2:]])

    missed, false = fit.replaced * fit.anywhere
    psi = torch.cat([torch.stack([1 - missed, false]), fit.theta])
    (sums, score), (slope, hessian) = by_groups(psi), jacobian(totals, psi)
    influence = sums - (slope @ torch.linalg.solve(hessian, score.T)).T
    wrong, right = (times @ sums).view(2, 2).unbind(1)
    rates = wrong / right.clamp(min=1e-30)
    errors = (influence[:, ::2] - rates * influence[:, 1::2]) / right.clamp(min=1e-30)
    estimates = torch.cat([rates, 1 - rates.sum().view(1)])
    errors = torch.cat([errors, -errors.sum(dim=1, keepdim=True)], dim=1)
    spread = (times @ errors.square() - (times @ errors).square() / groups) / max(groups - 1, 1)
    reach = t_quantile(level, groups - 1) * (spread.clamp(min=0) * groups).sqrt()
    low, high = estimates - reach, estimates + reach
    low[:2], high[:2] = low[:2].clamp(min=0), high[:2].clamp(max=1)
    return [Interval(*figures) for figures in zip(*(each.tolist() for each in (estimates, low, high)), strict=True)]


def _distinct(rows: NoisyRows, units: Units) -> tuple[Units, Int[Tensor, " c"], Float[Tensor, " p"]]:
    """The units with verdicts, groups with equal counts of verdicts as one: with the group of each unit, and how many
    groups each stands for.

    Of n rows of an answer among N answered ones, o of the most frequent other answer and A answers, its log-odds are a
    function of log n/N and log (n + 1/2) / (o + 1/2), their squares, log A and n = 1: of counts alone, so that the
    verdicts are independent of them given the truth.
    """
    judged = units.counts.sum(dim=1) > 0
    group = torch.zeros(len(judged), dtype=torch.long).index_put((units.unit,), rows.group)
    count = total(rows.answered, units.unit)
    kinds = torch.cat([torch.stack([count, judged.double()], dim=1), units.counts], dim=1)
    kinds = kinds.unique(dim=0, return_inverse=True)[1]
    # Two groups are alike where the sums of 62 random bits for each kind of unit are equal.
    codes = torch.randint(2**62, (int(kinds.max()) + 1,), generator=torch.Generator().manual_seed(0))
    alike = torch.zeros(int(group.max()) + 1, dtype=torch.long)
    alike = alike.index_add(0, group, codes[kinds] * (judged | (count > 0)))
    pattern, times = alike.unique(return_inverse=True, return_counts=True)[1:]
    first = torch.full((len(times),), len(pattern)).scatter_reduce(0, pattern, torch.arange(len(pattern)), "amin")
    kept = judged & (first[pattern[group]] == group)
    n, answered = count.clamp(min=1), (count > 0).double()
    most = count.new_zeros(len(pattern)).scatter_reduce(0, group, count, "amax")[group]
    leads = count == most
    second = count.new_zeros(len(pattern)).scatter_reduce(0, group, count.masked_fill(leads, 0), "amax")[group]
    other = torch.where(leads & (total(leads, group)[group] == 1), second, most)
    share = (n / total(rows.answered, rows.group)[group].clamp(min=1)).log()
    ahead, answers = ((n + 0.5) / (other + 0.5)).log(), total(answered, group)[group].clamp(min=1).log()
    features = [answered, share, share.square(), ahead, ahead.square(), answers, (count == 1).double()]
    told = torch.stack(features, dim=1) * answered[:, None]
    told = torch.cat([told, units.features[:, 3:5]], dim=1)
    start = units.start.new_zeros(told.shape[1]).index_put((torch.tensor([1, 7]),), units.start[[1, 3]])
    of = pattern[group[kept]]
    distinct = replace(
        units, counts=units.counts[kept], known=units.known[kept], features=told[kept],
        weight=times[of].double(), exclusive=units.exclusive[kept].unique(return_inverse=True)[1], start=start,
    )  # fmt: skip
    return distinct, of, times.double()
