"""The hidden states of an audit's rollouts: from the user's files, or computed with a model."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas
import torch
from jaxtyping import Float
from torch import Tensor

from geoalign.audit.command import AuditRequest
from geoalign.audit.inputs import Input
from geoalign.audit.settings import AuditConfig
from geoalign.audit.state_files import read_hidden
from geoalign.console.terminal import Console
from geoalign.dumps.reading import Dump
from geoalign.errors import InputError

if TYPE_CHECKING:
    from geoalign.audit.state_model import AuditModel


@dataclass(frozen=True, eq=False)
class FileStates:
    """The states of one file's rollouts: a table, and which of its rows belongs to which rollout.

    A user's file has rows for rollouts that were left out, too, and a rollout's row is its `position`. A model computes
    states of the rollouts that were read alone, one after the other.
    """

    table: Float[Tensor, "n d"]
    positions: pandas.Series

    def of_rows(self, rows: pandas.DataFrame) -> Float[Tensor, "b d"]:
        """The states of some rows of the file: a view where they lie side by side, so that nothing is copied."""
        places = self.positions.loc[rows["position"]].to_numpy()
        first = int(places[0])
        if np.array_equal(places, np.arange(first, first + len(places))):
            return self.table[first : first + len(places)]
        return self.table[torch.tensor(places)]


class HiddenStates:
    """Reads or computes the states of one file after the other, as far as the curator wants them."""

    def __init__(
        self, config: AuditConfig, request: AuditRequest, needs: Collection[str], cache: Path, console: Console
    ) -> None:
        """Takes the settings.

        Args:
            needs: the fields of rollouts that the curator requires.
            cache: where computed states are kept, unless `request.cache` says so.
        """
        self._config = config
        self._request = request
        self._needs = needs
        self._cache = request.cache or cache
        self._console = console
        self._model: AuditModel | None = None
        self._files: list[dict[str, Any]] = []

    def of(self, source: Input, dump: Dump) -> FileStates | None:
        """The states of a file; None where the curator wants none. Lengths by a model's tokenizer are filled in."""
        if source.hidden is not None:
            return self._from_file(source.hidden, dump) if "hidden" in self._needs else None
        if self._request.model is None or not {"hidden", "lengths"} & set(self._needs):
            return None
        if self._model is None:
            from geoalign.audit.state_model import AuditModel

            self._model = AuditModel(self._request.model, self._config, self._console)
        table, facts = self._model.states(dump, self._cache)
        self._files.append(facts)
        if "hidden" not in self._needs:
            return None
        return FileStates(table, pandas.Series(range(len(table)), index=dump.frame["position"]))

    def _from_file(self, path: Path, dump: Dump) -> FileStates:
        """The states in a user's file; InputError where it does not fit the dump."""
        if dump.positions is None:
            raise InputError(
                f"{path}: hidden states: expected a dump whose rollouts can be counted, "
                f"got {dump.path}, where row {dump.skipped[0].line} and perhaps others hide how many there are"
            )
        table = read_hidden(path, rows=dump.positions, dump=dump.path)
        dtype = str(table.dtype).removeprefix("torch.")
        self._files.append({"file": str(path), "shape": list(table.shape), "dtype": dtype})
        positions = dump.frame["position"]
        return FileStates(table, pandas.Series(positions.to_numpy(), index=positions))

    def summary(self, note: str) -> dict[str, Any]:
        """`hidden` of `summary.json`: where states came from, and how a model computed them.

        Args:
            note: what the curator did without states; empty where it had them.
        """
        source = "none"
        if self._files:
            source = "file" if self._model is None else "model"
        found: dict[str, Any] = {"from": source, "files": self._files}
        if note:
            found["note"] = note
        if self._model is not None:
            config = self._config
            found["model"] = self._request.model
            found["dtype"] = self._model.dtype
            found["device"] = str(self._model.device)
            found["hidden_position"] = config.hidden_position
            found["hidden_layer"] = config.hidden_layer
            found["batch_size"] = config.batch_size
            found["max_tokens"] = config.max_tokens
            found["chat_template_kwargs"] = config.chat_template_kwargs
        return found
