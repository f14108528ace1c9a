"""What binary rewards say of the verifier that gave them, and of the gold answers that it compared with."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.curators.denoise.model import NoisyRows, believe, joined, noisy_rows
from geoalign.lab.curate.steps import given_answer
from geoalign.lab.dumps.rows import Row
from geoalign.method.groups import canonical_order
from geoalign.method.intervals import Interval
from geoalign.types import Rollouts, response_keys

LEVEL, DRAWS, SEED = 0.95, 100, 0
# An answer is agreed on from so many rollouts, and so large a share of those of its prompt, on.
LEAST_COUNT, LEAST_SHARE = 3, 0.5
# Prompts that are listed.
LISTED = 1000


@dataclass(frozen=True)
class AgreedAnswer:
    """The most frequent answer to a prompt.

    Attributes:
        step, group: of the prompt; `index`: its first rollout in `scores.parquet`.
        answer: the agreed one; `gold`: the dump's, where it has one.
        count: rollouts that give it; `share`: of the prompt's rollouts with a reward.
        best: the highest reward that it got; `others_best`: that the prompt's other rollouts got, NaN without any.
    """

    step: int
    group: int
    index: int
    answer: str
    gold: str | None
    count: int
    share: float
    best: float
    others_best: float


def agreed_answers(
    step: int, rows: Sequence[Row], groups: Sequence[int], index: Sequence[int], answers: Sequence[str | None]
) -> list[AgreedAnswer]:
    """The answers that enough of a prompt's rollouts agree on, groups in their order."""
    members: dict[int, list[int]] = {}
    for at, group in enumerate(groups):
        members.setdefault(group, []).append(at)
    agreed = []
    for group, every in members.items():
        scored = [at for at in every if not math.isnan(rows[at].reward)]
        counts = Counter(answer for at in scored if (answer := answers[at]) is not None)
        answer, count = counts.most_common(1)[0] if counts else ("", 0)
        if count < LEAST_COUNT or count < LEAST_SHARE * len(scored):
            continue
        best = max(rows[at].reward for at in scored if answers[at] == answer)
        others = max((rows[at].reward for at in scored if answers[at] != answer), default=math.nan)
        first = every[0]
        agreed.append(
            AgreedAnswer(
                step, group, index[first], answer, rows[first].answer, count, count / len(scored), best, others
            )
        )
    return agreed


def verdict_counts(
    label: Int[Tensor, " n"], group: Int[Tensor, " n"], right: Bool[Tensor, " n"], counted: Bool[Tensor, " n"]
) -> tuple[int, int]:
    """Groups in which rows of one label got two verdicts or more, and groups in which these were not all the same.

    Args:
        label: [N] answer or response of each row, unique over groups.
        group: [N] group of each row.
        right: [N] whether the verdict says right.
        counted: [N] rows that have a verdict, and a label worth comparing.
    """
    size = int(label.max()) + 1 if len(label) else 0
    yes = torch.bincount(label[counted & right], minlength=size)
    no = torch.bincount(label[counted & ~right], minlength=size)
    of_label = label.new_zeros(size)
    of_label[label] = group
    repeated, mixed = yes + no >= 2, (yes > 0) & (no > 0)
    return len(of_label[repeated].unique()), len(of_label[mixed].unique())


def error_rates(rows: NoisyRows) -> Float[Tensor, " 3"] | None:
    """False positive rate, false negative rate and J = 1 - both, by the model of noisy verdicts alone, without states.

    With t_i the posterior probability that row i is right and v_i its verdict (`geoalign.curators.denoise.model`),

        FPR = sum w (1 - t) v / sum w (1 - t),   FNR = sum w t (1 - v) / sum w t,

    the model's rates without the pseudo-counts that hold them where verdicts are few: a verifier that contradicts
    nothing has rates of nearly 0, not those of the prior. Rows alone in their group say nothing and are left out.

    None where nothing tells wrong verdicts from right ones: no answers, and no response with both verdicts.
    """
    belief = believe(rows, None, least_slope=1.0)
    if "informedness" not in belief.metrics:
        return None
    known = rows.accompanied
    rewards = rows.rewards[known]
    low, high = rewards.min(), rewards.max()
    weights, verdict = rows.weights[known], (rewards == high).double()
    truth = (belief.expected[known] - low) / (high - low)
    positive = (weights * (1 - truth) * verdict).sum() / (weights * (1 - truth)).sum().clamp(min=1e-30)
    negative = (weights * truth * (1 - verdict)).sum() / (weights * truth).sum().clamp(min=1e-30)
    return torch.stack([positive, negative, 1 - positive - negative])


def rate_intervals(rows: NoisyRows, *, draws: int, generator: torch.Generator) -> list[Interval] | None:
    """The `error_rates` with percentile bootstrap intervals: groups are drawn with replacement, the fit repeated."""
    estimates = error_rates(rows)
    if estimates is None:
        return None
    groups = int(rows.group.max()) + 1
    drawn = []
    for _ in range(draws):
        times = torch.bincount(torch.randint(groups, (groups,), generator=generator), minlength=groups).double()
        rates = error_rates(replace(rows, weights=rows.weights * times[rows.group]))
        assert rates is not None
        drawn.append(rates)
    ends = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=torch.float64)
    bounds = torch.stack(drawn).quantile(ends, dim=0)
    return [Interval(*figures) for figures in zip(estimates.tolist(), *bounds.tolist(), strict=True)]


class VerdictAudit:
    """Collects the rollouts of one call of the command, step by step, while their rewards are binary."""

    def __init__(self) -> None:
        self._values: set[float] = set()
        self._batches: list[NoisyRows] = []
        self._agreed: list[AgreedAnswer] = []

    def add(self, step: int, rows: Sequence[Row], groups: Sequence[int], index: Sequence[int]) -> None:
        """Takes the rollouts of a step: the group of each, unique over steps, and its `index` in the tables."""
        self._values |= {row.reward for row in rows if not math.isnan(row.reward)}
        if len(self._values) > 2:
            self._batches, self._agreed = [], []
            return
        answers = [given_answer(row) for row in rows]
        rewards = torch.tensor([row.reward for row in rows], dtype=torch.float64)
        rollouts = Rollouts(
            rewards=rewards,
            groups=torch.tensor(list(groups), dtype=torch.long),
            answers=answers,
            # A dump may come without its texts.
            response_keys=response_keys(row.response for row in rows) if all(row.response for row in rows) else None,
        )
        order = canonical_order(rollouts.rewards, rollouts.groups)
        self._batches.append(noisy_rows(rollouts, order, answers=True))
        self._agreed += agreed_answers(step, rows, groups, index, answers)

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
        rates = rate_intervals(rows, draws=DRAWS, generator=torch.Generator().manual_seed(SEED))
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
                "interval": f"percentile bootstrap over groups, {DRAWS} draws, seed {SEED}",
                "level": LEVEL,
            },
            "prompts": self._prompts(high, redact=redact) if answered.any() else None,
        }

    def _prompts(self, high: float, *, redact: bool) -> dict[str, Any]:
        refused = [doubtful for doubtful in self._agreed if doubtful.best < high]
        refused.sort(key=lambda doubtful: (-doubtful.share, -doubtful.count, doubtful.group))
        hidden = {"answer": None, "gold": None} if redact else {}
        listed = []
        for doubtful in refused[:LISTED]:
            facts = {name: value for name, value in asdict(doubtful).items() if name not in ("best", "others_best")}
            listed.append({**facts, "other_rewarded": doubtful.others_best == high, **hidden})
        return {"refused": len(refused), "least_count": LEAST_COUNT, "least_share": LEAST_SHARE, "listed": listed}
