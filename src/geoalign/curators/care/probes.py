"""CARE's two probes: whether a prompt's most frequent answer is right, and how many rows give another right one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Generator, Tensor, nn
from torch.nn import functional

from geoalign.curators.care.prompts import Prompts, joined
from geoalign.method.projector import new_linear

# The released script's settings (examples/unsupervised_rlvr/al-rule.sh).
_PROMPT_WIDTH = 128
_RESPONSE_WIDTHS = (64, 512)
_CLASSIFIER_WIDTH = 256
_LEARNING_RATE = 1e-4
_STEPS_A_BATCH = 3
_AUXILIARY_WEIGHT = 1.5
_REMEMBERED_PROMPTS = 2048
_EARLIER_PROMPTS_A_STEP = 16

ProbeName = Literal["vote", "count"]


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
        self.prompt_layers = nn.Sequential(
            nn.BatchNorm1d(prompt, dtype=torch.float32), new_linear(prompt, _PROMPT_WIDTH, generator), nn.ReLU()
        )
        self.response_layers = nn.Sequential(
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
        of_prompt = self.prompt_layers(prompts.prompt)
        states = prompts.states * rows[:, None]
        if self.lengths:
            states = torch.cat([states, prompts.lengths[:, None]], dim=1)
        of_response = self.response_layers(states)
        kept = of_response * rows[:, None]
        sums = torch.zeros(len(prompts), kept.shape[1], dtype=torch.float32).index_add(0, prompts.prompt_of_row, kept)
        counts = torch.zeros(len(prompts), dtype=torch.float32).index_add(0, prompts.prompt_of_row, rows.float())
        classes = self.classifier(torch.cat([of_prompt, sums / counts.clamp(min=1)[:, None]], dim=1))
        if self.auxiliary is None:
            return classes, None
        return classes, self.auxiliary(torch.cat([of_prompt[prompts.prompt_of_row], of_response], dim=1))


def _classifier(width: int, classes: int, generator: Generator) -> nn.Sequential:
    return nn.Sequential(
        nn.BatchNorm1d(width, dtype=torch.float32),
        new_linear(width, _CLASSIFIER_WIDTH, generator),
        nn.ReLU(),
        new_linear(_CLASSIFIER_WIDTH, classes, generator),
    )


class Probes:
    """The two probes, their optimizers, and the labelled prompts that they were trained on.

    The vote probe has two classes, whether the most frequent answer is right, and an auxiliary one for each response.
    The count probe has s + 1 classes: how many of the s rows of a prompt give the right one of its other answers.

    Args:
        width: w, the width of the hidden states.
        size: s, the size of the largest group.
        generator: draws the initial weights.
    """

    def __init__(self, *, width: int, size: int, generator: Generator) -> None:
        prompt = 1 + width + size
        vote = Probe(prompt=prompt, states=width, classes=2, lengths=True, auxiliary=True, generator=generator)
        count = Probe(
            prompt=prompt, states=width, classes=size + 1, lengths=False, auxiliary=False, generator=generator
        )
        self.width = width
        self.size = size
        self._probes: dict[ProbeName, Probe] = {"vote": vote, "count": count}
        self._optimizers: dict[ProbeName, torch.optim.Optimizer] = {}
        for name, probe in self._probes.items():
            self._optimizers[name] = torch.optim.AdamW(probe.parameters(), lr=_LEARNING_RATE, weight_decay=0.0)
        self._past: list[Prompts] = []

    def vote_margin(self, prompts: Prompts) -> Float[Tensor, " p"]:
        """[P] by how much the vote probe's logit of "right" is above that of "wrong"."""
        every_row = torch.ones(len(prompts.prompt_of_row), dtype=torch.bool)
        logits, _ = self._probes["vote"].eval()(prompts, rows=every_row)
        return logits[:, 1] - logits[:, 0]

    def count_probabilities(self, prompts: Prompts) -> Float[Tensor, "p c"]:
        """[P, s + 1] the count probe's probability of each count, over those that are possible."""
        logits, _ = self._probes["count"].eval()(prompts, rows=prompts.gives_other_answer)
        return logits.masked_fill(~prompts.possible, -1e9).softmax(dim=1)

    def train(self, labelled: list[Prompts], generator: Generator) -> None:
        """Some steps on these single prompts, whose label is known, and on earlier ones, which are drawn."""
        losses: dict[ProbeName, Callable[[Prompts], Tensor]] = {"vote": self._vote_loss, "count": self._count_loss}
        for _ in range(_STEPS_A_BATCH):
            for name, loss_of in losses.items():
                earlier = self._drawn(generator, by_count=name == "count")
                batch = [*labelled, *earlier]
                if len(batch) < 2:
                    continue  # too few for a batch normalisation
                self._step(name, loss_of, joined(batch))
        self._past = [*self._past, *labelled][-_REMEMBERED_PROMPTS:]

    def _step(self, name: ProbeName, loss_of: Callable[[Prompts], Tensor], batch: Prompts) -> None:
        probe = self._probes[name].train()
        optimizer = self._optimizers[name]
        loss = loss_of(batch)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(probe.parameters(), 1.0)
        optimizer.step()

    def _drawn(self, generator: Generator, *, by_count: bool) -> list[Prompts]:
        """Some of the earlier prompts at random; `by_count`: as many as may be of each count of right rows."""
        shuffled = [self._past[place] for place in torch.randperm(len(self._past), generator=generator).tolist()]
        if not by_count or len(shuffled) <= _EARLIER_PROMPTS_A_STEP:
            return shuffled[:_EARLIER_PROMPTS_A_STEP]
        by_label: dict[int, list[Prompts]] = defaultdict(list)
        for prompt in shuffled:
            by_label[int(prompt.right_count)].append(prompt)
        share = max(1, _EARLIER_PROMPTS_A_STEP // len(by_label))
        picked = [prompt for label in sorted(by_label) for prompt in by_label[label][:share]]
        left = [prompt for label in sorted(by_label) for prompt in by_label[label][share:]]
        return [*picked, *left][:_EARLIER_PROMPTS_A_STEP]

    def _vote_loss(self, prompts: Prompts) -> Tensor:
        every = torch.ones(len(prompts.prompt_of_row), dtype=torch.bool)
        classes, responses = self._probes["vote"](prompts, rows=every)
        main = functional.cross_entropy(classes, prompts.vote_right, weight=_balance(prompts.vote_right, 2))
        return main + _AUXILIARY_WEIGHT * functional.cross_entropy(responses, prompts.right)

    def _count_loss(self, prompts: Prompts) -> Tensor:
        classes, _ = self._probes["count"](prompts, rows=prompts.gives_other_answer)
        possible = classes.masked_fill(~prompts.possible, -1e9)
        weight = _balance(prompts.right_count, classes.shape[1])
        return functional.cross_entropy(possible, prompts.right_count, weight=weight)

    def state_dict(self) -> dict[str, Any]:
        """The widths, the weights, the optimizers' moments, and the labelled prompts."""
        weights = {}
        moments = {}
        for name, probe in self._probes.items():
            # Copies: the next batch trains on in place.
            weights[name] = deepcopy(dict(probe.state_dict()))
            of_optimizer = self._optimizers[name].state_dict()["state"]
            moments[name] = {str(place): deepcopy(values) for place, values in of_optimizer.items()}
        past = [dict(vars(prompt)) for prompt in self._past]
        return {"width": self.width, "size": self.size, "weights": weights, "moments": moments, "past": past}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Probes:
        """The probes of which `state_dict` returned this."""
        probes = cls(width=state["width"], size=state["size"], generator=Generator().manual_seed(0))
        for name, probe in probes._probes.items():
            probe.load_state_dict(state["weights"][name])
            optimizer = probes._optimizers[name]
            moments = {int(place): deepcopy(values) for place, values in state["moments"][name].items()}
            optimizer.load_state_dict({**optimizer.state_dict(), "state": moments})
        probes._past = [Prompts(**prompt) for prompt in state["past"]]
        return probes


def _balance(labels: Int[Tensor, " p"], classes: int) -> Float[Tensor, " c"]:
    """Weights of classes: 1 / sqrt(count) around a mean of 1, between 0.25 and 4; 0 for a class without a prompt."""
    counts = labels.bincount(minlength=classes).float()
    weights = torch.where(counts > 0, counts.clamp(min=1).rsqrt(), 0.0)
    weights = weights / weights[counts > 0].mean()
    return weights.clamp(0.25, 4.0).masked_fill(counts == 0, 0.0)
