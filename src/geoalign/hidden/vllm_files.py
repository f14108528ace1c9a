"""Hidden states in the files that vLLM writes with its method `extract_hidden_states`.

From 0.17 on, vLLM's connector `ExampleHiddenStatesConnector` writes one safetensors file a request: `hidden_states`
[n, layers, h] and `token_ids` [n] (docs/features/speculative_decoding/extract_hidden_states.md). Layers are numbered
as here, from 0 for the embeddings; the state after the last one comes without the final norm.
"""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor, nn

from geoalign.errors import InputError
from geoalign.hidden.positions import response_states
from geoalign.settings.hidden import HiddenLayer, HiddenPosition, layer_numbers

CONNECTOR = "ExampleHiddenStatesConnector"


def extraction_options(layer: HiddenLayer, depth: int, folder: str | Path) -> dict[str, Any]:
    """The options with which vLLM (`LLM`, or `vllm serve` as JSON) writes the states after these layers to a folder.

    A request writes those of its prompt; with `{"include_output_tokens": true}` as its `kv_transfer_params` also those
    of its response but for the last token (versions after 0.22). The answer names the file:
    `kv_transfer_params["hidden_states_path"]`.

    Args:
        depth: layers of the model.
    """
    return {
        "enable_chunked_prefill": False,
        "speculative_config": {
            "method": "extract_hidden_states",
            "num_speculative_tokens": 1,
            "draft_model_config": {
                "hf_config": {"eagle_aux_hidden_state_layer_ids": sorted(layer_numbers(layer, depth))}
            },
        },
        "kv_transfer_config": {
            "kv_connector": CONNECTOR,
            "kv_role": "kv_producer",
            "kv_connector_extra_config": {"shared_storage_path": str(folder)},
        },
    }


def written_state(
    path: str | Path,
    prompt: Sequence[int],
    response: Sequence[int],
    *,
    position: HiddenPosition,
    layer: HiddenLayer,
    depth: int,
    norm: nn.Module | None,
    answer_start: int | None = None,
) -> Float[Tensor, " d"]:
    """[d] the state of one response, as a pass of the model would show it (`extract_states`); waits for the file.

    Args:
        path: `kv_transfer_params["hidden_states_path"]`; the file, and the lock beside it, are removed.
        norm: the model's final norm (`geoalign.hidden.final_norm`), in its present state; None where no last layer is
            asked for.
        answer_start: for `anchor`.

    Raises:
        InputError: the file is not there, is of other tokens or layers, or lacks the token of this position.
    """
    states, tokens = _read(Path(path))
    whole = [*prompt, *response]
    if tokens != whole[: len(tokens)] or len(tokens) < len(whole) - 1:
        raise InputError(f"{path}: expected the states of {len(whole)} tokens (or but the last), got other ones")
    if len(tokens) < len(whole) and position in ("predicting", "anchor"):
        states = torch.cat([states, states[-1:]])  # the last token's own state: not the one that is read
    numbers = layer_numbers(layer, depth)
    if states.shape[1] != len(numbers):
        raise InputError(f"{path}: expected states after {len(numbers)} layers, got {states.shape[1]}")
    if depth in numbers and norm is None:
        raise InputError("norm: expected the model's final norm for the state after its last layer, got none")
    order = sorted(numbers)
    pieces = [states[:, order.index(number)] for number in numbers]
    with torch.no_grad():
        pieces = [norm(piece) if number == depth and norm is not None else piece
                  for number, piece in zip(numbers, pieces, strict=True)]  # fmt: skip
    start, length = torch.tensor([len(prompt)]), torch.tensor([len(response)])
    answers = None if answer_start is None else torch.tensor([answer_start])
    return response_states(torch.cat(pieces, dim=-1)[None], start, length, position, answers)[0]


def _read(path: Path) -> tuple[Tensor, list[int]]:
    lock = path.with_name(f"{path.name}.lock")
    try:
        if lock.is_file():
            with lock.open() as held:
                fcntl.flock(held, fcntl.LOCK_SH)  # vLLM holds the lock until the file is whole
        found = load_file(path)
        states, tokens = found["hidden_states"], found["token_ids"].tolist()
    except (OSError, KeyError) as error:
        raise InputError(f"{path}: expected hidden_states and token_ids of vLLM's connector, got {error!r}") from error
    path.unlink()
    lock.unlink(missing_ok=True)
    return states, tokens
