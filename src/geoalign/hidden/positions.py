"""One hidden state per response, out of the last hidden states of a padded batch."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geoalign.errors import InputError

HiddenPosition = Literal["predicting", "final", "mean"]
HIDDEN_POSITIONS: tuple[HiddenPosition, ...] = get_args(HiddenPosition)


def check_position(position: str) -> None:
    """Raises InputError unless `position` is one of HIDDEN_POSITIONS."""
    if position not in HIDDEN_POSITIONS:
        raise InputError(f"hidden_position: expected one of {', '.join(HIDDEN_POSITIONS)}; got {position!r}")


def response_states(
    states: Float[Tensor, "b t d"],
    start: Int[Tensor, " b"],
    length: Int[Tensor, " b"],
    position: HiddenPosition,
) -> Float[Tensor, "b d"]:
    """One state per row, in float32 and detached.

    `final` is the state at the last token of the response (an end-of-sequence token counts as one), `predicting` the
    state that predicted this token, one position earlier: for a response of one token the last of the prompt. `mean`
    averages over the tokens of the response, in float32. The padding may be on either side.

    Args:
        states: [b, t, d] last hidden states.
        start: [b] column of the first token of the response.
        length: [b] tokens of the response, at least 1.
        position: which state.

    Raises:
        InputError: an unknown position, an empty response, a response beyond the last column, or (`predicting`) a
            response of one token that nothing precedes; the message names the row.
    """
    check_position(position)
    start, length = start.to(states.device), length.to(states.device)
    last = start + length - 1
    wanted = last - 1 if position == "predicting" else last
    _check_rows(start, length, wanted, last, columns=states.shape[1])
    states = states.detach()
    if position == "mean":
        column = torch.arange(states.shape[1], device=states.device)
        inside = (column >= start[:, None]) & (column <= last[:, None])
        # The sum runs over one row at a time in float32: no float32 copy of the whole [b, t, d] exists.
        return torch.stack([row[mask].float().mean(0) for row, mask in zip(states, inside, strict=True)])
    return states[torch.arange(len(states), device=states.device), wanted].float()


def _check_rows(start: Tensor, length: Tensor, wanted: Tensor, last: Tensor, *, columns: int) -> None:
    empty = (length < 1).nonzero()
    if len(empty):
        row = int(empty[0])
        raise InputError(f"length: expected at least 1 token per response, got {int(length[row])} in row {row}")
    outside = ((start < 0) | (last >= columns)).nonzero()
    if len(outside):
        row = int(outside[0])
        raise InputError(
            f"start, length: expected a response inside columns 0..{columns - 1}, "
            f"got columns {int(start[row])}..{int(last[row])} in row {row}"
        )
    before = (wanted < 0).nonzero()
    if len(before):
        raise InputError(
            "hidden_position 'predicting': expected a token before the last one of the response, "
            f"got a sequence of one token in row {int(before[0])}"
        )
