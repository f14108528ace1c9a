"""One hidden state per row, out of the two layouts in which verl runs its forward passes."""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.hidden.positions import HiddenPosition, response_states


def padded_states(
    states: Float[Tensor, "b t d"],
    lengths: Int[Tensor, " b"],
    responses: Int[Tensor, " b"],
    position: HiddenPosition,
) -> Float[Tensor, "b d"]:
    """One float32 state per row of a right-padded batch.

    Args:
        states: [b, t, d] last hidden states; row i has `lengths[i]` tokens, its response is the last `responses[i]`.
        lengths: [b] tokens of prompt and response.
        responses: [b] tokens of the response, at least 1.
        position: which state (`geoalign.hidden.response_states`).

    Raises:
        InputError: an unknown position, or a row without a response.
    """
    return response_states(states, lengths - responses, responses, position)


def packed_states(
    states: Float[Tensor, "n d"],
    offsets: Int[Tensor, " b1"],
    responses: Int[Tensor, " b"],
    position: HiddenPosition,
) -> Float[Tensor, "b d"]:
    """The same for rows laid end to end without padding; row i is `states[offsets[i]:offsets[i + 1]]`."""
    ends = offsets.tolist()
    rows = [
        padded_states(states[None, first:end], offsets.new_tensor([end - first]), responses[row, None], position)
        for row, (first, end) in enumerate(pairwise(ends))
    ]
    return torch.cat(rows)
