"""CARE as a chooser: prompts go by how much the label is expected to change the advantages (arXiv 2605.25864)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn
from torch.nn import functional

from geoalign.curators.choosers import Candidates, Chooser
from geoalign.curators.precision import full_precision
from geoalign.method.projector import new_linear

# The released script's settings (examples/unsupervised_rlvr/al-rule.sh), and its warm-up in batches.
_PROMPT_WIDTH = 128
_RESPONSE_WIDTHS = (64, 512)
_CLASSIFIER_WIDTH = 256
_LEARNING_RATE = 1e-4
_STEPS = 3
_AUXILIARY = 1.5
_REMEMBERED = 2048
_DRAWN = 16
_TRUSTED_VOTES = 0.25
_WARM_UP = 20


@dataclass(frozen=True, eq=False)
class Prompts:
    """P prompts of N rows in all, as the two probes read them.

    Attributes:
        prompt: [P, 1 + w + s] the share of rows with an answer, the mean state, and the shares of the s most frequent
            answers, the most frequent first.
        states: [N, w] of the responses.
        lengths: [N] of the responses, as shares of the longest.
        of: [N] the prompt of each row.
        others: [N] rows whose answer is not the most frequent one.
        possible: [P, s + 1] the counts that the right one of the other answers can have; 0: none is right.
        vote_right: [P] whether the most frequent answer is right.
        right_count: [P] how many rows give the right one of the other answers; 0: none.
        right: [N] whether the row's answer is right.
    """

    prompt: Float[Tensor, "p f"]
    states: Float[Tensor, "n w"]
    lengths: Float[Tensor, " n"]
    of: Int[Tensor, " n"]
    others: Bool[Tensor, " n"]
    possible: Bool[Tensor, "p c"]
    vote_right: Int[Tensor, " p"]
    right_count: Int[Tensor, " p"]
    right: Int[Tensor, " n"]

    def __len__(self) -> int:
        return len(self.prompt)

    def of_prompt(self, number: int) -> Prompts:
        """One of them alone."""
        by_row = ("states", "lengths", "of", "others", "right")
        mine = self.of == number
        parts = {}
        for item in fields(self):
            value = getattr(self, item.name)
            parts[item.name] = value[mine] if item.name in by_row else value[number : number + 1]
        return Prompts(**{**parts, "of": torch.zeros(int(mine.sum()), dtype=torch.long)})


def joined(prompts: list[Prompts]) -> Prompts:
    """Several single prompts as one."""
    parts = {item.name: torch.cat([getattr(each, item.name) for each in prompts]) for item in fields(Prompts)}
    rows = torch.tensor([len(each.of) for each in prompts])
    return Prompts(**{**parts, "of": torch.arange(len(prompts)).repeat_interleave(rows)})


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


class Probe(nn.Module):
    """What a prompt and its responses say: classes of a prompt, and with `auxiliary` whether each response is right.

    A layer on the prompt, two on each response, whose mean over the prompt's rows joins it, and a classifier of two
    layers, each behind a batch normalisation.
    """

    def __init__(
        self, *, prompt: int, states: int, classes: int, lengths: bool, auxiliary: bool, generator: Generator
    ) -> None:
        super().__init__()
        self.lengths = lengths
        response = states + int(lengths)
        first, second = _RESPONSE_WIDTHS
        both = _PROMPT_WIDTH + second
        self.of_prompt = nn.Sequential(
            nn.BatchNorm1d(prompt, dtype=torch.float32), new_linear(prompt, _PROMPT_WIDTH, generator), nn.ReLU()
        )
        self.of_response = nn.Sequential(
            nn.BatchNorm1d(response, dtype=torch.float32),
            new_linear(response, first, generator),
            nn.ReLU(),
            new_linear(first, second, generator),
            nn.ReLU(),
        )
        self.classifier = _classifier(both, classes, generator)
        self.auxiliary = _classifier(both, 2, generator) if auxiliary else None

    def forward(self, prompts: Prompts, *, rows: Bool[Tensor, " n"]) -> tuple[Tensor, Tensor | None]:
        """[P, C] logits of the classes, and [N, 2] of whether each response is right; only `rows` are in the means."""
        of_prompt = self.of_prompt(prompts.prompt)
        states = prompts.states * rows[:, None]
        if self.lengths:
            states = torch.cat([states, prompts.lengths[:, None]], dim=1)
        of_response = self.of_response(states)
        kept = of_response * rows[:, None]
        sums = torch.zeros(len(prompts), kept.shape[1], dtype=torch.float32).index_add(0, prompts.of, kept)
        counts = torch.zeros(len(prompts), dtype=torch.float32).index_add(0, prompts.of, rows.float())
        classes = self.classifier(torch.cat([of_prompt, sums / counts.clamp(min=1)[:, None]], dim=1))
        if self.auxiliary is None:
            return classes, None
        return classes, self.auxiliary(torch.cat([of_prompt[prompts.of], of_response], dim=1))


def _classifier(width: int, classes: int, generator: Generator) -> nn.Sequential:
    return nn.Sequential(
        nn.BatchNorm1d(width, dtype=torch.float32),
        new_linear(width, _CLASSIFIER_WIDTH, generator),
        nn.ReLU(),
        new_linear(_CLASSIFIER_WIDTH, classes, generator),
    )


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

    A label is found by asking about the most frequent answer, then about the next, until one is right or none is left:
    so it costs as many checks as the verifier is asked, where the paper counts labels, of a fifth of the prompts. The
    last prompt of a budget may stay without one. Else different from the code: the state of a prompt is the mean over
    its responses (the code: of its last token), states are whatever `hidden` holds (the code: of the last token), and
    lengths are shares of the longest of the batch, 0 where unknown.

    With an inner curator that reads no trusted rows (`grpo`), the paper's own form: the verifier's rewards are ignored.
    A prompt whose label is known is rewarded by it. One in the upper quarter by the first probe is rewarded by its
    vote, with advantages times the expected gap, at most 1; there are none such in the first twenty batches. All
    other prompts have weight 0.
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
        self._past: list[Prompts] = []
        self._probes: nn.ModuleDict | None = None
        self._optimizers: dict[str, torch.optim.Optimizer] = {}
        self._shape: list[int] = []
        # The prompts of the batch under way, as judged before its first verdict.
        self._judgement: Judgement | None = None

    def next_rows(self, candidates: Candidates, generator: Generator) -> list[int]:
        """The next answer of the first prompt whose label is not known yet."""
        with full_precision(candidates.rollouts):
            self._begin(candidates, generator)
            judgement = self._judged(candidates)
        right = candidates.verdicts()
        solved = candidates.solved_groups()
        spokesman = candidates.spokesmen(candidates.rows)
        by_frequency = candidates.answers_by_frequency()
        # Prompts whose vote is trusted come last.
        priority = judgement.gap - 1e9 * judgement.trusts_vote
        for place in priority.argsort(descending=True, stable=True).tolist():
            group = judgement.groups[place]
            if group in solved:
                continue
            for answer in by_frequency.get(group, []):
                if answer not in right and answer in spokesman:
                    return [spokesman[answer]]
        return []

    def learn(self, candidates: Candidates, generator: Generator) -> None:
        """Trains the probes on the prompts whose label is known, and on some earlier ones."""
        with full_precision(candidates.rollouts), torch.enable_grad():
            self._learn(candidates, generator)

    def _learn(self, candidates: Candidates, generator: Generator) -> None:
        self._begin(candidates, generator)
        self._judgement = None
        self._batches += 1
        groups, prompts = self._read(candidates)
        labelled = _labelled_groups(candidates)
        now = [prompts.of_prompt(place) for place, group in enumerate(groups) if group in labelled]
        losses: dict[str, Callable[[Prompts], Tensor]] = {"vote": self._vote_loss, "count": self._count_loss}
        for _ in range(_STEPS):
            for name, loss_of in losses.items():
                drawn = [*now, *self._drawn(generator, by_count=name == "count")]
                if len(drawn) < 2:
                    continue  # too few for a batch normalisation
                probe = self._probe(name).train()
                loss = loss_of(joined(drawn))
                self._optimizers[name].zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(probe.parameters(), 1.0)
                self._optimizers[name].step()
        self._past = [*self._past, *now][-_REMEMBERED:]

    def settled(self, candidates: Candidates) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
        """Labels and trusted votes as rewards, and the weights of their prompts; see the class."""
        with full_precision(candidates.rollouts):
            judgement = self._judged(candidates)
        labelled = _labelled_groups(candidates)
        right = candidates.verdicts()
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

    def _begin(self, candidates: Candidates, generator: Generator) -> None:
        """Makes the probes at the first batch, for its width and the size of its largest group."""
        if self._probes is not None:
            return
        assert candidates.rollouts.hidden is not None
        size = max(Counter(candidates.rollouts.groups.tolist()).values())
        self._build([candidates.rollouts.hidden.shape[1], size], generator)

    def _build(self, shape: list[int], generator: Generator) -> None:
        width, size = shape
        prompt = 1 + width + size
        vote = Probe(prompt=prompt, states=width, classes=2, lengths=True, auxiliary=True, generator=generator)
        count = Probe(
            prompt=prompt, states=width, classes=size + 1, lengths=False, auxiliary=False, generator=generator
        )
        self._shape = shape
        self._probes = nn.ModuleDict({"vote": vote, "count": count})
        for name, probe in self._probes.items():
            self._optimizers[name] = torch.optim.AdamW(probe.parameters(), lr=_LEARNING_RATE, weight_decay=0.0)

    def _probe(self, name: str) -> nn.Module:
        assert self._probes is not None
        return self._probes[name]

    def _judged(self, candidates: Candidates) -> Judgement:
        """What the probes say of the batch: the same in all of its rounds."""
        if self._judgement is None:
            self._judgement = self._judge(candidates)
        return self._judgement

    def _judge(self, candidates: Candidates) -> Judgement:
        groups, prompts = self._read(candidates)
        if not groups:
            gap = torch.zeros(0, dtype=torch.float32)
            return Judgement(groups=[], gap=gap, trusts_vote=gap.bool())
        count_logits, _ = self._probe("count").eval()(prompts, rows=prompts.others)
        probabilities = count_logits.masked_fill(~prompts.possible, -1e9).softmax(dim=1)
        gaps = _gaps_by_count(candidates, groups, prompts.possible)
        trusts_vote = torch.zeros(len(groups), dtype=torch.bool)
        if self._batches >= _WARM_UP:
            vote, _ = self._probe("vote").eval()(prompts, rows=torch.ones(len(prompts.of), dtype=torch.bool))
            upper = math.ceil(_TRUSTED_VOTES * len(groups))
            trusts_vote[(vote[:, 1] - vote[:, 0]).argsort(descending=True, stable=True)[:upper]] = True
        return Judgement(groups=groups, gap=(probabilities * gaps).sum(dim=1), trusts_vote=trusts_vote)

    def _read(self, candidates: Candidates) -> tuple[list[int], Prompts]:
        """The groups that have an answer, by ascending id, and what the probes read of them."""
        hidden = candidates.rollouts.hidden
        assert hidden is not None
        width, size = self._shape
        lengths = torch.zeros(len(candidates.answers), dtype=torch.float32)
        if candidates.rollouts.lengths is not None:
            lengths = candidates.rollouts.lengths.cpu().float()
            lengths = lengths / lengths.max().clamp(min=1)
        right = candidates.verdicts()
        by_frequency = candidates.answers_by_frequency()
        groups = sorted(by_frequency)
        in_order = candidates.rows_in_order()
        rows_of: dict[int, list[int]] = defaultdict(list)
        for row in in_order:
            rows_of[candidates.answers[row][0]].append(row)
        counts = Counter(candidates.answers[row] for row in in_order)
        read: list[Prompts] = []
        for group in groups:
            rows = sorted(rows_of[group])
            states = hidden[rows].detach().cpu().float().reshape(len(rows), width)
            vote, *others = by_frequency[group]
            shares = torch.zeros(size, dtype=torch.float32)
            for place, answer in enumerate(by_frequency[group][:size]):
                shares[place] = counts[answer] / len(rows)
            answered = sum(candidates.answered[row] for row in rows) / len(rows)
            gives_other = [candidates.answered[row] and candidates.answers[row] != vote for row in rows]
            possible = torch.zeros(1, size + 1, dtype=torch.bool)
            possible[0, [0, *(min(counts[answer], size) for answer in others)]] = True
            # Of several that the verifier accepts the rarest counts.
            right_counts = [min(counts[answer], size) for answer in others if right.get(answer, False)]
            read.append(
                Prompts(
                    prompt=torch.cat([torch.tensor([answered], dtype=torch.float32), states.mean(dim=0), shares])[None],
                    states=states,
                    lengths=lengths[rows],
                    of=torch.zeros(len(rows), dtype=torch.long),
                    others=torch.tensor(gives_other),
                    possible=possible,
                    vote_right=torch.tensor([int(right.get(vote, False))]),
                    right_count=torch.tensor([right_counts[-1] if right_counts else 0]),
                    right=torch.tensor([int(right.get(candidates.answers[row], False)) for row in rows]),
                )
            )
        return groups, joined(read) if read else _no_prompts(width, size)

    def _drawn(self, generator: Generator, *, by_count: bool) -> list[Prompts]:
        """Some of the earlier prompts at random; `by_count`: as many as may be of each count of right rows."""
        shuffled = [self._past[place] for place in torch.randperm(len(self._past), generator=generator).tolist()]
        if not by_count or len(shuffled) <= _DRAWN:
            return shuffled[:_DRAWN]
        by_label: dict[int, list[Prompts]] = defaultdict(list)
        for prompt in shuffled:
            by_label[int(prompt.right_count)].append(prompt)
        share = max(1, _DRAWN // len(by_label))
        picked = [prompt for label in sorted(by_label) for prompt in by_label[label][:share]]
        left = [prompt for label in sorted(by_label) for prompt in by_label[label][share:]]
        return [*picked, *left][:_DRAWN]

    def _vote_loss(self, prompts: Prompts) -> Tensor:
        every = torch.ones(len(prompts.of), dtype=torch.bool)
        classes, responses = self._probe("vote")(prompts, rows=every)
        main = functional.cross_entropy(classes, prompts.vote_right, weight=_balance(prompts.vote_right, 2))
        return main + _AUXILIARY * functional.cross_entropy(responses, prompts.right)

    def _count_loss(self, prompts: Prompts) -> Tensor:
        classes, _ = self._probe("count")(prompts, rows=prompts.others)
        possible = classes.masked_fill(~prompts.possible, -1e9)
        weight = _balance(prompts.right_count, classes.shape[1])
        return functional.cross_entropy(possible, prompts.right_count, weight=weight)

    def state_dict(self) -> dict[str, Any]:
        """The probes, their optimizers, the labelled prompts, and how many batches there were."""
        if self._probes is None:
            return {}
        moments = {}
        for name, optimizer in self._optimizers.items():
            state = optimizer.state_dict()["state"]
            moments[name] = {str(place): values for place, values in state.items()}
        return {
            "batches": self._batches,
            "shape": self._shape,
            # Copies: the next batch trains on in place.
            "probes": deepcopy(dict(self._probes.state_dict())),
            "moments": deepcopy(moments),
            "past": [dict(vars(prompt)) for prompt in self._past],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Takes what `state_dict` returned."""
        self._forget()
        if not state:
            return
        self._batches = state["batches"]
        self._build(list(state["shape"]), Generator().manual_seed(0))
        assert self._probes is not None
        self._probes.load_state_dict(state["probes"])
        for name, optimizer in self._optimizers.items():
            moments = {int(place): deepcopy(values) for place, values in state["moments"][name].items()}
            optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
        self._past = [Prompts(**prompt) for prompt in state["past"]]


