"""transformers' generate as an engine: for a model that was loaded, and for one in training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessorList

from geoalign.errors import InputError
from geoalign.lab.generation.draws import OwnDraws, uniforms
from geoalign.lab.generation.engine import Generated, end_tokens, generated
from geoalign.lab.generation.shared_prompts import generate_sharing_prompts

# The likeliest token each time, whatever the model's own generation settings say.
GREEDY = {"do_sample": False, "temperature": None, "top_k": None, "top_p": None}


class TransformersEngine:
    """Generates a batch at a time, with a stream of draws for each response; a context manager that frees the model.

    Leaves no trace on a model in training: every module's mode and torch's generators are as before.

    Args:
        model: a causal language model of transformers, on one device.
        tokenizer: its tokenizer, with a padding or an end token.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._pad = pad_token(tokenizer)
        self._ends = end_tokens(model, tokenizer)

    @torch.inference_mode()
    def generate(
        self, prompts: Sequence[Sequence[int]], seeds: Sequence[int], *, temperature: float, max_new_tokens: int
    ) -> list[Generated]:
        """One response to each prompt of tokens, as `Engine`."""
        options: dict[str, Any] = dict(GREEDY)
        if temperature > 0:
            draws = OwnDraws(uniforms(seeds, max_new_tokens), temperature)
            options["logits_processor"] = LogitsProcessorList([draws])
        with _evaluating(self._model):
            tokens = new_tokens(self._model, prompts, pad=self._pad, max_new_tokens=max_new_tokens, options=options)
        return [generated(row, self._ends, self._tokenizer) for row in tokens.tolist()]

    def __enter__(self) -> TransformersEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self._model = None
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def new_tokens(
    model: Any, prompts: Sequence[Sequence[int]], *, pad: int, max_new_tokens: int, options: dict[str, Any]
) -> Tensor:
    """[batch, at most max_new_tokens] tokens after each prompt, padded on the right.

    Args:
        model: a causal language model of transformers, on one device.
        prompts: tokens of each prompt; shorter ones are padded on the left.
        options: of `generate`, such as `GREEDY`.
    """
    width = max(map(len, prompts))
    ids = torch.tensor([[pad] * (width - len(row)) + [*row] for row in prompts], device=model.device)
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in prompts], device=model.device)
    output = generate_sharing_prompts(
        model.generate,
        model,
        input_ids=ids,
        attention_mask=mask,
        max_new_tokens=max_new_tokens,
        pad_token_id=pad,
        use_cache=True,
        # Some models come with a penalty set, which would change what is drawn.
        repetition_penalty=1.0,
        **options,
    )
    return output[:, width:].cpu()


def pad_token(tokenizer: Any) -> int:
    """The padding token, or the end token where there is none.

    Raises:
        InputError: the tokenizer has neither.
    """
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    if pad is None:
        raise InputError("tokenizer: expected a padding or an end token, got none")
    return int(pad)


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        # Module by module: parts that stood in eval mode (a frozen reference) stay there.
        for module in training:
            module.training = True
