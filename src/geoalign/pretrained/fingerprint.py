"""What tells two models apart whose names are equal: a fingerprint of their files."""

from __future__ import annotations

import hashlib
from pathlib import Path

# What a model's answers depend on, by the ends of its files' names.
_ENDINGS = (".safetensors", ".bin", ".json", ".model", ".jinja", ".txt", ".tiktoken", ".py")

# Of a large file so many blocks are read: training changes every part of the weights.
_BLOCKS, _BLOCK = 256, 4096


def model_fingerprint(folder: Path) -> str:
    """A hash of a model's files: whole ones up to 1 MiB, of larger ones the size and blocks spread over them."""
    digest = hashlib.sha256()
    files = [path for path in folder.iterdir() if path.name.endswith(_ENDINGS) and path.is_file()]
    for path in sorted(files):
        size = path.stat().st_size
        digest.update(f"{path.name}\0{size}\0".encode())
        with path.open("rb") as file:
            if size <= _BLOCKS * _BLOCK:
                digest.update(file.read())
                continue
            for number in range(_BLOCKS):
                file.seek(number * (size - _BLOCK) // (_BLOCKS - 1))
                digest.update(file.read(_BLOCK))
    return digest.hexdigest()
