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

from geoalign.errors import ConfigError, InputError
from geoalign.hidden.answers import answer_starts, rows_without_answer
from geoalign.hidden.positions import response_states
from geoalign.hidden.tap import BackboneTap, backbone_of
from geoalign.lab.bench.labelled import LabelledRollouts
from geoalign.lab.models.fastest_dtype import fastest_dtype
from geoalign.lab.store.files import named
from geoalign.lab.store.json_files import write_json
from geoalign.pretrained import OwnCodeError, from_pretrained
from geoalign.settings.hidden import HIDDEN_POSITIONS, HiddenPosition, layer_numbers

# Where layers are looked at unless somebody says otherwise, in shares of the depth.
_DEPTHS = (1 / 3, 1 / 2, 2 / 3, 4 / 5, 9 / 10, 1)


@dataclass(frozen=True, eq=False)
class LayerStates:
    """States [B, layers, positions, d] of a model, computed in `dtype`, positions as in `HIDDEN_POSITIONS`.

    The state after the last layer is normalised, as the model's head reads it; those in between are not. `cut_rows`
    lost a part of prompt or response, and in `without_answer` rows the position `anchor` is `predicting`.
    """

    states: Float[np.ndarray, "b l p d"]
    layers: tuple[int, ...]
    cut_rows: int
    without_answer: int
    dtype: str

    def views(self, positions: Sequence[HiddenPosition] | None = None) -> dict[tuple[int, str], Tensor]:
        """[B, d] by layer and position; None: every position, `anchor` where any row has an answer."""
        if positions is None:
            positions = HIDDEN_POSITIONS[: -1 if self.without_answer == len(self.states) else None]
        return {
            (layer, position): torch.from_numpy(
                np.ascontiguousarray(self.states[:, row, HIDDEN_POSITIONS.index(position)])
            )
            for row, layer in enumerate(self.layers)
            for position in positions
        }


@dataclass(frozen=True, eq=False)
class _Tokens:
    """Prompts by group, responses by row, and the token with which each response's answer begins."""

    prompts: list[list[int]]
    responses: list[list[int]]
    answers: list[int]
    cut_rows: int


def layer_states(
    name: str,
    rollouts: LabelledRollouts,
    file: Path,
    *,
    layers: Sequence[int | float] | None,
    max_tokens: int,
    progress: Callable[[int], None] | None = None,
) -> LayerStates:
    """The states of every response after its prompt, both as plain text; from `file` as far as it has them.

    A group at a time goes through the model, its prompt once. Beside the file stands another, `.json`, that says how
    many groups are done, and a hash of the model, the tokens and the layers: with another one it starts again.

    Args:
        name: the model: folder, id on the hub, or a name of `geoalign model`.
        layers: after which layers, by number or share of the depth; None: six, spread over the upper two thirds.
        max_tokens: longest prompt and response together: of the prompt the last half of so many tokens is read, of the
            response the last that then fit.
        progress: called with the number of groups that are done.

    Raises:
        ConfigError: no causal language model with a tokenizer, or a layer that it does not have.
    """
    model, tokenizer = _loaded(name)
    wanted = _layers(layers, model)
    tokens = _tokens(tokenizer, rollouts, max_tokens)
    read = [_known(model), wanted, HIDDEN_POSITIONS, tokens.prompts, tokens.responses, tokens.answers]
    digest = hashlib.sha256(json.dumps(read).encode())
    shape = (len(rollouts.groups), len(wanted), len(HIDDEN_POSITIONS), model.config.get_text_config().hidden_size)
    table, done = _opened(file, shape, digest.hexdigest())
    for group in range(done, len(tokens.prompts)):
        rows = np.flatnonzero(rollouts.groups == group)
        responses, answers = [tokens.responses[row] for row in rows], [tokens.answers[row] for row in rows]
        table[rows] = group_states(model, tokens.prompts[group], responses, answers, wanted)
        table.flush()
        write_json(_note(file), {"key": digest.hexdigest(), "groups": group + 1})
        if progress is not None:
            progress(group + 1)
    states, without = np.load(file, mmap_mode="r"), rows_without_answer(tokens.answers)
    return LayerStates(states, wanted, tokens.cut_rows, without, str(model.dtype))


@torch.inference_mode()
def group_states(
    model: nn.Module,
    prompt: Sequence[int],
    responses: Sequence[Sequence[int]],
    answers: Sequence[int],
    layers: Sequence[int],
) -> Float[np.ndarray, "k l p d"]:
    """The states of K responses to one prompt, which is read once; equal responses are read once too.

    Args:
        prompt: its tokens, at least one.
        responses: K lists of tokens, none empty.
        answers: K tokens with which the answers begin, -1 where there is none; equal for equal responses.
    """
    backbone, device = backbone_of(model), next(model.parameters()).device
    begins = dict(zip(map(tuple, responses), answers, strict=True))
    different = sorted(begins)
    # The prompt's last token is read with every response: the state there predicts the response's first.
    *read, last = prompt
    length = torch.tensor([len(response) for response in different], device=device)
    ids = torch.zeros(len(different), 1 + int(length.max()), dtype=torch.long, device=device)
    for row, response in enumerate(different):
        ids[row, : 1 + len(response)] = torch.tensor([last, *response], device=device)
    mask = (torch.arange(ids.shape[1], device=device) <= length[:, None]).long()
    options: dict[str, Any] = {"attention_mask": mask}
    if read:
        cache = backbone(input_ids=torch.tensor([read], device=device), use_cache=True).past_key_values
        cache.batch_repeat_interleave(len(different))
        seen = torch.ones(len(different), len(read), dtype=torch.long, device=device)
        options = {"attention_mask": torch.cat([seen, mask], dim=1), "past_key_values": cache}
    first = torch.tensor([begins[response] for response in different])

    def select(states: Tensor, _: int) -> Tensor:
        at = [response_states(states, torch.ones_like(length), length, place, first) for place in HIDDEN_POSITIONS]
        return torch.cat(at, dim=1)

    with BackboneTap(model, select, layer=layers) as tap:
        backbone(input_ids=ids, **options)
    found = tap.states[0].reshape(len(different), len(layers), len(HIDDEN_POSITIONS), -1).cpu().numpy()
    where = {response: row for row, response in enumerate(different)}
    return found[[where[tuple(response)] for response in responses]]


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


def _layers(layers: Sequence[int | float] | None, model: Any) -> tuple[int, ...]:
    depth = model.config.get_text_config().num_hidden_layers
    if layers is None:
        return tuple(sorted({max(1, round(share * depth)) for share in _DEPTHS}))
    try:
        return tuple(sorted(layer_numbers(layers, depth)))
    except InputError as error:
        raise ConfigError(f"--layers: {error}") from error


def _tokens(tokenizer: Any, rollouts: LabelledRollouts, max_tokens: int) -> _Tokens:
    """An empty prompt or response is its end token alone."""
    end = [tokenizer.eos_token_id or 0]

    def ids(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"])

    prompts: list[list[int]] = []
    responses, cut = [], 0
    for row, group in enumerate(rollouts.groups):
        if group == len(prompts):
            prompts.append(ids(rollouts.prompts[row]) or end)
        prompt = prompts[group][-(max_tokens // 2) :]
        response = ids(rollouts.responses[row]) or end
        fitting = response[len(prompt) - max_tokens :]
        cut += len(prompt) < len(prompts[group]) or len(fitting) < len(response)
        responses.append(fitting)
    kept = [prompt[-(max_tokens // 2) :] for prompt in prompts]
    return _Tokens(kept, responses, answer_starts(tokenizer, responses), cut)


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