def _gaps_by_count(candidates: Candidates, groups: list[int], possible: Bool[Tensor, "p c"]) -> Float[Tensor, "p c"]:
    """[P, C] the corrective gap of each prompt under each count of rows that give the right one of its other answers;
    0 for counts that are not possible."""
    by_frequency = candidates.answers_by_frequency()
    counts = Counter(candidates.answers)
    sizes = Counter(group for group, _ in candidates.answers)
    gaps = torch.zeros(possible.shape, dtype=torch.float32)
    for place, group in enumerate(groups):
        voted = counts[by_frequency[group][0]]
        for count in possible[place].nonzero()[:, 0].tolist():
            gaps[place, count] = corrective_gap(sizes[group], voted, min(count, sizes[group] - voted))
    return gaps


def _labelled_groups(candidates: Candidates) -> set[int]:
    """The groups whose label is known: one answer is right, or each has been refuted."""
    right = candidates.verdicts()
    solved = candidates.solved_groups()
    by_frequency = candidates.answers_by_frequency()
    return {
        group
        for group, answers in by_frequency.items()
        if group in solved or all(answer in right for answer in answers)
    }


def _balance(labels: Int[Tensor, " p"], classes: int) -> Float[Tensor, " c"]:
    """Weights of classes: 1 / sqrt(count) around a mean of 1, between 0.25 and 4; 0 for a class without a prompt."""
    counts = labels.bincount(minlength=classes).float()
    weights = torch.where(counts > 0, counts.clamp(min=1).rsqrt(), 0.0)
    weights = weights / weights[counts > 0].mean()
    return weights.clamp(0.25, 4.0).masked_fill(counts == 0, 0.0)


def _no_prompts(width: int, size: int) -> Prompts:
    """What is read of a batch without any answer."""
    none = torch.zeros(0, dtype=torch.long)
    return Prompts(
        prompt=torch.zeros(0, 1 + width + size, dtype=torch.float32),
        states=torch.zeros(0, width, dtype=torch.float32),
        lengths=torch.zeros(0, dtype=torch.float32),
        of=none,
        others=none.bool(),
        possible=torch.zeros(0, size + 1, dtype=torch.bool),
        vote_right=none,
        right_count=none,
        right=none,
    )
