"""The units of evidence of the noise model: an answer of a prompt, with the verdicts on it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.noise.channel import LIMIT, Fit, starts_of
from geoalign.noise.rows import NoisyRows, total

# Pseudo-counts of a group's Beta rate: of two rows the other's verdict must not outweigh a row's own.
_RATE = 4.0


# Pseudo-count of pairs of verdicts on one unit that err independently.
_PAIRS = 4.0


# Prior means of theta: answered, log share of the answer, z, a group without answers, its log-odds of being rewarded.
_THETA = torch.tensor([0.0, 1.0, 0.0, 0.0, 1.0], dtype=torch.float64)


# Lower bounds of theta: a negative weight of z would explain the very rewards that z contradicts.
_LEAST = torch.tensor([-torch.inf, -torch.inf, 0.0, -torch.inf, -torch.inf], dtype=torch.float64)


# Log-odds of a response without an answer among answers. Not fitted: a verifier that rewards such would raise them.
_UNANSWERED = -3.0


@dataclass(frozen=True, eq=False)
class Units:
    """C answers or responses, each right or wrong, with the verdicts on their rows."""

    unit: Int[Tensor, " n"]  # of each row
    group: Int[Tensor, " c"]
    counts: Float[Tensor, "c 2"]  # of verdicts 0 and 1
    known: Float[Tensor, " c"]  # log-odds that trusted rows add
    features: Float[Tensor, "c f"]
    offset: Float[Tensor, " c"]  # log-odds that are not fitted, beside theta' x
    weight: Float[Tensor, " c"]
    exclusive: Int[Tensor, " c"]  # of the units with one label at most one is right
    start: Float[Tensor, " f"]  # prior mean of theta
    least: Float[Tensor, " f"]  # lower bound of theta
    pseudo: tuple[float, float]  # counts of kept verdicts, and of replaced ones of each value

    def probabilities(self, fit: Fit) -> tuple[Float[Tensor, " c"], Float[Tensor, " c"]]:
        """Prior and posterior P(right) of each unit."""
        odds, evidence = self.features @ fit.theta + self.offset, fit.ratio.log() * torch.tensor([-1.0, 1.0]).double()
        return self._shares(odds), self._shares(odds + self.independent(fit) @ evidence + self.known)

    def fit(self, earlier: dict[str, Tensor], rounds: int = 60) -> Fit:
        """EM: e and q with pseudo-counts, rho by the mixed pairs, theta by Newton steps around its prior mean."""
        x, weight, half = self.features, self.weight, torch.full((2,), 0.5).double()
        first = [Fit(self.start, torch.tensor(0.4, dtype=torch.float32).double(), half, 0 * half[0], half)]
        (fit,), rounds = starts_of(earlier, first, rounds)
        for _ in range(rounds):
            (likely, right), before = self.probabilities(fit), fit
            gradient = x.T @ (weight * (right - likely)) - (fit.theta - self.start)
            # Units of an exclusive group have equal weights.
            shared = x.new_zeros(int(self.exclusive.max()) + 1, x.shape[1])
            shared = shared.index_add(0, self.exclusive, x * (likely * weight.sqrt())[:, None])
            hessian = x.T @ (x * (weight * likely)[:, None]) - shared.T @ shared + torch.eye(x.shape[1]).double()
            truth, counts = torch.stack([1 - right, right], dim=1), self.independent(fit)
            fit = fit.with_channel(weight @ counts, weight @ (counts * truth), *self.pseudo)
            size, errors = self.counts.sum(dim=1), fit.e * fit.q.flip(0)
            expected = truth.T @ (weight * (size.square() - size)) @ (errors * (1 - errors)) + _PAIRS
            mixed = (weight @ self.counts.prod(dim=1) + _PAIRS) / expected
            theta = torch.maximum(fit.theta + torch.linalg.solve(hessian, gradient), self.least)
            fit = fit._replace(theta=theta, rho=(1 - mixed).clamp(0, 1))
            if fit.is_near(before):
                break
        return fit

    def independent(self, fit: Fit) -> Float[Tensor, "c 2"]:
        """The effective counts, n / (1 + (n - 1) rho)."""
        return self.counts / (1 + (self.counts.sum(dim=1, keepdim=True) - 1).clamp(min=0) * fit.rho)

    def _shares(self, odds: Float[Tensor, " c"]) -> Float[Tensor, " c"]:
        """P(right): a softmax over the units of an exclusive group and "none of them"."""
        none = odds.new_zeros(int(self.exclusive.max()) + 1)
        highest = none.scatter_reduce(0, self.exclusive, odds.detach(), "amax")
        likely = (odds - highest[self.exclusive]).exp()
        return likely / (-highest).exp().index_add(0, self.exclusive, likely)[self.exclusive]


def verdict_units(
    rows: NoisyRows, z: Float[Tensor, " n"], verdict: Float[Tensor, " n"], judged: Bool[Tensor, " n"], exclusive: bool
) -> Units:
    """The units of the rows; `exclusive`: at most one answer of a group is right."""
    unit, compared = rows.answer, judged & ~rows.trusted
    size = total(torch.ones_like(z), unit)
    group = torch.zeros(len(size), dtype=torch.long).index_put((unit,), rows.group)
    answered = total(rows.answered, unit) > 0
    alone = ~answered & (total(rows.lacking, unit) == 0)
    # Beta rate of the verdicts on the rest of the group: one that held the unit's own would explain their errors.
    rest = by_verdict(rows.group, verdict, judged)[group] - by_verdict(unit, verdict, judged) + _RATE
    share = (size / total(torch.ones_like(z), rows.group)[group]).log()
    rate = (rest[:, 1] / rest[:, 0]).log()
    features = [answered, answered * share, total(z, unit) / size, alone, alone * rate]
    own, told = len(group) + torch.arange(len(group)), float(answered.double().mean())
    return Units(
        unit=unit,
        group=group,
        counts=by_verdict(unit, verdict, compared),
        known=LIMIT * total((2 * verdict - 1) * (judged & rows.trusted), unit),
        features=torch.stack([each.double() for each in features], dim=1),
        offset=_UNANSWERED * ~(answered | alone),
        # Such rows are held to be wrong, so that each reward of one would raise the false positive rate: they count 0.
        weight=total(rows.weights, unit) / size * (answered | alone),
        exclusive=torch.where(answered & exclusive, group, own).unique(return_inverse=True)[1],
        start=_THETA,
        least=_LEAST,
        # Answers identify e and q. Without them only the curvature of the log-odds in z does, and with rates that are
        # too optimistic z would go unused.
        pseudo=(2 + 4 * told, 4 - 2 * told),
    )


def by_verdict(label: Int[Tensor, " n"], verdict: Float[Tensor, " n"], of: Bool[Tensor, " n"]) -> Float[Tensor, "m 2"]:
    """[M, 2] the number of the rows `of` with verdicts 0 and 1, by label."""
    return torch.stack([total(of * (1 - verdict), label), total(of * verdict, label)], dim=1)
