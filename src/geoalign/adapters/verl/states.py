"""Hidden states of rows without padding, as verl runs most of its forward passes."""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.hidden.positions import response_states
from geoalign.settings.hidden import HiddenPosition


def packed_states(
    states: Float[Tensor, "n d"],
    offsets: Int[Tensor, " b1"],
    responses: Int[Tensor, " b"],
    position: HiddenPosition,
    answers: Int[Tensor, " b"] | None = None,
) -> Float[Tensor, "b d"]:
    """`response_states` of rows laid end to end without padding; row i is `states[offsets[i]:offsets[i + 1]]`, and its
    response the last `responses[i]` of it. `answers` are its `answer_starts`.

    Raises:
        InputError: an unknown position, or a row without a response.
    """
    rows = [
        response_states(
            states[None, first:end],
            (end - first) - length[None],
            length[None],
            position,
            None if answers is None else answers[row : row + 1],
        )
        for row, ((first, end), length) in enumerate(zip(pairwise(offsets.tolist()), responses, strict=True))
    ]
    return torch.cat(rows)
