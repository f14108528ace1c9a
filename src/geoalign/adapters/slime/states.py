"""The hidden state of a response, from what SGLang's `/generate` returns with `return_hidden_states`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.errors import InputError


def generated_state(states: Sequence[Any], tokens: int, answer_start: int = -1) -> Float[Tensor, " d"]:
    """[d] the state that predicted the last token of a response, or the first one of its final answer.

    SGLang lists the states after the final norm: first those of the tokens of the prompt that it computed [n, d], then
    one [d] of every step that generated a token after the first. Only the steps' own are used: where prefixes are
    cached the first element has fewer rows than the prompt, or those of another request of its batch
    (`scheduler_output_processor_mixin.py` takes as many as the prompt has tokens).

    Args:
        states: `output["meta_info"]["hidden_states"]`.
        tokens: of the response.
        answer_start: as `geoalign.hidden.answer_starts` has it; -1: the last token.

    Raises:
        InputError: another number of states (speculative decoding), or the token was predicted from the prompt.
    """
    if len(states) != tokens:
        raise InputError(f"hidden_states: expected one of the prompt and {tokens - 1} steps, got {len(states)} in all")
    number = answer_start if answer_start >= 0 else tokens - 1
    if not 0 < number < tokens:
        raise InputError(f"hidden_states: expected a token after the first of {tokens} generated ones, got {number}")
    state = torch.as_tensor(states[number]).detach().float()
    if state.dim() != 1:
        raise InputError(f"hidden_states: expected a state [d] of step {number}, got shape {list(state.shape)}")
    return state
