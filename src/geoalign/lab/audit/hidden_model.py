"""Hidden states computed with a model: longest rollouts first, kept on disk as they come, resumed after a stop."""

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
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from geoalign.errors import ConfigError, InputError
from geoalign.hidden.answers import answer_starts, rows_without_answer
from geoalign.hidden.extract import extract_states
from geoalign.hidden.layers import wanted_layers
from geoalign.hidden.tap import backbone_of
from geoalign.lab.audit.hidden_files import stem
from geoalign.lab.config.audit import AuditConfig
from geoalign.lab.dumps.formats import Layout
from geoalign.lab.dumps.reading import Dump
from geoalign.lab.dumps.values import Messages
from geoalign.lab.generation.models import fingerprint
from geoalign.lab.models.fastest_dtype import fastest_dtype
from geoalign.lab.store.files import write_atomically
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.tasks.base import rendered, token_ids
from geoalign.lab.tasks.rows import row_name
from geoalign.pretrained import OwnCodeError, from_pretrained, is_hub_id
from geoalign.settings.hidden import is_last

# Batches between two writes of how far it came.
_BATCHES = 8
_Ids = np.ndarray


@dataclass(frozen=True, eq=False)
class StateModel:
    """A model that states are computed with; `known` tells its weights from others'."""

    path: str
    model: Any
    tokenizer: Any
    known: str
    dtype: str
    longest: int | None

    @property
    def device(self) -> torch.device:
        """Where the model stands."""
        device: torch.device = next(self.model.parameters()).device
        return device


@dataclass(frozen=True, eq=False)
class ComputedStates:
    """The states of a dump's rollouts, a view of `path`; the lengths of their responses in tokens; how many rows lost
    their beginning to the longest length; and how many have no final answer, where the position is `anchor`."""

    states: Float[Tensor, "n d"]
    lengths: tuple[int, ...]
    cut_rows: int
    without_answer: int | None
    path: Path
    prompts: str


def check_model_path(text: str) -> str:
    """The folder or id on the hub that `--model` names; of a run folder its final model."""
    folder = Path(text).expanduser()
    if not folder.is_dir() and is_hub_id(text):
        return text
    if not folder.is_dir():
        raise ConfigError(f"--model: expected a folder of a model, a run folder or an id on the hub, got {text!r}")
    final = RunFolder(folder).final
    folder = final if not (folder / "config.json").is_file() and final.is_dir() else folder
    if (folder / "adapter_config.json").is_file():
        raise ConfigError(f"--model {folder}: expected a whole model, got adapters: merge them first")
    if not (folder / "config.json").is_file():
        raise ConfigError(f"--model {folder}: expected a model (config.json), got a folder without one")
    return str(folder)


def load_state_model(text: str, config: AuditConfig) -> StateModel:
    """Loads the model and its tokenizer; code that comes with a model runs only if it is allowed."""
    where = check_model_path(text)
    device = config.device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = fastest_dtype(device) if config.dtype == "auto" else config.dtype
    options: dict[str, Any] = {
        "revision": config.revision,
        "trust_remote_code": config.trust_remote_code,
        "setting": "trust_remote_code",
    }
    try:
        tokenizer = from_pretrained(AutoTokenizer, where, **options)
        model = from_pretrained(AutoModelForCausalLM, where, dtype=getattr(torch, dtype), **options)
    except OwnCodeError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"--model: expected a causal language model with a tokenizer, got {text!r}: {error}"
        ) from error
    try:
        model = model.to(torch.device(device)).eval()
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"device: expected one that is there, got {device!r}: {error}") from error
    wanted_layers(backbone_of(model), config.hidden_layer)
    longest = config.max_tokens or getattr(model.config.get_text_config(), "max_position_embeddings", None)
    folder = Path(where)
    known = fingerprint(folder) if folder.is_dir() else f"{where}@{getattr(model.config, '_commit_hash', None)}"
    return StateModel(where, model, tokenizer, known, dtype, longest)


def compute_states(
    source: StateModel,
    dump: Dump,
    config: AuditConfig,
    cache: Path,
    *,
    progress: Callable[[int], None] | None = None,
) -> ComputedStates:
    """The hidden state of every rollout of a dump, in its order, from the cache where they are there.

    Rows go through the model by falling length in batches that depend on nothing else, so states computed in one go or
    in several are the same bits. Finished states lie in `cache` as `<dump>-<key>.npy`, float32; the key is a hash of
    the model's files, of every token and of the settings. `progress` is called with the number of rows that are done.
    """
    how = _reading(source, dump, config)
    prompts, responses, lengths, cut = _tokens(source, dump, how, config)
    answers = answer_starts(source.tokenizer, responses) if config.hidden_position == "anchor" else None
    key = _key(source, prompts, responses, answers, config)
    path = cache / f"{stem(dump.path)}-{key[:16]}.npy"
    rows = len(dump.frame)
    if not path.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        _compute(source, prompts, responses, answers, config, path, progress)
    if progress is not None:
        progress(rows)
    states = torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))
    if states.dim() != 2 or len(states) != rows:
        raise InputError(f"{path}: expected the states of {rows} rollouts, got shape {tuple(states.shape)}; remove it")
    without_answer = None if answers is None else rows_without_answer(answers)
    return ComputedStates(states, lengths, cut, without_answer, path, how)


