"""The state of a curator in a file: nested dicts of tensors and plain values, in safetensors, never pickled."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from geoalign.errors import InputError

_TREE = "geoalign_state"
# Stands for a tensor in the JSON tree; no key of a state may be called so.
_TENSOR = "__tensor__"


def save_state(path: str | os.PathLike[str], state: Mapping[str, Any]) -> None:
    """Writes a state to ONE safetensors file: its tensors as such, everything else as JSON in the file's metadata.

    The file appears whole or not at all: it is written beside its place, flushed to disk and renamed.

    Args:
        path: file to write; its folder must exist.
        state: dict with str keys of tensors, dicts, lists, str, int, float, bool and None, nested at will.

    Raises:
        InputError: a key is not a str, or a value is of another type; the message names where it stands.
    """
    tensors: dict[str, Tensor] = {}
    tree = _to_tree(dict(state), "state", tensors)
    metadata = {_TREE: json.dumps(tree)}
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        save_file(tensors, partial, metadata=metadata)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    # The rename itself must reach the disk too.
    descriptor = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load_state(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads what `save_state` wrote; tensors come back on the CPU, tuples as lists.

    Raises:
        InputError: the file is no whole safetensors file, or was not written by `save_state`.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # Copies, not views of the mapped file: where a tensor begins decides the last bit of sums over it.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (not a mapping)
    except (SafetensorError, OSError) as error:
        raise InputError(f"state: expected a whole safetensors file, got {error} in {path}") from error
    if _TREE not in metadata:
        raise InputError(f"state: expected the state of a curator, got a safetensors file without one: {path}")
    state: dict[str, Any] = json.loads(
        metadata[_TREE], object_hook=lambda node: tensors[node[_TENSOR]] if set(node) == {_TENSOR} else node
    )
    return state


def _to_tree(value: Any, where: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        name = f"{len(tensors):06d}"
        # A copy of its own: safetensors refuses tensors that share memory, and views that are not contiguous.
        tensors[name] = value.detach().cpu().clone().contiguous()
        return {_TENSOR: name}
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key == _TENSOR:
                raise InputError(f"{where}: expected str keys other than {_TENSOR!r}, got {key!r}")
        return {key: _to_tree(item, f"{where}[{key!r}]", tensors) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_tree(item, f"{where}[{index}]", tensors) for index, item in enumerate(value)]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise InputError(f"{where}: expected a tensor, dict, list, str, number, bool or None, got {type(value).__name__}")
