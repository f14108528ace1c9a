"""Agreement with a second score: right rows that it rates low and wrong rows that it rates high are left out."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator, hidden_states
from geoalign.curators.batches import canonical_rows, groups_of, half, require_binary, subset
from geoalign.curators.precision import full_precision
from geoalign.curators.predicting import PastPrediction
from geoalign.method.groups import in_input_order
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts


def balanced(right: int, wrong: int, kept: int) -> tuple[int, int]:
    """How many right and how many wrong rows are kept of so many: as equal as there are rows for, right ones first."""
    few_wrong = min(wrong, kept // 2)
    some_right = min(right, kept - few_wrong)
    return some_right, min(wrong, kept - some_right)


def agreeing_rows(rewards: Float[Tensor, " n"], scores: Float[Tensor, " n"], kept: int) -> Int[Tensor, " k"]:
    """The `kept` rows of a group that the second score confirms, in ascending order.

    Of the right rows those of the highest scores are kept, of the wrong ones those of the lowest, in `balanced`
    numbers; of equal scores the earlier rows. A group with no more rows, or with one kind of rows only, stays whole.

    Args:
        rewards: [N] 0 or 1.
        scores: [N] the second score, higher for better rows.
    """
    ones, zeros = (rewards == 1).nonzero()[:, 0], (rewards == 0).nonzero()[:, 0]
    if len(rewards) <= kept or not len(ones) or not len(zeros):
        return torch.arange(len(rewards))
    most, least = balanced(len(ones), len(zeros), kept)
    best = ones[scores[ones].argsort(descending=True, stable=True)[:most]]
    worst = zeros[scores[zeros].argsort(stable=True)[:least]]
    return torch.cat([best, worst]).sort().values


@settings
class ScoreAgreementConfig:
    """The settings of `ScoreAgreement`."""

    type: ClassVar[str] = "score_agreement"

    m: Annotated[int, Field(ge=2)] | None = setting(
        default=None, help="Rollouts kept per group; null: half of them, at least two."
    )
    decay: Annotated[float, Field(gt=0, le=1)] = setting(
        default=0.9, help="Weight of a batch in the second score's fit, relative to the next."
    )


class ScoreAgreement(Curator[ScoreAgreementConfig]):
    """Keeps the rows on which reward and a second score agree, as many right as wrong ones (PROF, arXiv 2509.03403).

    PROF ranks right and wrong responses apart by the mean of a process reward model over their steps, and leaves out
    the lowest of the right and the highest of the wrong ones, so many of each that their numbers are balanced. Here the
    second score is a prediction of the reward from hidden states by a ridge regression on earlier batches (on the first
    batch: by folds over its groups). Advantages are those of the rows kept. Groups of equal rewards stay whole, and so
    does the batch where nothing is predicted.

    Needs `hidden`.

    Raises:
        InputError: a reward is neither 0 nor 1 (nor NaN); `hidden` is missing or its width differs from earlier calls.
    """

    config_class = ScoreAgreementConfig
    requires = ("hidden",)

    def __init__(self, config: ScoreAgreementConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self._score = PastPrediction(decay=self.config.decay)

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Leaves rows out; draws nothing from `generator`."""
        require_binary(rollouts, by="ScoreAgreement")
        hidden = hidden_states(rollouts, by="ScoreAgreement")
        if not len(rollouts):
            return subset(rollouts, [], {})
        with full_precision(rollouts):
            rows = canonical_rows(rollouts)
            predicted = self._score(rollouts.rewards, hidden, rows)
            scores = in_input_order(rows, torch.device("cpu"))(predicted.values.to(rows.order.device))
            kept = []
            for group in groups_of(rollouts):
                most = (self.config.m or half(len(group.rows))) if predicted.varies else len(group.rows)
                kept.append(group.rows[agreeing_rows(group.rewards, scores[group.rows], most)])
            return subset(rollouts, kept, {"zero_spread": float(not predicted.varies)})

    def state_dict(self) -> dict[str, Any]:
        """The fit behind the second score."""
        return self._score.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`."""
        self._score.load_state_dict(state, by="ScoreAgreement")