def _compute(
    source: StateModel,
    prompts: Sequence[_Ids],
    responses: Sequence[_Ids],
    answers: Sequence[int] | None,
    config: AuditConfig,
    path: Path,
    progress: Callable[[int], None] | None,
) -> None:
    rows = len(prompts)
    order = sorted(range(rows), key=lambda row: (-(len(prompts[row]) + len(responses[row])), row))
    partial, note = path.with_name(path.name + ".partial"), path.with_name(path.name + ".progress")
    done, table = _resumed(partial, note, rows)
    size = config.batch_size
    for number, first in enumerate(range(done, rows, size), start=1):
        batch = order[first : first + size]
        states = extract_states(
            source.model,
            [prompts[row].tolist() for row in batch],
            [responses[row].tolist() for row in batch],
            position=config.hidden_position,
            answer_starts=None if answers is None else [answers[row] for row in batch],
            layer=config.hidden_layer,
            batch_size=size,
        ).states.numpy()
        if table is None:
            table = np.lib.format.open_memmap(partial, mode="w+", dtype=np.float32, shape=(rows, states.shape[1]))
        table[batch] = states
        done = first + len(batch)
        if number % _BATCHES == 0:
            table.flush()
            write_atomically(note, str(done))
        if progress is not None:
            progress(done)
    assert table is not None
    table.flush()
    del table
    partial.replace(path)
    note.unlink(missing_ok=True)


def _resumed(partial: Path, note: Path, rows: int) -> tuple[int, Any]:
    """How many rows an earlier call came to, and its table; 0 and None where nothing fits."""
    try:
        done, table = int(note.read_text(encoding="utf-8")), np.lib.format.open_memmap(partial, mode="r+")
    except (OSError, ValueError):
        return 0, None
    return (done, table) if len(table) == rows and 0 < done <= rows else (0, None)


def _reading(source: StateModel, dump: Dump, config: AuditConfig) -> str:
    """How prompts are read: as `chat` or as `text`; conversations are chat either way."""
    template = source.tokenizer.chat_template is not None
    if config.prompts == "chat" and not template:
        raise ConfigError(f"prompts: expected text for {source.path}, whose tokenizer has no chat template, got chat")
    if config.prompts != "auto":
        return config.prompts
    return "chat" if template and not dump.layout.format.rendered else "text"


def _tokens(
    source: StateModel, dump: Dump, how: str, config: AuditConfig
) -> tuple[list[_Ids], list[_Ids], tuple[int, ...], int]:
    """The token ids of prompts and responses, cut to the longest length; the responses' own lengths; rows cut."""
    seen: dict[tuple[Any, ...], _Ids] = {}
    end = source.tokenizer.eos_token_id
    prompts, responses, lengths, cut = [], [], [], 0
    for text, messages, answer, truncated, line in zip(
        *(dump.frame[name] for name in ("prompt", "messages", "response", "truncated", "line")), strict=True
    ):
        # A conversation may differ where its text does not: in its roles, or in a system message.
        key = (text, None if messages is None else json.dumps(messages))
        if key not in seen:
            seen[key] = _prompt_ids(source, text, messages, how, dump.layout, config)
        prompt = seen[key]
        ids = source.tokenizer(answer, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        # A finished rollout ends with the end token, which decoding left out; one that was cut off does not.
        if end is not None and not (truncated and ids):
            ids = [*ids, end]
        if not ids or len(prompt) + len(ids) < 2:
            raise InputError(f"{row_name(dump.path, line)}: response: expected at least one token, got none")
        response = np.asarray(ids, dtype=np.int32)
        lengths.append(len(response))
        if source.longest is not None and len(prompt) + len(response) > source.longest:
            cut += 1
            response = response[-source.longest :]
            prompt = prompt[len(prompt) + len(response) - source.longest :]
        prompts.append(prompt)
        responses.append(response)
    return prompts, responses, tuple(lengths), cut


def _prompt_ids(
    source: StateModel, text: str, messages: Messages | None, how: str, layout: Layout, config: AuditConfig
) -> _Ids:
    tokenizer = source.tokenizer
    if how == "chat" and messages is None:
        messages = ({"role": "user", "content": text},)
    if messages is None or (how == "text" and not layout.format.rendered):
        plain = text if messages is None else "\n\n".join(message["content"] for message in messages)
        ids = tokenizer(plain)["input_ids"]
    elif tokenizer.chat_template is None:
        raise ConfigError(
            f"prompts: expected a tokenizer with a chat template for the chat messages of {layout.format.title}, "
            f"got none in {source.path}"
        )
    else:
        ids = token_ids([rendered(list(messages), tokenizer, config.chat_template_kwargs)], tokenizer)[0]
    return np.asarray(ids, dtype=np.int32)


def _key(
    source: StateModel,
    prompts: Sequence[_Ids],
    responses: Sequence[_Ids],
    answers: Sequence[int] | None,
    config: AuditConfig,
) -> str:
    digest = hashlib.sha256()
    how = [source.known, source.dtype, source.device.type, config.hidden_position, config.batch_size, source.longest]
    how += [] if is_last(config.hidden_layer) else [config.hidden_layer]
    how += [] if answers is None else [answers]
    digest.update(json.dumps(how).encode())
    for prompt, response in zip(prompts, responses, strict=True):
        digest.update(np.asarray([len(prompt), len(response)], dtype=np.int64).tobytes())
        digest.update(prompt.tobytes())
        digest.update(response.tobytes())
    return digest.hexdigest()
