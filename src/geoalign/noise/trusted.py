"""What trusted rows tell: whether their answers are right, what that rules out, and how many answers they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.method.groups import GroupedRows
from geoalign.noise.rows import NoisyRows, sum_by_label
from geoalign.types import Rollouts, response_keys

# The key of an answer that cannot be recognised in another batch; other keys are not negative.
OF_ONE_BATCH = -1


def truth_by_answer(
    trusted: Bool[Tensor, " n"], verdict: Float[Tensor, " n"], answer: Int[Tensor, " n"]
) -> Float[Tensor, " a"]:
    """[A] the truth of each answer by its trusted rows: 1 where most have verdict 1, 0 where most have verdict 0.

    NaN where no row of the answer is trusted, and where as many have verdict 1 as verdict 0.

    Args:
        trusted: [N].
        verdict: [N] 1 or 0; of rows that are not trusted anything.
        answer: [N] the number of the row's answer, from 0.
    """
    trusted_count = sum_by_label(trusted, answer)
    share = sum_by_label(verdict.masked_fill(~trusted, 0), answer) / trusted_count.clamp(min=1)
    return (share > 0.5).double().masked_fill((trusted_count == 0) | (share == 0.5), torch.nan)


def known_truth(rows: NoisyRows, verdict: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """[N] the `truth_by_answer` of the row's answer."""
    return truth_by_answer(rows.trusted, verdict, rows.answer)[rows.answer]


def ruled_out(rows: NoisyRows, verdict: Float[Tensor, " n"]) -> Bool[Tensor, " n"]:
    """[N] whether the row is wrong because a trusted row shows another answer of its group to be right.

    So where answers of the group exclude each other. A row without an answer is ruled out too where one is expected.
    """
    right = known_truth(rows, verdict) == 1
    solved = sum_by_label(right & rows.answered, rows.group)[rows.group] > 0
    return solved & ~right & rows.exclusive & (rows.answered | rows.lacking)


def trusted_answer_keys(rollouts: Rollouts, order: GroupedRows, rows: NoisyRows) -> Int[Tensor, " n"]:
    """[N] a key of each trusted row's answer to its prompt, in sorted order: equal for the same answer in any batch.

    A response without an answer counts as an answer of its own. Prompts are told by their keys. In a batch without keys
    a group of trusted rows alone is told by what it holds, for labelled rollouts are such groups and come with every
    batch. What trusted rows say in any other group cannot be recognised: `OF_ONE_BATCH`, as for rows that are not
    trusted.
    """
    keys = torch.full((len(rows.group),), OF_ONE_BATCH)
    trusted = rows.trusted.nonzero().flatten().tolist()
    answers = {row: _answer_name(rollouts, order, rows, row) for row in trusted}
    if rollouts.prompt_keys is None:
        prompts = _names_by_content(order, rows, answers)
    else:
        prompt_keys = rollouts.prompt_keys.cpu()[order.order.cpu()].tolist()
        prompts = {row: prompt_keys[row] for row in trusted}
    recognised = list(prompts)
    keys[recognised] = response_keys(repr((prompts[row], answers[row])) for row in recognised)
    return keys


def _answer_name(rollouts: Rollouts, order: GroupedRows, rows: NoisyRows, row: int) -> tuple[str, Hashable]:
    """What tells the answer of a sorted row from others to its prompt; without one its response, or its place."""
    given = int(order.order[row])
    if rows.answered[row]:
        assert rollouts.answers is not None
        return "answer", rollouts.answers[given]
    if rollouts.response_keys is not None:
        return "response", int(rollouts.response_keys[given])
    return "place", row - int(order.offsets[rows.group[row]])


def _names_by_content(
    order: GroupedRows, rows: NoisyRows, answers: dict[int, tuple[str, Hashable]]
) -> dict[int, Hashable]:
    """A name of the prompt of each row in a group of trusted rows alone: what they are, and how many came before.

    Groups of one batch are different prompts, though they hold the same answers and rewards.

    Args:
        answers: the names of the answers of the trusted rows.
    """
    names: dict[int, Hashable] = {}
    met: Counter[Hashable] = Counter()
    for members in torch.arange(len(rows.group)).split(order.sizes.tolist()):
        if not bool(rows.trusted[members].all()):
            continue
        content = tuple(sorted(repr((answers[row], float(rows.rewards[row]))) for row in members.tolist()))
        names |= dict.fromkeys(members.tolist(), (content, met[content]))
        met[content] += 1
    return names
