"""What binary rewards say of the verifier that gave them, and of the gold answers that it compared with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.functional import jacobian

from geoalign.curators.denoise.model import Units, by_verdict, verdict_units
from geoalign.curators.denoise.rows import NoisyRows, joined, noisy_rows, total
from geoalign.method.groups import canonical_order
from geoalign.method.intervals import Interval, t_quantile
from geoalign.types import Rollouts, response_keys

LEVEL = 0.95
# An answer is agreed on from so many rollouts, and so large a share of those of its prompt, on.
LEAST_COUNT, LEAST_SHARE = 3, 0.5
# Prompts that are listed.
LISTED = 1000


def agreed_answers(frame: pandas.DataFrame) -> pandas.DataFrame:
    """The most frequent answers that enough of a prompt's rollouts agree on, one row a group, of the rollouts of a
    step.

    `index` is the group's first rollout in the output, `share` is of its rollouts with a reward, `best` and
    `others_best` are the highest rewards of those that give the answer and of the others.
    """
    scored = frame[frame["reward"].notna()]
    given = scored[scored["final_answer"].notna()].groupby(["group", "final_answer"], sort=False)["reward"]
    found = given.agg(count="size", best="max").reset_index()
    # Of answers given equally often the first.
    found = found.loc[found.groupby("group", sort=False)["count"].idxmax()] if len(found) else found
    found["share"] = found["count"] / found["group"].map(scored.groupby("group").size())
    found = found[(found["count"] >= LEAST_COUNT) & (found["share"] >= LEAST_SHARE)].set_index("group")
    others = scored[scored["final_answer"] != scored["group"].map(found["final_answer"])]
    first = frame.reset_index(names="index").drop_duplicates("group").set_index("group").loc[found.index]
    return pandas.DataFrame(
        {
            "step": first["step"],
            "group": found.index,
            "index": first["index"],
            "answer": found["final_answer"],
            "gold": first["answer"],
            "count": found["count"],
            "share": found["share"],
            "best": found["best"],
            "others_best": others.groupby("group")["reward"].max().reindex(found.index),
        }
    ).reset_index(drop=True)


def verdict_counts(
    label: Int[Tensor, " n"], group: Int[Tensor, " n"], right: Bool[Tensor, " n"], counted: Bool[Tensor, " n"]
) -> tuple[int, int]:
    """Groups in which counted rows of one label (an answer or response, unique over groups) got two verdicts or more,
    and groups in which these were not all the same."""
    size = int(label.max()) + 1 if len(label) else 0
    yes = torch.bincount(label[counted & right], minlength=size)
    no = torch.bincount(label[counted & ~right], minlength=size)
    of_label = label.new_zeros(size)
    of_label[label] = group
    repeated, mixed = yes + no >= 2, (yes > 0) & (no > 0)
    return len(of_label[repeated].unique()), len(of_label[mixed].unique())


def error_rates(rows: NoisyRows, *, level: float = LEVEL) -> list[Interval] | None:
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
    units, of, times = _distinct(rows, verdict_units(rows, torch.zeros_like(verdict), verdict, known, exclusive=True))
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
    kinds = torch.cat([torch.stack([count, judged.double()], dim=1), units.counts], dim=1).unique(
        dim=0, return_inverse=True
    )[1]
    # Two groups are alike where the sums of 62 random bits for each kind of unit are equal.
    codes = torch.randint(2**62, (int(kinds.max()) + 1,), generator=torch.Generator().manual_seed(0))
    alike = torch.zeros(int(group.max()) + 1, dtype=torch.long).index_add(
        0, group, codes[kinds] * (judged | (count > 0))
    )
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


class VerdictAudit:
    """Collects the rollouts of one call of the command, step by step, while their rewards are binary."""

    def __init__(self) -> None:
        self._values: set[float] = set()
        self._batches: list[dict[str, Any]] = []
        self._agreed: list[pandas.DataFrame] = []

    def add(self, frame: pandas.DataFrame) -> None:
        """Takes the rollouts of a step: groups unique over steps, the index of the frame that of the output."""
        self._values |= set(frame["reward"].dropna().unique().tolist())
        if len(self._values) > 2:
            self._batches, self._agreed = [], []
            return
        # A dump may come without its texts.
        keys = response_keys(frame["response"]) if all(frame["response"]) else None
        rollouts = Rollouts(
            rewards=torch.tensor(frame["reward"].to_numpy()),
            groups=torch.tensor(frame["group"].to_numpy()),
            answers=frame["final_answer"].tolist(),
            response_keys=keys,
        )
        order = canonical_order(rollouts.rewards, rollouts.groups)
        self._batches.append(vars(noisy_rows(rollouts, order, answers=True)))
        self._agreed.append(agreed_answers(frame))

    def summary(self, *, redact: bool) -> dict[str, Any]:
        """`verifier` and `prompts` of `summary.json`; of rewards that say nothing of a verifier the reason."""
        if len(self._values) != 2:
            reason = "Rewards are not binary." if self._values else "No rollout has a reward."
            return {"verifier": {"reason": "All rewards are equal." if len(self._values) == 1 else reason}}
        rows, high = joined(self._batches, 1.0), max(self._values)
        right, answered = rows.rewards == high, rows.scored & rows.answered
        of_answers = verdict_counts(rows.answer, rows.group, right, answered)
        of_responses = verdict_counts(rows.response, rows.group, right, rows.scored)
        if not (answered.any() or of_responses[0]):
            return {"verifier": {"reason": "No rollout has an answer, and no response to a prompt was given twice."}}
        rates = error_rates(rows)
        names = ("false_positive_rate", "false_negative_rate", "informedness")
        return {
            "verifier": {
                "groups": int(rows.group.max()) + 1,
                "answered": int(answered.sum()),
                "groups_with_repeated_answers": of_answers[0],
                "groups_with_answers_judged_both_ways": of_answers[1],
                "groups_with_repeated_responses": of_responses[0],
                "groups_with_responses_judged_both_ways": of_responses[1],
                "rates": None if rates is None else {n: vars(rate) for n, rate in zip(names, rates, strict=True)},
                "interval": "influence of each group on the fit, Student's t",
                "level": LEVEL,
            },
            "prompts": self._prompts(high, redact=redact) if answered.any() else None,
        }

    def _prompts(self, high: float, *, redact: bool) -> dict[str, Any]:
        agreed = pandas.concat(self._agreed)
        refused = agreed[agreed["best"] < high].sort_values(
            ["share", "count", "group"], ascending=[False, False, True], kind="stable"
        )
        listed = refused[:LISTED].assign(other_rewarded=refused["others_best"] == high)
        listed = listed.drop(columns=["best", "others_best"]).astype(object)
        if redact:
            listed[["answer", "gold"]] = None
        counts = {"refused": len(refused), "least_count": LEAST_COUNT, "least_share": LEAST_SHARE}
        return {**counts, "listed": listed.to_dict("records")}
