"""What CARE's probes read of a batch: each prompt with its responses, and what is known of its answers."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.curators.candidates import Candidates, GroupAnswer


@dataclass(frozen=True, eq=False)
class Prompts:
    """P prompts of N rows in all, as the two probes read them.

    Attributes:
        prompt: [P, 1 + w + s] the share of rows with an answer, the mean state, and the shares of the s most frequent
            answers, the most frequent first.
        states: [N, w] of the responses.
        lengths: [N] of the responses, as shares of the longest.
        prompt_of_row: [N] the prompt of each row.
        gives_other_answer: [N] whether a row gives an answer that is not the most frequent one.
        possible: [P, s + 1] the counts that the right one of the other answers can have; 0: none is right.
        vote_right: [P] whether the most frequent answer is right.
        right_count: [P] how many rows give the right one of the other answers; 0: none.
        right: [N] whether the row's answer is right.
    """

    prompt: Float[Tensor, "p f"]
    states: Float[Tensor, "n w"]
    lengths: Float[Tensor, " n"]
    prompt_of_row: Int[Tensor, " n"]
    gives_other_answer: Bool[Tensor, " n"]
    possible: Bool[Tensor, "p c"]
    vote_right: Int[Tensor, " p"]
    right_count: Int[Tensor, " p"]
    right: Int[Tensor, " n"]

    def __len__(self) -> int:
        return len(self.prompt)

    def single(self, number: int) -> Prompts:
        """One of them alone."""
        by_row = ("states", "lengths", "prompt_of_row", "gives_other_answer", "right")
        mine = self.prompt_of_row == number
        parts = {}
        for item in fields(self):
            value = getattr(self, item.name)
            parts[item.name] = value[mine] if item.name in by_row else value[number : number + 1]
        parts["prompt_of_row"] = torch.zeros(int(mine.sum()), dtype=torch.long)
        return Prompts(**parts)


def joined(prompts: list[Prompts]) -> Prompts:
    """Several single prompts as one."""
    parts = {item.name: torch.cat([getattr(each, item.name) for each in prompts]) for item in fields(Prompts)}
    rows = torch.tensor([len(each.prompt_of_row) for each in prompts])
    parts["prompt_of_row"] = torch.arange(len(prompts)).repeat_interleave(rows)
    return Prompts(**parts)


def read_prompts(candidates: Candidates, *, width: int, size: int) -> tuple[list[int], Prompts]:
    """The groups of a batch that have an answer, by ascending id, and what the probes read of them.

    Args:
        width: w, the width of the hidden states.
        size: s, so many of the most frequent answers of a prompt are told apart.
    """
    lengths = torch.zeros(len(candidates.answers), dtype=torch.float32)
    if candidates.rollouts.lengths is not None:
        lengths = candidates.rollouts.lengths.cpu().float()
        lengths = lengths / lengths.max().clamp(min=1)
    right = candidates.known_answers
    by_frequency = candidates.answers_by_frequency()
    groups = sorted(by_frequency)
    rows_of: dict[int, list[int]] = defaultdict(list)
    for row in candidates.in_order:
        rows_of[candidates.answers[row][0]].append(row)
    read: list[Prompts] = []
    for group in groups:
        prompt = _read_prompt(
            candidates,
            rows=sorted(rows_of[group]),
            answers=by_frequency[group],
            right=right,
            lengths=lengths,
            size=size,
        )
        read.append(prompt)
    return groups, joined(read) if read else _no_prompts(width, size)


def _read_prompt(
    candidates: Candidates,
    *,
    rows: list[int],
    answers: list[GroupAnswer],
    right: dict[GroupAnswer, bool],
    lengths: Float[Tensor, " b"],
    size: int,
) -> Prompts:
    """A single prompt with these rows, whose answers come by frequency."""
    assert candidates.rollouts.hidden is not None
    states = candidates.rollouts.hidden[rows].detach().cpu().float().reshape(len(rows), -1)
    vote, *others = answers
    shares = torch.zeros(size, dtype=torch.float32)
    for place, answer in enumerate(answers[:size]):
        shares[place] = candidates.counts[answer] / len(rows)
    answered = sum(candidates.answered[row] for row in rows) / len(rows)
    gives_other = [candidates.answered[row] and candidates.answers[row] != vote for row in rows]
    possible = torch.zeros(1, size + 1, dtype=torch.bool)
    possible[0, [0, *(min(candidates.counts[answer], size) for answer in others)]] = True
    # Of several that the verifier accepts the rarest counts.
    right_counts = [min(candidates.counts[answer], size) for answer in others if right.get(answer, False)]
    right_count = right_counts[-1] if right_counts else 0
    share_answered = torch.tensor([answered], dtype=torch.float32)
    return Prompts(
        prompt=torch.cat([share_answered, states.mean(dim=0), shares])[None],
        states=states,
        lengths=lengths[rows],
        prompt_of_row=torch.zeros(len(rows), dtype=torch.long),
        gives_other_answer=torch.tensor(gives_other),
        possible=possible,
        vote_right=torch.tensor([int(right.get(vote, False))]),
        right_count=torch.tensor([right_count]),
        right=torch.tensor([int(right.get(candidates.answers[row], False)) for row in rows]),
    )


def _no_prompts(width: int, size: int) -> Prompts:
    """What is read of a batch without any answer."""
    none = torch.zeros(0, dtype=torch.long)
    return Prompts(
        prompt=torch.zeros(0, 1 + width + size, dtype=torch.float32),
        states=torch.zeros(0, width, dtype=torch.float32),
        lengths=torch.zeros(0, dtype=torch.float32),
        prompt_of_row=none,
        gives_other_answer=none.bool(),
        possible=torch.zeros(0, size + 1, dtype=torch.bool),
        vote_right=none,
        right_count=none,
        right=none,
    )


def labelled_groups(candidates: Candidates) -> set[int]:
    """The groups whose label is known: one answer is right, or each has been refuted."""
    known = candidates.known_answers
    solved = candidates.solved_groups
    by_frequency = candidates.answers_by_frequency()
    return {
        group
        for group, answers in by_frequency.items()
        if group in solved or all(answer in known for answer in answers)
    }
