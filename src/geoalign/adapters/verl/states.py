"""Hidden states of rows without padding, as verl runs most of its forward passes."""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.hidden.positions import HiddenPosition, response_states


def packed_states(
    states: Float[Tensor, "n d"],
    offsets: Int[Tensor, " b1"],
    responses: Int[Tensor, " b"],
    position: HiddenPosition,
) -> Float[Tensor, "b d"]:
    """`response_states` of rows laid end to end without padding; row i is `states[offsets[i]:offsets[i + 1]]`, and its
    response the last `responses[i]` of it.

    Raises:
        InputError: an unknown position, or a row without a response.
    """
    rows = [
        response_states(states[None, first:end], (end - first) - length[None], length[None], position)
        for (first, end), length in zip(pairwise(offsets.tolist()), responses, strict=True)
    ]
    return torch.cat(rows)
