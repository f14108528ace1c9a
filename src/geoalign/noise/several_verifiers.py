"""Error rates of several verifiers at once, without labels, where at most one answer to a prompt is right.

A unit u is an answer to a prompt g: n_u of the prompt's N_g rollouts gave it. It is right (t_u = 1) with log-odds

    s_u = c_0 + c_1 log(n_u / N_g) + c_2 log(number of answers to g)

before anybody judges, and at most one unit of a prompt is. Verifier k accepts it with probability

    P(v_uk = 1 | t, z) = sigmoid(a_tk + b_tk z),      z ~ N(0, 1),

where z is how deceptive the unit is: verifiers that share it err together. The copies of an answer are one vote, the
mean of their verdicts. With L_tu the probability of the unit's verdicts, the likelihood of a prompt is

    sum_u log L_0u + log(1 + sum_u exp(s_u) L_1u / L_0u) - log(1 + sum_u exp(s_u)).

The model has several modes: verifiers that collude look like good ones that agree. So it is fitted from each verifier
taken for the truth in turn, and every mode that explains the verdicts nearly as well as the best is returned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import minimize
from torch import Tensor

from geoalign.errors import InputError

LEAST_VERIFIERS = 4
# Modes whose log posterior is so much smaller than the best one's explain the verdicts nearly as well.
MODE_MARGIN = 5.0
# Standard deviations of the normal priors of a, b and c.
_PRIOR_OF_A, _PRIOR_OF_B, _PRIOR_OF_C = 3.0, 1.0, 3.0
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)


@dataclass(frozen=True)
class VerdictUnits:
    """Answers to prompts with what each verifier says of them.

    Attributes:
        verdicts: [U, K] the mean verdict of each verifier on the copies of the answer, in [0, 1]; NaN where it judged
            none.
        prompts: [U] the number of the prompt, from 0.
        copies: [U] how many rollouts gave the answer.
        sizes: [U] how many rollouts the prompt has, those without an answer among them.
    """

    verdicts: Float[Tensor, "u k"]
    prompts: Int[Tensor, " u"]
    copies: Int[Tensor, " u"]
    sizes: Int[Tensor, " u"]


@dataclass(frozen=True)
class VerifierMode:
    """One way to explain the verdicts.

    Attributes:
        log_posterior: how well it does; a constant is left out.
        chance_right: [U] the probability that each unit is right.
        false_positive_rates: [K] of each verifier, over the rollouts with an answer.
        false_negative_rates: [K]
    """

    log_posterior: float
    chance_right: Float[Tensor, " u"]
    false_positive_rates: Float[Tensor, " k"]
    false_negative_rates: Float[Tensor, " k"]

    @property
    def balanced_accuracies(self) -> Float[Tensor, " k"]:
        """[K] the mean of the shares of right and of wrong rollouts that each verifier judges as they are."""
        return 1 - (self.false_positive_rates + self.false_negative_rates) / 2


def verifier_modes(units: VerdictUnits) -> list[VerifierMode]:
    """The ways to explain what several verifiers say, the best first; those within MODE_MARGIN of it.

    Raises:
        InputError: fewer than four verifiers, with which the model is not identified.
    """
    verifiers = units.verdicts.shape[1]
    if verifiers < LEAST_VERIFIERS:
        raise InputError(f"expected at least {LEAST_VERIFIERS} verifiers, got {verifiers}: fewer do not tell who errs")
    model = _Model(units)
    modes: list[VerifierMode] = []
    for trusted in range(verifiers):
        mode = model.fit(start=model.start(trusted))
        known = [float((mode.chance_right - other.chance_right).abs().max()) < 0.05 for other in modes]
        if not any(known):
            modes.append(mode)
    modes.sort(key=lambda mode: -mode.log_posterior)
    return [mode for mode in modes if mode.log_posterior > modes[0].log_posterior - MODE_MARGIN]


class _Model:
    """The likelihood of the units, and its maximisation."""

    def __init__(self, units: VerdictUnits) -> None:
        self.units = units
        judged = ~units.verdicts.isnan()
        verdicts = units.verdicts.nan_to_num(0.0).double()
        # A verdict that was not given is neither.
        self.accepted = torch.where(judged, verdicts, 0.0)
        self.refused = torch.where(judged, 1 - verdicts, 0.0)
        answers = torch.bincount(units.prompts)[units.prompts].double()
        self.design = torch.stack(
            [torch.ones_like(answers), (units.copies / units.sizes).double().log(), answers.log()], dim=1
        )
        self.nodes = torch.from_numpy(_NODES)
        self.log_weights = torch.from_numpy(np.log(_WEIGHTS / _WEIGHTS.sum()))
        self.prompts = int(units.prompts.max()) + 1

    def start(self, trusted: int) -> np.ndarray:
        """Parameters as if one verifier's verdicts were the truth: the shares that the others accept of either kind."""
        right = self.accepted[:, trusted]
        logits = []
        for kind in (1 - right, right):
            accepted = (kind[:, None] * self.accepted).sum(dim=0) + 0.5
            refused = (kind[:, None] * self.refused).sum(dim=0) + 0.5
            logits.append((accepted / refused).log())
        verifiers = self.accepted.shape[1]
        slopes = torch.full((2, verifiers), 0.1, dtype=torch.float64)
        prior = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
        return torch.cat([torch.stack(logits).flatten(), slopes.flatten(), prior]).numpy()

    def fit(self, start: np.ndarray) -> VerifierMode:
        """The mode that L-BFGS reaches from these parameters."""

        def loss_and_gradient(values: np.ndarray) -> tuple[float, np.ndarray]:
            parameters = torch.from_numpy(values.copy()).requires_grad_()
            loss = -self._log_posterior(parameters)
            loss.backward()
            assert parameters.grad is not None
            return loss.item(), parameters.grad.numpy()

        found = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
        return self._mode(torch.from_numpy(found.x))

    def _log_likelihoods(self, parameters: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """[U] log L_0, log L_1 and s."""
        verifiers = self.accepted.shape[1]
        intercepts = parameters[: 2 * verifiers].view(2, verifiers)
        slopes = parameters[2 * verifiers : 4 * verifiers].view(2, verifiers)
        prior = parameters[4 * verifiers :]
        # [2, K, Z] the log-odds of acceptance by kind, verifier and node of z.
        logits = intercepts[:, :, None] + slopes[:, :, None] * self.nodes
        accepting = torch.nn.functional.logsigmoid(logits)
        refusing = torch.nn.functional.logsigmoid(-logits)
        log_likelihoods = []
        for kind in (0, 1):
            by_node = self.accepted @ accepting[kind] + self.refused @ refusing[kind]
            log_likelihoods.append(torch.logsumexp(by_node + self.log_weights, dim=1))
        return log_likelihoods[0], log_likelihoods[1], self.design @ prior

    def _log_posterior(self, parameters: Tensor) -> Tensor:
        log_wrong, log_right, log_odds = self._log_likelihoods(parameters)
        evidence = log_odds + log_right - log_wrong
        likelihood = log_wrong.sum() + self._log_one_plus_sum(evidence).sum() - self._log_one_plus_sum(log_odds).sum()
        verifiers = self.accepted.shape[1]
        scale = torch.cat([
            torch.full((2 * verifiers,), _PRIOR_OF_A), torch.full((2 * verifiers,), _PRIOR_OF_B),
            torch.full((3,), _PRIOR_OF_C),
        ]).double()  # fmt: skip
        return likelihood - ((parameters / scale) ** 2).sum() / 2

    def _log_one_plus_sum(self, log_terms: Tensor) -> Tensor:
        """[G] log(1 + sum of the exponentials of a prompt's terms)."""
        largest = torch.zeros(self.prompts, dtype=log_terms.dtype)
        largest = largest.scatter_reduce(0, self.units.prompts, log_terms.detach(), reduce="amax")
        shifted = (log_terms - largest[self.units.prompts]).exp()
        total = torch.zeros(self.prompts, dtype=log_terms.dtype).index_add(0, self.units.prompts, shifted)
        return largest + ((-largest).exp() + total).log()

    def _mode(self, parameters: Tensor) -> VerifierMode:
        log_wrong, log_right, log_odds = self._log_likelihoods(parameters)
        evidence = log_odds + log_right - log_wrong
        chance_right = (evidence - self._log_one_plus_sum(evidence)[self.units.prompts]).exp()
        copies = self.units.copies.double()[:, None]
        right = copies * chance_right[:, None]
        wrong = copies * (1 - chance_right[:, None])
        judged = self.accepted + self.refused
        return VerifierMode(
            log_posterior=float(self._log_posterior(parameters)),
            chance_right=chance_right,
            false_positive_rates=(wrong * self.accepted).sum(dim=0) / (wrong * judged).sum(dim=0),
            false_negative_rates=(right * self.refused).sum(dim=0) / (right * judged).sum(dim=0),
        )
