"""Hidden states in the files that vLLM writes with its method `extract_hidden_states`.

From 0.17 on, vLLM's connector `ExampleHiddenStatesConnector` writes one safetensors file a request: `hidden_states`
[n, layers, h] and `token_ids` [n] (docs/features/speculative_decoding/extract_hidden_states.md). Layers are numbered
as here, from 0 for the embeddings; the state after the last one comes without the final norm.

Read in vLLM 0.18.0, 0.23.0 and 0.31.0 (distributed/kv_transfer/kv_connector/v1/example_hidden_states_connector.py).
"""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Bool, Float
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
        # 0.23 counts a row's states from its first token, also where a cached prefix was not computed again.
        "enable_prefix_caching": False,
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


def written_files(llm: Any, params: Any, rows: Sequence[Sequence[int]]) -> list[str | None]:
    """The file that an engine with `extraction_options` wrote of each of these rows of tokens; None: it named none.

    Args:
        llm: vLLM's `LLM`.
        params: its `SamplingParams`, with `max_tokens=1`.

    Raises:
        InputError: the engine gives another number of answers.
    """
    outputs = llm.generate([{"prompt_token_ids": list(row)} for row in rows], params, use_tqdm=False)
    if len(outputs) != len(rows):
        raise InputError(f"vLLM: expected {len(rows)} answers, got {len(outputs)}")
    # Since 0.31 at the latest, the last files are written in a step after the last answer. An engine in this process
    # takes it when asked to, and holds their locks until then.
    core = getattr(llm.llm_engine.engine_core, "engine_core", None)
    while core is not None and core.scheduler.has_requests():
        llm.llm_engine.step()
    return [(output.kv_transfer_params or {}).get("hidden_states_path") for output in outputs]


def written_state(
    path: str | Path | None,
    prompt: Sequence[int],
    response: Sequence[int],
    *,
    position: HiddenPosition,
    layer: HiddenLayer,
    depth: int,
    norm: nn.Module | None,
    answer_start: int | None = None,
    own: Bool[Tensor, " r"] | None = None,
) -> Float[Tensor, " d"]:
    """[d] the state of one response, as a pass of the model would show it (`extract_states`); waits for the file.

    Args:
        path: of `written_files`; the file, and the lock beside it, are removed.
        norm: the model's final norm (`geoalign.hidden.final_norm`), in its present state; None where no last layer is
            asked for.
        answer_start: for `anchor`.
        own: one row of `written` of `response_states`.

    Raises:
        InputError: the file is not there, is of other tokens or layers, or lacks the token of this position.
    """
    if path is None:
        raise InputError("vLLM: expected kv_transfer_params['hidden_states_path'], got none")
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
        pieces = [_normed(norm, piece) if number == depth and norm is not None else piece
                  for number, piece in zip(numbers, pieces, strict=True)]  # fmt: skip
    start, length = torch.tensor([len(prompt)]), torch.tensor([len(response)])
    answers = None if answer_start is None else torch.tensor([answer_start])
    written = None if own is None else own[None]
    return response_states(torch.cat(pieces, dim=-1)[None], start, length, position, answers, written)[0]


def _normed(norm: nn.Module, states: Tensor) -> Tensor:
    weights = next(norm.parameters(), states)  # a trainer's may be wider than the engine's
    normed: Tensor = norm(states.to(weights.dtype))
    return normed


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
