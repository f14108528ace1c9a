"""Online label refinement: a prompt's majority answer becomes its label after it proved itself at several visits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor

from geoalign.answers import answers_by_class
from geoalign.curators.baselines.baseline import Baseline, rows_by_group
from geoalign.curators.baselines.reshaped_rewards import most_frequent
from geoalign.curators.curator import identity
from geoalign.settings import Count, NotNegative, setting, settings
from geoalign.types import Curation, Rollouts

# The majority answer of a visit that has none. A response cannot answer so: final answers are not empty.
_NO_MAJORITY = ""


@settings
class OLRConfig:
    type: ClassVar[str] = "olr"

    slope: NotNegative = setting(
        default=0.05, help="Least rise of the majority answer's share from one visit of a prompt to the next."
    )
    visits: Count = setting(default=6, help="From which visit of a prompt on its label may be replaced.")


class OLR(Baseline[OLRConfig]):
    """Online label refinement (arXiv 2604.03993), by its released code (ShenzhiYang2000/OLR).

    At each visit of a prompt the share of its rows that give its majority answer is noted, and the answer. From the
    sixth visit on the majority answer becomes the label if both hold: the shares rise, by at least `slope` a visit in a
    least-squares line, and of the majority answers of all visits, this one included, it is the single most frequent.
    Then its rows have reward 1 and all others 0; else the rewards stay. The decision is made anew at each visit.

    A visit in which several answers tie, or none is given, has no majority answer. Its share is 0, from which the next
    share rises, and all such visits count as if they had one answer in common: so does the code.

    It works with the label of a prompt, so it can help where labels are wrong, and changes the reward of a whole group
    or none. Prompts that come once, or fewer times than `visits`, keep their rewards: training needs several epochs.

    Different from the code: a visit is a batch with the prompt, of which `prompt_keys` tell it, however many groups the
    prompt has there, where the code counts epochs. The rewards of a prompt that keeps its label are the verifier's,
    whatever they are. Answers are equal by their text and value (`answers_by_class`), where the code verifies them
    against the majority answer.

    Needs `answers` and `prompt_keys`. A row whose reward is NaN votes, but stays without a reward. What it keeps grows
    with the number of prompts.
    """

    headline = ("refined_groups", "majority_share")
    requires = ("answers", "prompt_keys")
    acts_on = ("rewards",)
    scores_rows = False
    kept = ("shares", "majorities")

    def __init__(self, config: OLRConfig | None = None, **settings: Any) -> None:
        super().__init__(config, **settings)
        # By prompt key: of each visit the majority answer, `_NO_MAJORITY` for none, and its share.
        self._shares: dict[str, list[float]] = {}
        self._majorities: dict[str, list[str]] = {}

    def _curate(self, rollouts: Rollouts, generator: Generator) -> Curation:
        assert rollouts.answers is not None
        rewards = rollouts.rewards.clone()
        shares = []
        refined = 0
        for key, rows in _rows_by_prompt(rollouts).items():
            # The groups of a prompt may have spelt one answer differently.
            answers = _in_one_spelling([rollouts.answers[row] for row in rows.tolist()])
            winners = most_frequent(answers)
            majority = next(iter(winners)) if len(winners) == 1 else _NO_MAJORITY
            share = sum(answer == majority for answer in answers) / len(answers)
            shares.append(share)
            self._shares.setdefault(key, []).append(share)
            self._majorities.setdefault(key, []).append(majority)
            if self._is_proved(key):
                agrees = torch.tensor([answer == majority for answer in answers])
                rewards[rows] = agrees.to(rewards)
                refined += 1
        metrics = {"refined_groups": float(refined), "majority_share": sum(shares) / len(shares)}
        return replace(identity(rollouts, metrics), rewards=rewards.masked_fill(rollouts.rewards.isnan(), torch.nan))

    def _is_proved(self, key: str) -> bool:
        """Whether the majority answer of a prompt's last visit is to be its label."""
        shares = self._shares[key]
        majorities = self._majorities[key]
        if len(shares) < self.config.visits or not majorities[-1]:
            return False
        # Each visit spelt its majority answer as most of its rows did.
        spelt_alike = _in_one_spelling(majorities)
        votes = [answer or _NO_MAJORITY for answer in spelt_alike]
        return rise(shares) >= self.config.slope and most_frequent(votes) == {votes[-1]}


def _in_one_spelling(answers: Sequence[str | None]) -> list[str | None]:
    """Answers to one prompt, equal ones in one spelling; None for none, and for an empty one."""
    return answers_by_class(answers, [0] * len(answers))


def _rows_by_prompt(rollouts: Rollouts) -> dict[str, Tensor]:
    """The rows of each prompt, of all its groups; prompts in the order of their first group."""
    assert rollouts.prompt_keys is not None
    groups_of: dict[str, list[Tensor]] = {}
    for rows in rows_by_group(rollouts.groups):
        key = str(int(rollouts.prompt_keys[rows[0]]))
        groups_of.setdefault(key, []).append(rows)
    return {key: torch.cat(groups) for key, groups in groups_of.items()}


def rise(values: Sequence[float]) -> float:
    """The slope of the least-squares line through values at 0, 1, 2, ...; 0 of a single one."""
    if len(values) < 2:
        return 0.0
    middle = (len(values) - 1) / 2
    mean = sum(values) / len(values)
    covariance = sum((place - middle) * (value - mean) for place, value in enumerate(values))
    return covariance / sum((place - middle) ** 2 for place in range(len(values)))
