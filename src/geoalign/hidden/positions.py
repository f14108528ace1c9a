"""One hidden state per response, out of the hidden states of a padded batch."""

from __future__ import annotations

from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geoalign.errors import InputError
from geoalign.settings.hidden import HiddenPosition, check_position


def response_states(
    states: Float[Tensor, "b t d"],
    start: Int[Tensor, " b"],
    length: Int[Tensor, " b"],
    position: HiddenPosition,
    answer_starts: Int[Tensor, " b"] | None = None,
    written: Bool[Tensor, "b r"] | None = None,
) -> Float[Tensor, "b d"]:
    """One state per row, in float32 and detached.

    `final` is the state at the last token of the response (an end-of-sequence token counts as one), `predicting` the
    state that predicted this token, one position earlier: for a response of one token the last of the prompt. `mean`
    averages over the tokens of the response, in float32. `answer_start` is the state that predicted the final answer's
    first token, and `predicting` where no answer was found. The padding may be on either side. In a response with tool
    output the last token is the last that the model wrote, and `mean` is over the tokens that it wrote.

    Args:
        states: [b, t, d] hidden states.
        start: [b] column of the first token of the response.
        length: [b] tokens of the response, at least 1.
        position: which state.
        answer_starts: [b] token of the response, from 0, with which its final answer begins; -1: none was found
            (`geoalign.hidden.answer_tokens`). For `answer_start` only.
        written: [b, r] True where the model wrote this token of the response, False for tool output and padding, at
            least one a row; None: it wrote all.

    Raises:
        InputError: an unknown position, or a row (the message names it) without such a state.
    """
    check_position(position)
    start = start.to(states.device)
    length = length.to(states.device)
    if written is not None:
        written = written.to(states.device)
        length = length.minimum(_through_last(written))
    last = start + length - 1
    wanted = _columns(start, last, position, answer_starts)
    _check_rows(start, length, wanted, last, columns=states.shape[1], position=position)
    states = states.detach()
    if position == "mean":
        column = torch.arange(states.shape[1], device=states.device)
        inside = (column >= start[:, None]) & (column <= last[:, None])
        if written is not None:
            inside &= written.gather(1, (column - start[:, None]).clamp(0, written.shape[1] - 1))
        # The sum runs over one row at a time in float32: no float32 copy of the whole [b, t, d] exists.
        return torch.stack([row[mask].float().mean(0) for row, mask in zip(states, inside, strict=True)])
    return states[torch.arange(len(states), device=states.device), wanted].float()


def packed_states(
    states: Float[Tensor, "n d"],
    offsets: Int[Tensor, " b1"],
    responses: Int[Tensor, " b"],
    position: HiddenPosition,
    answers: Int[Tensor, " b"] | None = None,
) -> Float[Tensor, "b d"]:
    """`response_states` of rows laid end to end without padding; row i is `states[offsets[i]:offsets[i + 1]]`, and its
    response the last `responses[i]` of it. `answers` are its `answer_starts`.
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


def _through_last(written: Tensor) -> Tensor:
    """[b] tokens up to the last one that is True."""
    return (written * torch.arange(1, written.shape[1] + 1, device=written.device)).amax(1)


def _columns(start: Tensor, last: Tensor, position: HiddenPosition, answer_starts: Tensor | None) -> Tensor:
    """[b] the column of each row's state; of `mean` the last of the response."""
    if position != "answer_start":
        return last - 1 if position == "predicting" else last
    if answer_starts is None:
        raise InputError("hidden_position 'answer_start': expected answer_starts, where answers begin, got none")
    answer_starts = answer_starts.to(start.device)
    row = _first((answer_starts < -1) | (start + answer_starts > last))
    if row is not None:
        raise InputError(
            f"answer_starts: expected a token of the response, 0..{int((last - start)[row])}, or -1, got "
            f"{int(answer_starts[row])} in row {row}"
        )
    return torch.where(answer_starts >= 0, start + answer_starts, last) - 1


def _check_rows(start: Tensor, length: Tensor, wanted: Tensor, last: Tensor, *, columns: int, position: str) -> None:
    """Raises InputError for the first row whose response or wanted state lies outside of its columns."""
    row = _first(length < 1)
    if row is not None:
        raise InputError(f"length: expected at least 1 token per response, got {int(length[row])} in row {row}")
    row = _first((start < 0) | (last >= columns))
    if row is not None:
        raise InputError(
            f"start, length: expected a response inside columns 0..{columns - 1}, "
            f"got columns {int(start[row])}..{int(last[row])} in row {row}"
        )
    row = _first(wanted < 0)
    if row is not None:
        what = "last one of the response, got a sequence of one token"
        if position == "answer_start":
            what = "first one of the answer, got a sequence that begins with it"
        raise InputError(f"hidden_position {position!r}: expected a token before the {what} in row {row}")


def _first(wrong: Tensor) -> int | None:
    """The first row that is True; None where none is."""
    return int(wrong.nonzero()[0]) if bool(wrong.any()) else None
