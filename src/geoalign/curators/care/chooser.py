"""CARE as a chooser: prompts go by how much the label is expected to change the advantages (arXiv 2605.25864)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Generator, Tensor

from geoalign.curators.candidates import Candidates
from geoalign.curators.care.probes import Probes
from geoalign.curators.care.prompts import labelled_groups, read_prompts
from geoalign.curators.choosers import Chooser
from geoalign.curators.precision import full_precision
from geoalign.errors import InputError

# The released script's share of prompts whose vote is trusted (examples/unsupervised_rlvr/al-rule.sh), and its warm-up
# in batches, in which none is.
_TRUSTED_VOTES = 0.25
_WARM_UP = 20


@dataclass(frozen=True, eq=False)
class Judgement:
    """What the probes say of the P prompts of a batch that have an answer.

    Attributes:
        groups: the group of each prompt, ascending.
        gap: [P] the expected corrective gap.
        trusts_vote: [P] whether the first probe trusts the most frequent answer.
    """

    groups: list[int]
    gap: Float[Tensor, " p"]
    trusts_vote: Bool[Tensor, " p"]

    def places_by_priority(self) -> list[int]:
        """The prompts by descending gap, those whose vote is trusted last; of equal ones the earlier first."""
        gap = self.gap.tolist()
        trusts_vote = self.trusts_vote.tolist()
        return sorted(range(len(gap)), key=lambda place: (trusts_vote[place], -gap[place]))


@cache
def corrective_gap(rows: int, voted: int, right: int) -> float:
    """|A(vote) - A(truth)|: what learning the truth changes in a prompt's advantages.

    Of `rows` rows `voted` give the most frequent answer, and `right` another one that is right (0: none is). Advantages
    are divided by the standard deviation without a correction, and 0 where all rewards are equal.
    """
    vote = torch.zeros(rows, dtype=torch.float64)
    vote[:voted] = 1
    truth = torch.zeros(rows, dtype=torch.float64)
    truth[voted : voted + right] = 1
    return float((_advantages(vote) - _advantages(truth)).norm())


def _advantages(rewards: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    deviation = rewards.std(correction=0)
    if float(deviation) < 1e-8:
        return torch.zeros_like(rewards)
    return (rewards - rewards.mean()) / deviation


class Care(Chooser):
    """CARE, active label acquisition (arXiv 2605.25864), by its released code.

    Two probes read a prompt's states, how often its answers are given, and how long its responses are. The first says
    whether the most frequent answer is right; the second how many rows give another answer that is right. With the
    second's probabilities the corrective gap, the norm of the difference between the advantages by vote and those by
    truth, has an expectation. Prompts go by it, the largest first; those in the upper quarter by the first probe come
    last. The probes are trained on every prompt whose label is known, and on earlier ones.

    A label is found by asking about the most frequent answer, then about the next, until one is right or none is left.
    The last prompt of a budget may stay without one.

    Different from the code:

    - One label may cost several checks, and the budget counts checks. The paper counts labels, and buys them for a
      fifth of the prompts.
    - The state of a prompt is the mean over its responses, and states are whatever `hidden` holds. The code takes the
      states of last tokens.
    - Lengths are shares of the longest response of the batch, 0 where they are unknown.

    With an inner curator that reads no trusted rows (`grpo`), the paper's own form: the verifier's rewards are ignored.
    A prompt whose label is known is rewarded by it. One in the upper quarter by the first probe is rewarded by its
    vote, with advantages times the expected gap, at most 1; there are none such in the first twenty batches. All
    other prompts have weight 0.

    Raises:
        InputError: hidden states have another width than before.
    """

    in_rounds = True
    requires = ("hidden", "answers")
    optional = ("lengths",)
    acts_on = ("rewards", "weights")

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Begins anew: the probes are made at the first batch."""
        self._batches = 0
        self._probes: Probes | None = None
        # The prompts of the batch under way, as judged before its first verdict.
        self._judgement: Judgement | None = None

    def begin(self) -> None:
        """Forgets the judgement of a batch that was heard and not learnt from."""
        self._judgement = None

    def next_rows(self, candidates: Candidates, generator: Generator) -> list[int]:
        """The next answer of the first prompt whose label is not known yet."""
        with full_precision(candidates.rollouts):
            judgement = self._judged(candidates, generator)
        known = candidates.known_answers
        solved = candidates.solved_groups
        spokesman = candidates.spokesmen(candidates.rows)
        by_frequency = candidates.answers_by_frequency()
        for place in judgement.places_by_priority():
            group = judgement.groups[place]
            if group in solved:
                continue
            for answer in by_frequency.get(group, []):
                # Of an answer whose rows all have verdicts, as many for it as against it, none is left to ask about.
                if answer in spokesman and answer not in known and answer not in candidates.in_vain:
                    return [spokesman[answer]]
        return []

    def learn(self, candidates: Candidates, generator: Generator) -> None:
        """Trains the probes on the prompts whose label is known, and on some earlier ones."""
        with full_precision(candidates.rollouts), torch.enable_grad():
            probes = self._made_probes(candidates, generator)
            groups, prompts = read_prompts(candidates, width=probes.width, size=probes.size)
            labelled = labelled_groups(candidates)
            known = [prompts.single(place) for place, group in enumerate(groups) if group in labelled]
            probes.train(known, generator)
        self._batches += 1
        self._judgement = None

    def settled(self, candidates: Candidates, generator: Generator) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
        """Labels and trusted votes as rewards, and the weights of their prompts; see the class."""
        with full_precision(candidates.rollouts):
            judgement = self._judged(candidates, generator)
        labelled = labelled_groups(candidates)
        right = candidates.known_answers
        by_frequency = candidates.answers_by_frequency()
        rewards = torch.zeros_like(candidates.rewards)
        weights = torch.zeros_like(candidates.rewards)
        place_of = {group: place for place, group in enumerate(judgement.groups)}
        for row, answer in enumerate(candidates.answers):
            group = answer[0]
            place = place_of.get(group)
            if place is None:
                continue
            if group in labelled:
                rewards[row] = float(right.get(answer, False))
                weights[row] = 1.0
            elif bool(judgement.trusts_vote[place]) and by_frequency[group][0] not in right:
                rewards[row] = float(answer == by_frequency[group][0])
                weights[row] = judgement.gap[place].clamp(0, 1)
        unscored = candidates.rewards.isnan()
        return rewards.masked_fill(unscored, torch.nan), weights.masked_fill(unscored, 0.0)

    def _made_probes(self, candidates: Candidates, generator: Generator) -> Probes:
        """The probes; at the first batch they are made, for its width and the size of its largest group."""
        assert candidates.rollouts.hidden is not None
        width = candidates.rollouts.hidden.shape[1]
        if self._probes is not None and self._probes.width != width:
            raise InputError(f"Care: expected hidden states of width {self._probes.width}, as before; got {width}")
        if self._probes is None:
            size = max(Counter(candidates.rollouts.groups.tolist()).values())
            self._probes = Probes(width=width, size=size, generator=generator)
        return self._probes

    def _judged(self, candidates: Candidates, generator: Generator) -> Judgement:
        """What the probes say of the batch: the same in all of its rounds."""
        if self._judgement is None:
            self._judgement = self._judge(candidates, self._made_probes(candidates, generator))
        return self._judgement

    def _judge(self, candidates: Candidates, probes: Probes) -> Judgement:
        groups, prompts = read_prompts(candidates, width=probes.width, size=probes.size)
        if not groups:
            gap = torch.zeros(0, dtype=torch.float32)
            return Judgement(groups=[], gap=gap, trusts_vote=gap.bool())
        gaps = _gaps_by_count(candidates, groups, prompts.possible)
        expected_gap = (probes.count_probabilities(prompts) * gaps).sum(dim=1)
        trusts_vote = torch.zeros(len(groups), dtype=torch.bool)
        if self._batches >= _WARM_UP:
            upper = math.ceil(_TRUSTED_VOTES * len(groups))
            by_margin = probes.vote_margin(prompts).argsort(descending=True, stable=True)
            trusts_vote[by_margin[:upper]] = True
        return Judgement(groups=groups, gap=expected_gap, trusts_vote=trusts_vote)

    def state_dict(self) -> dict[str, Any]:
        """The probes with what they were trained on, and how many batches there were."""
        if self._probes is None:
            return {}
        return {"batches": self._batches, "probes": self._probes.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes what `state_dict` returned."""
        self._forget()
        if not state:
            return
        self._batches = state["batches"]
        self._probes = Probes.from_state(state["probes"])


def _gaps_by_count(candidates: Candidates, groups: list[int], possible: Bool[Tensor, "p c"]) -> Float[Tensor, "p c"]:
    """[P, C] the corrective gap of each prompt under each count of rows that give the right one of its other answers;
    0 for counts that are not possible."""
    by_frequency = candidates.answers_by_frequency()
    gaps = torch.zeros(possible.shape, dtype=torch.float32)
    for place, group in enumerate(groups):
        size = candidates.sizes[group]
        voted = candidates.counts[by_frequency[group][0]]
        for count in possible[place].nonzero()[:, 0].tolist():
            gaps[place, count] = corrective_gap(size, voted, count)
    return gaps
