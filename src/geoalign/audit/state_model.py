"""Hidden states computed with a model, longest rollouts first, and kept on disk, a file for each dump."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
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
from geoalign.pretrained.fingerprint import fingerprint
from geoalign.pretrained.from_pretrained import FINAL_MODEL, from_pretrained, is_hub_id, loading
from geoalign.settings.hidden import is_last_layer

_Ids = list[np.ndarray]


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
        self.path, self.config, self.console = check_model_path(text), config, console
        device = config.device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.dtype = fastest_dtype(device) if config.dtype == "auto" else config.dtype
        options: dict[str, Any] = {"revision": config.revision, "setting": "trust_remote_code"}
        options["trust_remote_code"] = config.trust_remote_code
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
        folder, commit = Path(self.path), getattr(model.config, "_commit_hash", None)
        # What tells its weights from others'.
        self._known = fingerprint(folder) if folder.is_dir() else f"{self.path}@{commit}"

    def states(self, dump: Dump, cache: Path) -> tuple[Tensor, dict[str, Any]]:
        """[B, d] the hidden state of every rollout of a dump, in its order, and how it was read, for `summary.json`;
        fills in the lengths in tokens that the dump lacks.

        States lie in `cache` as `<dump>-<key>.npy`, float32, and are taken from there the next time; the key is a hash
        of the model's files, of every token and of the settings.
        """
        how = self._reading(dump)
        prompts, responses, lengths, cut = self._tokens(dump, how)
        by_answer = self.config.hidden_position == "answer_start"
        answers = answer_starts(self.tokenizer, responses) if by_answer else None
        path = cache / f"{stem(dump.path)}-{self._key(prompts, responses, answers)[:16]}.npy"
        with passing_progress(self.console, "Hidden states", len(prompts)) as update:
            if not path.is_file():
                cache.mkdir(parents=True, exist_ok=True)
                self._compute(prompts, responses, answers, path, lambda done: update(completed=done))
            update(completed=len(prompts))
        states = torch.from_numpy(np.load(path, mmap_mode="c", allow_pickle=False))
        if states.dim() != 2 or len(states) != len(prompts):
            got = tuple(states.shape)
            raise InputError(f"{path}: expected the states of {len(prompts)} rollouts, got shape {got}; remove it")
        tokens = dump.frame["tokens"]
        dump.frame["tokens"] = tokens.where(tokens.notna(), np.array(lengths, dtype=object))
        without = None if answers is None else rows_without_answer(answers)
        facts = {"file": str(path), "shape": list(states.shape), "cut_rows": cut, "without_answer": without}
        return states, {**facts, "prompts": how}

    def _compute(
        self, prompts: _Ids, responses: _Ids, answers: Sequence[int] | None, path: Path, progress: Callable[[int], None]
    ) -> None:
        rows, size, partial, table = len(prompts), self.config.batch_size, path.with_name(path.name + ".partial"), None
        order = sorted(range(rows), key=lambda row: (-(len(prompts[row]) + len(responses[row])), row))
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

    def _tokens(self, dump: Dump, how: str) -> tuple[_Ids, _Ids, list[int], int]:
        """The token ids of prompts and responses, cut to the longest length; the responses' own lengths; rows cut."""
        seen: dict[tuple[Any, ...], np.ndarray] = {}
        end, longest = self.tokenizer.eos_token_id, self._longest
        prompts, responses, lengths, cut = [], [], [], 0
        for text, messages, answer, truncated, line in zip(
            *(dump.frame[name] for name in ("prompt", "messages", "response", "truncated", "line")), strict=True
        ):
            # A conversation may differ where its text does not: in its roles, or in a system message.
            key = (text, None if messages is None else json.dumps(messages))
            if key not in seen:
                seen[key] = self._prompt_ids(text, messages, how, dump.layout)
            prompt = seen[key]
            ids = self.tokenizer(answer, add_special_tokens=False, split_special_tokens=True)["input_ids"]
            # A finished rollout ends with the end token, which decoding left out; one that was cut off does not.
            if end is not None and not (truncated and ids):
                ids = [*ids, end]
            if not ids or len(prompt) + len(ids) < 2:
                raise InputError(f"{row_name(dump.path, line)}: response: expected at least one token, got none")
            response = np.asarray(ids, dtype=np.int32)
            lengths.append(len(response))
            if longest is not None and len(prompt) + len(response) > longest:
                cut += 1
                response = response[-longest:]
                prompt = prompt[len(prompt) + len(response) - longest :]
            prompts.append(prompt)
            responses.append(response)
        return prompts, responses, lengths, cut

    def _prompt_ids(self, text: str, messages: Messages | None, how: str, layout: DumpLayout) -> np.ndarray:
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

    def _key(self, prompts: _Ids, responses: _Ids, answers: Sequence[int] | None) -> str:
        config = self.config
        how = [self._known, self.dtype, self.device.type, config.hidden_position, config.batch_size, self._longest]
        how += [] if is_last_layer(config.hidden_layer) else [config.hidden_layer]
        how += [] if answers is None else [answers]
        digest = hashlib.sha256(json.dumps(how).encode())
        for prompt, response in zip(prompts, responses, strict=True):
            digest.update(np.asarray([len(prompt), len(response)], dtype=np.int64).tobytes())
            digest.update(prompt.tobytes())
            digest.update(response.tobytes())
        return digest.hexdigest()
