"""Hidden states of many (prompt, response) rows from any Hugging Face causal language model, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from geoalign.errors import InputError
from geoalign.hidden.answer_tokens import answer_starts
from geoalign.hidden.positions import response_states
from geoalign.hidden.tap import BackboneTap, backbone_of
from geoalign.settings.hidden import LAST, HiddenLayer, HiddenPosition, check_position

# Of the padded ids and their attention mask the backbone makes hidden states [b, t, d], which a tap hears.
Forward = Callable[[Tensor, Tensor], Any]


@dataclass(frozen=True, eq=False)
class ExtractedStates:
    """What an extraction gives: states [B, d] (float32, on the CPU), of several layers side by side; response lengths
    [B] in tokens; and how many rows lost the beginning of their prompt or response to `max_tokens`."""

    states: Float[Tensor, "b d"]
    lengths: Int[Tensor, " b"]
    cut_rows: int


def extract_states(
    model: nn.Module,
    prompt_ids: Sequence[Sequence[int]],
    response_ids: Sequence[Sequence[int]],
    *,
    position: HiddenPosition = "predicting",
    layer: HiddenLayer = LAST,
    answer_starts: Sequence[int] | None = None,
    batch_size: int = 16,
    max_tokens: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> ExtractedStates:
    """The hidden state of each response, with the model in eval mode and no gradient.

    Rows are batched by length, so that little padding is computed; the result is in the order of the input.

    Args:
        model: any Hugging Face model with a language-model head, PEFT included; used on its device.
        prompt_ids: B token lists.
        response_ids: B token lists, none empty; an end-of-sequence token that was generated belongs to them.
        position: which state (`response_states`).
        layer: after which layers (`BackboneTap`).
        answer_starts: for `answer_start`: B tokens of the responses where the answers begin, -1 where none was found.
        batch_size: rows per forward pass.
        max_tokens: a longer row keeps its last `max_tokens` tokens; None: rows of any length are fed whole.
        progress: called with the number of rows done after every batch.

    Raises:
        InputError: the lists differ in length, a response is empty or has no such state, the model has no such layer,
            or `batch_size` or `max_tokens` is too small.
    """
    backbone = backbone_of(model)
    _check_lengths(prompt_ids, response_ids)
    prompts, responses, cut = _cut(prompt_ids, response_ids, max_tokens)
    if answer_starts is not None:
        answer_starts = cut_answers(answer_starts, prompts, response_ids, responses)

    with eval_mode(model):
        states = batched_states(
            model,
            lambda ids, mask: backbone(input_ids=ids, attention_mask=mask, use_cache=False),
            prompts,
            responses,
            position=position,
            layer=layer,
            answer_starts=answer_starts,
            batch_size=batch_size,
            pad_id=0,  # any id in the vocabulary: padded positions are masked, and stand behind the ones that are read
            device=next(model.parameters()).device,
            progress=progress,
        )
    return ExtractedStates(states.cpu(), torch.tensor([len(ids) for ids in responses]), cut)


def extract_states_from_texts(
    model: nn.Module,
    tokenizer: Any,
    prompts: Sequence[str],
    responses: Sequence[str],
    *,
    end_of_sequence: bool = True,
    **options: Any,
) -> ExtractedStates:
    """The hidden state of each response text after its prompt text.

    A prompt is tokenised as its tokenizer does by default (with a beginning-of-sequence token where it adds one and the
    text has none), the response without special tokens; what looks like one in it is split as text where it can be.

    Args:
        model: as in `extract_states`.
        tokenizer: the model's Hugging Face tokenizer; a chat template must already be applied to the prompts.
        prompts: B texts.
        responses: B texts.
        end_of_sequence: append the tokenizer's end-of-sequence token to each response, as a finished rollout has it.
        options: keywords of `extract_states`.

    Raises:
        InputError: as `extract_states`; also where the tokenizer has no end-of-sequence token but one is wanted.
    """
    if end_of_sequence and tokenizer.eos_token_id is None:
        raise InputError("end_of_sequence: expected a tokenizer with an end-of-sequence token, got none; pass False")
    prompt_ids = [prompt_token_ids(tokenizer, text) for text in prompts]
    response_ids = [response_token_ids(tokenizer, text, end=end_of_sequence) for text in responses]
    if options.get("position") == "answer_start":
        options.setdefault("answer_starts", answer_starts(tokenizer, response_ids))
    return extract_states(model, prompt_ids, response_ids, **options)


def prompt_token_ids(tokenizer: Any, text: str) -> list[int]:
    """The tokens of a prompt text, with the special ones that the tokenizer adds unless the text begins with one."""
    begun = bool(tokenizer.bos_token) and text.startswith(tokenizer.bos_token)
    ids: list[int] = tokenizer(text, add_special_tokens=not begun)["input_ids"]
    return ids


def response_token_ids(tokenizer: Any, text: str, *, end: bool) -> list[int]:
    """The tokens of a response text, and the end-of-sequence token where it came to its `end` and there is one."""
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    return [*ids, tokenizer.eos_token_id] if end and tokenizer.eos_token_id is not None else ids


def cut_answers(
    starts: Sequence[int],
    prompts: Sequence[Sequence[int]],
    whole: Sequence[Sequence[int]],
    kept: Sequence[Sequence[int]],
) -> list[int]:
    """`starts` counted in responses that lost their beginning; -1 where nothing is left before the answer."""
    if len(starts) != len(whole):
        raise InputError(f"answer_starts: expected {len(whole)} rows as response_ids, got {len(starts)}")
    in_kept = []
    for start, prompt, before, after in zip(starts, prompts, whole, kept, strict=True):
        place = start - (len(before) - len(after))
        # The state that predicts the answer's first token is one token earlier.
        has_state = start >= 0 and place >= 0 and place + len(prompt) > 0
        in_kept.append(place if has_state else -1)
    return in_kept


def batched_states(
    model: nn.Module,
    forward: Forward,
    prompt_ids: Sequence[Sequence[int]],
    response_ids: Sequence[Sequence[int]],
    *,
    position: HiddenPosition,
    layer: HiddenLayer = LAST,
    answer_starts: Sequence[int] | None = None,
    written: Bool[Tensor, "b r"] | None = None,
    batch_size: int,
    pad_id: int,
    device: torch.device,
    progress: Callable[[int], None] | None = None,
) -> Float[Tensor, "b d"]:
    """The states of all rows, right-padded, longest rows first, in the order of the input.

    `forward` runs the backbone of `model`, which is listened to; `written` is that of `response_states`; the rest is as
    in `extract_states`.
    """
    check_position(position)
    _check_lengths(prompt_ids, response_ids)
    if not len(prompt_ids):
        raise InputError("prompt_ids: expected at least one row, got none")
    if batch_size < 1:
        raise InputError(f"batch_size: expected at least 1, got {batch_size}")
    for row, response in enumerate(response_ids):
        if not len(response):
            raise InputError(f"response_ids: expected at least 1 token per response, got none in row {row}")
    total = [len(prompt) + len(response) for prompt, response in zip(prompt_ids, response_ids, strict=True)]
    if position == "predicting" and min(total) < 2:
        raise InputError(
            "hidden_position 'predicting': expected a token before the last one of each response, "
            f"got a sequence of one token in row {total.index(1)}"
        )
    order = sorted(range(len(total)), key=lambda row: -total[row])
    collected: list[Tensor | None] = [None] * len(total)
    with torch.no_grad():
        for first in range(0, len(order), batch_size):
            rows = order[first : first + batch_size]
            ids, mask = padded([[*prompt_ids[row], *response_ids[row]] for row in rows], pad_id, device)
            start = torch.tensor([len(prompt_ids[row]) for row in rows], device=device)
            length = torch.tensor([len(response_ids[row]) for row in rows], device=device)
            begins = None if answer_starts is None else torch.tensor([answer_starts[row] for row in rows])
            where = (start, length, position, begins, None if written is None else written[rows])
            with BackboneTap(model, partial(_selected, where), layer=layer) as tap:
                forward(ids, mask)
            for row, state in zip(rows, tap.states[0], strict=True):
                collected[row] = state
            if progress is not None:
                progress(first + len(rows))
    return torch.stack([state for state in collected if state is not None])


def _selected(where: tuple[Any, ...], states: Tensor, first: int) -> Tensor:
    return response_states(states, *where)


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Every module of `model` in eval mode (no dropout) for the block; each gets its own mode back afterwards."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _check_lengths(prompt_ids: Sequence[Sequence[int]], response_ids: Sequence[Sequence[int]]) -> None:
    if len(prompt_ids) != len(response_ids):
        raise InputError(f"response_ids: expected {len(prompt_ids)} rows as prompt_ids, got {len(response_ids)}")


def padded(rows: Sequence[Sequence[int]], pad: int, device: Any) -> tuple[Tensor, Tensor]:
    """Tokens and mask with padding on the right, which no earlier token sees."""
    width = max(len(row) for row in rows)
    ids = []
    mask = []
    for row in rows:
        missing = width - len(row)
        ids.append([*row, *[pad] * missing])
        mask.append([1] * len(row) + [0] * missing)
    return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def _cut(
    prompt_ids: Sequence[Sequence[int]], response_ids: Sequence[Sequence[int]], max_tokens: int | None
) -> tuple[Sequence[Sequence[int]], Sequence[Sequence[int]], int]:
    """Prompts and responses, of which each row keeps its last `max_tokens` tokens, and how many rows were cut."""
    if max_tokens is None:
        return prompt_ids, response_ids, 0
    if max_tokens < 2:
        raise InputError(f"max_tokens: expected at least 2, got {max_tokens}")
    cut = sum(len(p) + len(r) > max_tokens for p, r in zip(prompt_ids, response_ids, strict=True))
    responses = [ids[-max_tokens:] for ids in response_ids]
    prompts = [
        prompt[max(0, len(prompt) + len(response) - max_tokens) :]
        for prompt, response in zip(prompt_ids, responses, strict=True)
    ]
    return prompts, responses, cut
