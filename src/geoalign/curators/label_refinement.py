"""Online label refinement: a prompt's majority answer becomes its label while it keeps gaining and stays the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from geoalign.curators.base import Curator, identity
from geoalign.curators.batches import mean_of, require_binary, rows_by_group
from geoalign.curators.majority_vote import most_frequent
from geoalign.errors import ConfigError
from geoalign.settings import setting, settings
from geoalign.types import Curation, Rollouts


def trend(shares: Sequence[float]) -> float:
    """The least-squares slope of p_0 ... p_n-1 over 0 ... n - 1: sum (t - t') p_t / sum (t - t')^2; 0 for one p."""
    middle = (len(shares) - 1) / 2
    spread = sum((visit - middle) ** 2 for visit in range(len(shares)))
    return sum((visit - middle) * share for visit, share in enumerate(shares)) / spread if spread else 0.0


def settled(majorities: Sequence[str | None]) -> bool:
    """Whether the last majority answer is, alone, the most frequent one of all visits; None: a visit had none."""
    latest = majorities[-1]
    counts = Counter(majorities)
    return latest is not None and all(counts[latest] > count for answer, count in counts.items() if answer != latest)


@settings
class LabelRefinementConfig:
    """The settings of `LabelRefinement`."""

    type: ClassVar[str] = "label_refinement"

    slope: Annotated[float, Field(ge=-1, le=1)] = setting(
        default=0.05, help="The majority's share must rise by at least this much from visit to visit."
    )
    start: Annotated[int, Field(ge=1)] = setting(
        default=5, help="Visits of a prompt before its majority answer may become its label."
    )


class LabelRefinement(Curator[LabelRefinementConfig]):
    """Rewards agreement with a prompt's majority answer once that answer rises and is stable (OLR, arXiv 2604.03993).

    At each visit of a prompt its most frequent answer and the share of the rollouts that gave it are added to the
    prompt's history. After `start` visits the answer takes the place of the label, r' = 1 for rows that give it and 0
    for the others, where the shares have risen by `slope` a visit or more (a line through all of them, `trend`) and the
    answer is the most frequent majority of all visits, this one included (`settled`). Otherwise the rewards stay.
    A visit whose most frequent answers tie has no majority and the share 0. Defaults are those of the authors' script
    for an epoch a visit, ten in all (ShenzhiYang2000/OLR da052ed: epochs 5 to 9, `slope_tres` 0.05). Answers are equal
    if they are equal as texts; theirs are if math-verify says so.

    It needs a prompt to come again: in a training of one epoch it is plain GRPO. Rows of one prompt are one visit,
    whatever their groups. `scores` are the majority's share, negative for rows whose reward agrees with the new label;
    those whose reward changes are anomalous. A row whose reward is NaN votes, but stays without a reward.

    Needs `answers` and `prompt_keys`.

    Raises:
        InputError: a reward is neither 0 nor 1 (nor NaN); a field is missing.
    """

    config_class = LabelRefinementConfig
    requires = ("answers", "prompt_keys")

    def __init__(self, config: LabelRefinementConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        self._majorities: dict[int, list[str | None]] = {}
        self._shares: dict[int, list[float]] = {}

    def curate(
        self, rollouts: Rollouts, *, generator: torch.Generator | None = None, details: bool = False
    ) -> Curation:
        """Counts the votes of every prompt; draws nothing from `generator`."""
        rollouts.require(*self.requires, by="LabelRefinement")
        require_binary(rollouts, by="LabelRefinement")
        assert rollouts.answers is not None
        assert rollouts.prompt_keys is not None
        rewards, scores = rollouts.rewards.clone(), torch.full_like(rollouts.rewards, torch.nan)
        shares, slopes, refined = [], [], 0
        for rows in rows_by_group(rollouts.prompt_keys) if len(rollouts) else ():
            answers = [rollouts.answers[row] for row in rows.tolist()]
            majority, share, slope = self._visit(int(rollouts.prompt_keys[rows[0]]), answers)
            shares.append(share)
            slopes.append(slope)
            if majority is not None:
                refined += 1
                agree = torch.tensor([answer == majority for answer in answers])
                _relabel(rewards, scores, rows, agree, share)
        anomalous = scores > 0
        metrics = {
            "prompts": float(len(shares)),
            "refined_prompts": float(refined),
            "majority_share": mean_of(shares),
            "majority_slope": mean_of(slopes),
            "changed_rewards": float(anomalous.sum()),
            "unscored_rewards": float(rollouts.rewards.isnan().sum()),
        }
        return replace(identity(rollouts, metrics), rewards=rewards, scores=scores, anomalous=anomalous)

    def state_dict(self) -> dict[str, Any]:
        """The majority answer and its share at every visit of every prompt."""
        return {
            "majorities": {str(key): list(answers) for key, answers in self._majorities.items()},
            "shares": {str(key): list(shares) for key, shares in self._shares.items()},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores `state_dict`.

        Raises:
            ConfigError: the state is of another curator.
        """
        if set(state) != {"majorities", "shares"}:
            raise ConfigError(f"LabelRefinement state: expected the keys majorities and shares, got {sorted(state)}")
        self._majorities = {int(key): list(answers) for key, answers in state["majorities"].items()}
        self._shares = {int(key): list(shares) for key, shares in state["shares"].items()}

    def _visit(self, prompt: int, answers: Sequence[str | None]) -> tuple[str | None, float, float]:
        """Adds a visit; the new label (None: the rewards stay), the majority's share and the slope of the shares."""
        most = most_frequent(answers)
        majority = next(iter(most)) if len(most) == 1 else None
        share = answers.count(majority) / len(answers) if majority is not None else 0.0
        majorities, shares = self._majorities.setdefault(prompt, []), self._shares.setdefault(prompt, [])
        majorities.append(majority)
        shares.append(share)
        slope = trend(shares)
        refines = len(shares) > self.config.start and slope >= self.config.slope and settled(majorities)
        return majority if refines else None, share, slope


def _relabel(rewards: Tensor, scores: Tensor, rows: Tensor, agree: Tensor, share: float) -> None:
    """Writes the rewards of the new label, and the scores, of a prompt's rows; rows without a reward have neither."""
    rows, agree = rows.to(rewards.device), agree.to(rewards)
    known = ~rewards[rows].isnan()
    rows, agree = rows[known], agree[known]
    scores[rows] = torch.where(rewards[rows] == agree, -share, share).to(scores)
    rewards[rows] = agree
