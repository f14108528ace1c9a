"""Hidden states of responses at several layers and positions, kept in a file as they come, resumed after a stop."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from geoalign.errors import ConfigError
from geoalign.hidden.tap import backbone_of
from geoalign.lab.bench.labelled import LabelledRollouts
from geoalign.lab.models.fastest_dtype import fastest_dtype
from geoalign.lab.store.files import named
from geoalign.lab.store.json_files import write_json
from geoalign.pretrained import OwnCodeError, from_pretrained

POSITIONS = ("mean", "final")
# Where layers are looked at unless somebody says otherwise, in shares of the depth.
_DEPTHS = (1 / 3, 1 / 2, 2 / 3, 4 / 5, 9 / 10, 1)


@dataclass(frozen=True, eq=False)
class LayerStates:
    """States [B, layers, positions, d] of a model, computed in `dtype`; `cut_rows` lost a part of prompt or response.

    The state after the last layer is normalised, as the model's head reads it; those in between are not.
    """

    states: Float[np.ndarray, "b l p d"]
    layers: tuple[int, ...]
    cut_rows: int
    dtype: str

    def views(self) -> dict[tuple[int, str], Tensor]:
        """[B, d] by layer and position."""
        return {
            (layer, position): torch.from_numpy(np.ascontiguousarray(self.states[:, row, column]))
            for row, layer in enumerate(self.layers)
            for column, position in enumerate(POSITIONS)
        }


@dataclass(frozen=True, eq=False)
class _Tokens:
    """Prompts by group, responses by row."""

    prompts: list[list[int]]
    responses: list[list[int]]
    cut_rows: int


def layer_states(
    name: str,
    rollouts: LabelledRollouts,
    file: Path,
    *,
    layers: Sequence[int] | None,
    max_tokens: int,
    progress: Callable[[int], None] | None = None,
) -> LayerStates:
    """The states of every response after its prompt, both as plain text; from `file` as far as it has them.

    A group at a time goes through the model, its prompt once. Beside the file stands another, `.json`, that says how
    many groups are done, and a hash of the model, the tokens and the layers: with another one it starts again.

    Args:
        name: the model: folder, id on the hub, or a name of `geoalign model`.
        layers: after which layers; None: six, spread over the upper two thirds.
        max_tokens: longest prompt and response together: of the prompt the last half of so many tokens is read, of the
            response what then fits.
        progress: called with the number of groups that are done.

    Raises:
        ConfigError: no causal language model with a tokenizer, or a layer that it does not have.
    """
    model, tokenizer = _loaded(name)
    wanted = _layers(layers, model)
    tokens = _tokens(tokenizer, rollouts, max_tokens)
    digest = hashlib.sha256(json.dumps([_known(model), wanted, tokens.prompts, tokens.responses]).encode())
    shape = (len(rollouts.groups), len(wanted), len(POSITIONS), model.config.get_text_config().hidden_size)
    table, done = _opened(file, shape, digest.hexdigest())
    for group in range(done, len(tokens.prompts)):
        rows = np.flatnonzero(rollouts.groups == group)
        table[rows] = group_states(model, tokens.prompts[group], [tokens.responses[row] for row in rows], wanted)
        table.flush()
        write_json(_note(file), {"key": digest.hexdigest(), "groups": group + 1})
        if progress is not None:
            progress(group + 1)
    return LayerStates(np.load(file, mmap_mode="r"), wanted, tokens.cut_rows, str(model.dtype))


@torch.inference_mode()
def group_states(
    model: nn.Module, prompt: Sequence[int], responses: Sequence[Sequence[int]], layers: Sequence[int]
) -> Float[np.ndarray, "k l p d"]:
    """The states of K responses to one prompt, which is read once; equal responses are read once too.

    Args:
        prompt: its tokens, possibly none.
        responses: K lists of tokens, none empty.
    """
    backbone, device = backbone_of(model), next(model.parameters()).device
    different = sorted({tuple(response) for response in responses})
    length = torch.tensor([len(response) for response in different], device=device)
    ids = torch.zeros(len(different), int(length.max()), dtype=torch.long, device=device)
    for row, response in enumerate(different):
        ids[row, : len(response)] = torch.tensor(response, device=device)
    inside = torch.arange(ids.shape[1], device=device) < length[:, None]
    options: dict[str, Any] = {"attention_mask": inside.long()}
    if prompt:
        cache = backbone(input_ids=torch.tensor([list(prompt)], device=device), use_cache=True).past_key_values
        cache.batch_repeat_interleave(len(different))
        read = torch.ones(len(different), len(prompt), dtype=torch.long, device=device)
        options = {"attention_mask": torch.cat([read, inside.long()], dim=1), "past_key_values": cache}
    hidden = backbone(input_ids=ids, output_hidden_states=True, **options).hidden_states
    found = torch.stack([_positions(hidden[layer], inside, length) for layer in layers], dim=1).cpu().numpy()
    where = {response: row for row, response in enumerate(different)}
    return found[[where[tuple(response)] for response in responses]]


def _positions(states: Tensor, inside: Tensor, length: Tensor) -> Float[Tensor, "k p d"]:
    """Mean over the response, and its last token; in float32."""
    mean = (states.float() * inside[..., None]).sum(1) / length[:, None]
    return torch.stack([mean, states[torch.arange(len(states)), length - 1].float()], dim=1)


def _loaded(name: str) -> tuple[Any, Any]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options: dict[str, Any] = {"trust_remote_code": False, "setting": "trust_remote_code"}
    try:
        tokenizer = from_pretrained(AutoTokenizer, name, **options)
        model = from_pretrained(AutoModelForCausalLM, name, dtype=getattr(torch, fastest_dtype(device)), **options)
    except OwnCodeError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(f"--model: expected a causal language model, got {name!r}: {error}") from error
    return model.to(device).eval(), tokenizer


def _layers(layers: Sequence[int] | None, model: Any) -> tuple[int, ...]:
    depth = model.config.get_text_config().num_hidden_layers
    if layers is None:
        return tuple(sorted({max(1, round(share * depth)) for share in _DEPTHS}))
    for layer in layers:
        if not 0 <= layer <= depth:
            raise ConfigError(f"--layers: expected numbers from 0 to {depth}, the model's depth, got {layer}")
    return tuple(sorted(set(layers)))


def _tokens(tokenizer: Any, rollouts: LabelledRollouts, max_tokens: int) -> _Tokens:
    """An empty response is its end token alone."""

    def ids(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])

    prompts: list[list[int]] = []
    responses, cut = [], 0
    for row, group in enumerate(rollouts.groups):
        if group == len(prompts):
            prompts.append(ids(rollouts.prompts[row]))
        prompt = prompts[group][-(max_tokens // 2) :]
        response = ids(rollouts.responses[row]) or [tokenizer.eos_token_id or 0]
        fitting = response[: max_tokens - len(prompt)]
        cut += len(prompt) < len(prompts[group]) or len(fitting) < len(response)
        responses.append(fitting)
    return _Tokens([prompt[-(max_tokens // 2) :] for prompt in prompts], responses, cut)


def _known(model: Any) -> str:
    """A hash of the weights: spread over all of them, they are few enough to be read whole here and there."""
    digest = hashlib.sha256(str(model.dtype).encode())
    for key, value in model.state_dict().items():
        digest.update(f"{key} {tuple(value.shape)}".encode())
        digest.update(value.flatten()[:: max(1, value.numel() // 64)].float().cpu().numpy().tobytes())
    return digest.hexdigest()


def _note(file: Path) -> Path:
    return file.with_name(file.name + ".json")


def _opened(file: Path, shape: tuple[int, ...], key: str) -> tuple[Any, int]:
    """The table and how many groups of it are done.

    Raises:
        ConfigError: the file is there, but not from here.
    """
    if file.exists():
        try:
            note = json.loads(_note(file).read_text(encoding="utf-8"))
            known, groups = note["key"], int(note["groups"])
            table = np.lib.format.open_memmap(file, mode="r+")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"--states: expected a new file or one of this command, got {file}: remove it") from error
        if known == key and table.shape == shape:
            return table, groups
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(_note(file), {"key": key, "groups": 0})
    with named(file):
        return np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=shape), 0
