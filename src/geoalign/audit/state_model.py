"""Hidden states computed with a model, longest rollouts first, and kept on disk, a file for each dump."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer

from geoalign.answers.messages import Messages, rendered, token_ids
from geoalign.audit.settings import AuditConfig
from geoalign.audit.state_files import stem
from geoalign.console.terminal import Console, passing_progress
from geoalign.dumps.layout import DumpLayout
from geoalign.dumps.reading import Dump
from geoalign.dumps.row_names import row_name
from geoalign.errors import ConfigError, InputError
from geoalign.hidden.answer_tokens import answer_starts, rows_without_answer
from geoalign.hidden.extract import extract_states, prompt_token_ids
from geoalign.hidden.layers import wanted_layers
from geoalign.hidden.tap import backbone_of
from geoalign.pretrained.fastest_dtype import fastest_dtype, print_fastest_dtype
from geoalign.pretrained.fingerprint import model_fingerprint
from geoalign.pretrained.from_pretrained import FINAL_MODEL, from_pretrained, is_hub_id, loading
from geoalign.settings.hidden import is_last_layer


@dataclass
class _Tokens:
    """The token ids of a dump's rollouts.

    Attributes:
        prompts, responses: of each rollout, cut to what the model can read.
        lengths: of each response before it was cut.
        cut: how many rollouts were cut.
    """

    prompts: list[np.ndarray] = field(default_factory=list)
    responses: list[np.ndarray] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    cut: int = 0


def check_model_path(text: str) -> str:
    """The folder or id on the hub that `--model` names; of a run folder its final model."""
    folder = Path(text).expanduser()
    if not folder.is_dir() and is_hub_id(text):
        return text
    if not folder.is_dir():
        raise ConfigError(f"--model: expected a folder of a model, a run folder or an id on the hub, got {text!r}")
    final = folder / FINAL_MODEL
    folder = final if not (folder / "config.json").is_file() and final.is_dir() else folder
    if (folder / "adapter_config.json").is_file():
        raise ConfigError(f"--model {folder}: expected a whole model, got adapters: merge them first")
    if not (folder / "config.json").is_file():
        raise ConfigError(f"--model {folder}: expected a model (config.json), got a folder without one")
    return str(folder)


class AuditModel:
    """A model that states are computed with, and its tokenizer; code that comes with it runs only if it is allowed."""

    def __init__(self, text: str, config: AuditConfig, console: Console) -> None:
        """Loads both; ConfigError where `text` names no such model, or the device is not there."""
        self.path = check_model_path(text)
        self.config = config
        self.console = console
        device = config.device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.dtype = fastest_dtype(device) if config.dtype == "auto" else config.dtype
        options: dict[str, Any] = {
            "revision": config.revision,
            "trust_remote_code": config.trust_remote_code,
            "setting": "trust_remote_code",
        }
        with console.status("Loading the model"):
            with loading("--model: expected a causal language model with a tokenizer", text):
                self.tokenizer = from_pretrained(AutoTokenizer, self.path, **options)
                model = from_pretrained(AutoModelForCausalLM, self.path, dtype=getattr(torch, self.dtype), **options)
            try:
                self.model = model.to(torch.device(device)).eval()
            except (RuntimeError, AssertionError) as error:
                raise ConfigError(f"device: expected one that is there, got {device!r}: {error}") from error
        self.device: torch.device = next(model.parameters()).device
        if config.dtype == "auto":
            print_fastest_dtype(console, self.device.type)
        wanted_layers(backbone_of(model), config.hidden_layer)
        self._longest = config.max_tokens or getattr(model.config.get_text_config(), "max_position_embeddings", None)
        # What tells its weights from others'.
        if Path(self.path).is_dir():
            self._weights = model_fingerprint(Path(self.path))
        else:
            self._weights = f"{self.path}@{getattr(model.config, '_commit_hash', None)}"

    def states(self, dump: Dump, cache: Path) -> tuple[Tensor, dict[str, Any]]:
        """[B, d] the hidden state of every rollout of a dump, in its order, and how it was read, for `summary.json`;
        fills in the lengths in tokens that the dump lacks.

        States lie in `cache` as `<dump>-<key>.npy`, float32, and are taken from there the next time; the key is a hash
        of the model's files, of every token and of the settings.
        """
        how = self._reading(dump)
        tokens = self._tokens(dump, how)
        rows = len(tokens.prompts)
        answers = None
        if self.config.hidden_position == "answer_start":
            answers = answer_starts(self.tokenizer, tokens.responses)
        path = cache / f"{stem(dump.path)}-{self._key(tokens, answers)[:16]}.npy"
        with passing_progress(self.console, "Hidden states", rows) as update:
            if not path.is_file():
                cache.mkdir(parents=True, exist_ok=True)
                self._compute(tokens, answers, path, lambda done: update(completed=done))
            update(completed=rows)
        states = torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))
        if states.dim() != 2 or len(states) != rows:
            got = tuple(states.shape)
            raise InputError(f"{path}: expected the states of {rows} rollouts, got shape {got}; remove it")
        given = dump.frame["tokens"]
        dump.frame["tokens"] = given.where(given.notna(), np.array(tokens.lengths, dtype=object))
        facts = {
            "file": str(path),
            "shape": list(states.shape),
            "cut_rows": tokens.cut,
            "without_answer": None if answers is None else rows_without_answer(answers),
            "prompts": how,
        }
        return states, facts

    def _compute(
        self, tokens: _Tokens, answers: Sequence[int] | None, path: Path, progress: Callable[[int], None]
    ) -> None:
        """Computes the states, longest rollouts first, and writes them to `path`, which is whole or absent."""
        prompts = tokens.prompts
        responses = tokens.responses
        rows = len(prompts)
        size = self.config.batch_size
        partial = path.with_name(path.name + ".partial")
        table = None
        lengths = [len(prompt) + len(response) for prompt, response in zip(prompts, responses, strict=True)]
        order = sorted(range(rows), key=lambda row: (-lengths[row], row))
        for first in range(0, rows, size):
            batch = order[first : first + size]
            states = extract_states(
                self.model,
                [prompts[row].tolist() for row in batch],
                [responses[row].tolist() for row in batch],
                position=self.config.hidden_position,
                answer_starts=None if answers is None else [answers[row] for row in batch],
                layer=self.config.hidden_layer,
                batch_size=size,
            ).states.numpy()
            if table is None:
                table = np.lib.format.open_memmap(partial, mode="w+", dtype=np.float32, shape=(rows, states.shape[1]))
            table[batch] = states
            progress(first + len(batch))
        assert table is not None
        table.flush()
        del table
        partial.replace(path)

    def _reading(self, dump: Dump) -> str:
        """How prompts are read: as `chat` or as `text`; conversations are chat either way."""
        template = self.tokenizer.chat_template is not None
        if self.config.prompts == "chat" and not template:
            raise ConfigError(f"prompts: expected text for {self.path}, whose tokenizer has no chat template, got chat")
        if self.config.prompts != "auto":
            return self.config.prompts
        return "chat" if template and not dump.layout.format.rendered else "text"

    def _tokens(self, dump: Dump, how: str) -> _Tokens:
        """The token ids of a dump, cut to the longest length that the model reads: of long ones the last are kept."""
        found = _Tokens()
        seen: dict[tuple[str, str], np.ndarray] = {}
        row: Any
        for row in dump.frame[["prompt", "messages", "response", "truncated", "line"]].itertuples(index=False):
            # A conversation may differ where its text does not: in its roles, or in a system message.
            key = (row.prompt, json.dumps(row.messages))
            if key not in seen:
                seen[key] = self._prompt_ids(row.prompt, row.messages, how, dump.layout)
            prompt = seen[key]
            response = self._response_ids(row.response, truncated=row.truncated)
            if not len(response) or len(prompt) + len(response) < 2:
                raise InputError(f"{row_name(dump.path, row.line)}: response: expected at least one token, got none")
            found.lengths.append(len(response))
            if self._longest is not None and len(prompt) + len(response) > self._longest:
                found.cut += 1
                response = response[-self._longest :]
                prompt = prompt[len(prompt) + len(response) - self._longest :]
            found.prompts.append(prompt)
            found.responses.append(response)
        return found

    def _response_ids(self, text: str, *, truncated: bool | None) -> np.ndarray:
        """The token ids of a response. A finished one ends with the end token, which decoding left out."""
        ids = self.tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        end = self.tokenizer.eos_token_id
        if end is not None and not (truncated and ids):
            ids = [*ids, end]
        return np.asarray(ids, dtype=np.int32)

    def _prompt_ids(self, text: str, messages: Messages | None, how: str, layout: DumpLayout) -> np.ndarray:
        """The token ids of a prompt, read as `how` says, "chat" or "text"."""
        if how == "chat" and messages is None:
            messages = ({"role": "user", "content": text},)
        if messages is None or (how == "text" and not layout.format.rendered):
            plain = text if messages is None else "\n\n".join(message["content"] for message in messages)
            ids = prompt_token_ids(self.tokenizer, plain)
        elif self.tokenizer.chat_template is None:
            raise ConfigError(
                f"prompts: expected a tokenizer with a chat template for the chat messages of {layout.format.title}, "
                f"got none in {self.path}"
            )
        else:
            (ids,) = token_ids(
                [rendered(list(messages), self.tokenizer, self.config.chat_template_kwargs)], self.tokenizer
            )
        return np.asarray(ids, dtype=np.int32)

    def _key(self, tokens: _Tokens, answers: Sequence[int] | None) -> str:
        """A hash of all that the states depend on: the model, the settings and every token."""
        config = self.config
        how: list[Any] = [
            self._weights,
            self.dtype,
            self.device.type,
            config.hidden_position,
            config.batch_size,
            self._longest,
        ]
        if not is_last_layer(config.hidden_layer):
            how.append(config.hidden_layer)
        if answers is not None:
            how.append(answers)
        digest = hashlib.sha256(json.dumps(how).encode())
        for prompt, response in zip(tokens.prompts, tokens.responses, strict=True):
            digest.update(np.asarray([len(prompt), len(response)], dtype=np.int64).tobytes())
            digest.update(prompt.tobytes())
            digest.update(response.tobytes())
        return digest.hexdigest()
