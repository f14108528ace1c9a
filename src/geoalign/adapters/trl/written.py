"""Which tokens of a response the policy wrote: all, or all but what tools and environments put between its turns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

TokenIds = list[list[int]]


class Written:
    """TRL's `tool_mask` of this process's rows (`env_mask` of a rollout function).

    Args:
        responses: B token lists.
        masks: B lists, as long as the responses, of 1 (the policy's token) and 0 (not its); None: it wrote all.

    Attributes:
        mask: [B, r] the masks, padded with False; None as `masks`. A row in which the policy wrote nothing is True
            throughout: it must have a state.
        nothing: B flags of these rows, which are no donors.
        lengths: [B] tokens that the policy wrote.
    """

    def __init__(self, responses: TokenIds, masks: Sequence[Sequence[int]] | None) -> None:
        self.mask: Bool[Tensor, "b r"] | None = None
        self.nothing = [False] * len(responses)
        self.lengths: Int[Tensor, " b"] = torch.tensor([len(ids) for ids in responses])
        if masks is None:
            return
        self.nothing = [not any(mask) for mask in masks]
        self.mask = torch.zeros(len(responses), int(self.lengths.max()), dtype=torch.bool)
        for row, mask in enumerate(masks):
            self.mask[row, : len(mask)] = torch.tensor(mask, dtype=torch.bool) | self.nothing[row]
        self.lengths = torch.tensor([sum(map(bool, mask)) for mask in masks])

    def parts(self, responses: TokenIds) -> tuple[TokenIds, TokenIds]:
        """Of each response the columns that the policy wrote, and the tokens in them."""
        if self.mask is None:
            return [list(range(len(ids))) for ids in responses], responses
        columns = [row.nonzero().squeeze(1).tolist() for row in self.mask]
        return columns, [[ids[at] for at in own] for ids, own in zip(responses, columns, strict=True)]
