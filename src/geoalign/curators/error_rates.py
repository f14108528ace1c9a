"""How often the verifier behind binary rewards errs, by its verdicts alone."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor
from torch.autograd.functional import jacobian

from geoalign.curators.denoise.model import Units, by_verdict, verdict_units
from geoalign.curators.denoise.rows import NoisyRows, total
from geoalign.method.intervals import Interval, t_quantile

LEVEL = 0.95
RATES = ("false_positive_rate", "false_negative_rate", "informedness")


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
        each = fit._replace(theta=psi[2:], e=wrong.sum(), q=wrong / wrong.sum())
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

    missed, false = fit.e * fit.q
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
    # A rate of nearly 0 hardly varies from group to group: at least the bound of as many verdicts without an error.
    high[:2] = torch.maximum(high[:2], 1 - (1 - level) ** (1 / right.clamp(min=1e-30)))
    low[:2], high = low[:2].clamp(min=0), high.clamp(max=1)
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
    codes = torch.randint(2**62, (int(kinds.max()) + 1,), generator=Generator().manual_seed(0))
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
    told = torch.cat([told, units.features[:, 3:4]], dim=1)
    start = torch.nn.functional.one_hot(torch.tensor(1), told.shape[1]) * units.start[1]
    of = pattern[group[kept]]
    distinct = replace(
        units,
        group=of,
        counts=units.counts[kept],
        known=units.known[kept],
        features=told[kept],
        offset=units.offset[kept],
        weight=times[of].double(),
        exclusive=units.exclusive[kept].unique(return_inverse=True)[1],
        start=start,
        least=torch.full_like(start, -torch.inf),
    )
    return distinct, of, times.double()
