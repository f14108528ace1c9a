"""A model's folder in numbered parts, small enough to be carried one by one, and put together again with checks.

python -m benchmarks.model_parts runs/models/smollm2-135m runs/model_parts
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError
from geoalign.lab.failures import report
from geoalign.lab.store.files import beside, replace_folder
from geoalign.lab.store.json_files import write_json
from geoalign.lab.terminal import Console, say

# In a folder of parts: names, sizes and SHA-256. A copy lies in the folder that they are joined to.
PARTS = "parts.json"
MEGABYTES = 55
_CHUNK = 2**20


def cut(folder: Path, into: Path, *, megabytes: float = MEGABYTES) -> list[Path]:
    """Writes the files of a model's folder, one after another, as parts of at most so many megabytes (10^6 bytes).

    The folder of parts appears whole or not at all; older parts at its place are replaced.

    Raises:
        ConfigError: `folder` holds no model, or folders of its own; or `into` holds something else than parts.
    """
    check_model(folder)
    files = sorted(path for path in folder.iterdir() if path.name != PARTS)
    if inner := [path.name for path in files if not path.is_file()]:
        raise ConfigError(f"{folder}: expected a folder of files alone, got the folder {inner[0]} in it")
    if into.exists() and any(into.iterdir()) and not is_cut(into):
        raise ConfigError(f"{into}: expected a new folder or one of parts, got one with other files")
    size = int(megabytes * 1e6)
    if size < 1:
        raise ConfigError(f"--megabytes: expected a positive number, got {megabytes:g}")
    half = beside(into)
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    try:
        parts = _write_parts(files, half, size)
        listed = [{"name": path.name, "bytes": path.stat().st_size} for path in files]
        write_json(half / PARTS, {"schema_version": 1, "files": listed, "parts": parts})
        replace_folder(half, into)
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return [into / part["name"] for part in parts]


def join(parts: Path, folder: Path) -> Path:
    """Puts the parts in `parts` together to the model's folder, which appears whole or not at all, and returns it.

    A folder that was joined of the same parts before is left as it is.

    Raises:
        ConfigError: parts are missing, a size or checksum differs, what comes out is no model, or `folder` holds
            something else.
    """
    content = _read(parts)
    if folder.exists():
        if (folder / PARTS).is_file() and _read(folder) == content:
            return folder
        raise ConfigError(f"{folder}: expected no folder or one joined of the same parts, got another: remove it")
    if missing := [part["name"] for part in content["parts"] if not (parts / part["name"]).is_file()]:
        count = len(content["parts"])
        raise ConfigError(f"{parts}: expected {count} parts, got {count - len(missing)}: no {', '.join(missing)}")
    half = beside(folder)
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    try:
        _write_files(content, parts, half)
        check_model(half)
        write_json(half / PARTS, content)
        replace_folder(half, folder)
    finally:
        shutil.rmtree(half, ignore_errors=True)
    return folder


def is_cut(folder: Path) -> bool:
    """Whether a folder holds parts, rather than the files that they were cut from or joined to."""
    return (folder / PARTS).is_file() and not (folder / "config.json").exists()


def check_model(folder: Path) -> None:
    """Raises ConfigError unless a folder has what every model's has: its settings, weights and tokenizer."""
    for pattern in ("config.json", "*.safetensors", "tokenizer*"):
        if not any(folder.glob(pattern)):
            raise ConfigError(f"{folder}: expected a folder with a model or its parts, got no {pattern} there")


def _write_parts(files: Sequence[Path], into: Path, size: int) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    stream = _chunks(files)
    left = next(stream, b"")
    while left:
        name, written, digest = f"part-{len(parts):02}", 0, hashlib.sha256()
        with (into / name).open("wb") as file:
            while left and written < size:
                piece, left = left[: size - written], left[size - written :]
                file.write(piece)
                digest.update(piece)
                written += len(piece)
                left = left or next(stream, b"")
        parts.append({"name": name, "bytes": written, "sha256": digest.hexdigest()})
    return parts


def _chunks(files: Sequence[Path]) -> Iterator[bytes]:
    for path in files:
        with path.open("rb") as file:
            while piece := file.read(_CHUNK):
                yield piece


def _write_files(content: dict[str, Any], parts: Path, into: Path) -> None:
    stream = _checked_chunks(content["parts"], parts)
    left = b""
    for entry in content["files"]:
        missing = entry["bytes"]
        with (into / entry["name"]).open("wb") as file:
            while missing:
                left = left or next(stream, b"")
                if not left:
                    raise ConfigError(
                        f"{parts / PARTS}: expected the sizes of parts and files to agree, got fewer bytes"
                    )
                file.write(left[:missing])
                missing, left = missing - len(left[:missing]), left[missing:]
    if left or next(stream, b""):
        raise ConfigError(f"{parts / PARTS}: expected the sizes of parts and files to agree, got more bytes")


def _checked_chunks(listed: Sequence[dict[str, Any]], parts: Path) -> Iterator[bytes]:
    for part in listed:
        path, digest = parts / part["name"], hashlib.sha256()
        if path.stat().st_size != part["bytes"]:
            raise ConfigError(f"{path}: expected {part['bytes']} bytes, got {path.stat().st_size}: carry it again")
        for piece in _chunks([path]):
            digest.update(piece)
            yield piece
        if digest.hexdigest() != part["sha256"]:
            raise ConfigError(f"{path}: expected SHA-256 {part['sha256']}, got {digest.hexdigest()}: carry it again")


def _read(folder: Path) -> dict[str, Any]:
    path = folder / PARTS
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        entries = [*content["files"], *content["parts"]]
        plain = all(Path(entry["name"]).name == entry["name"] and entry["bytes"] >= 0 for entry in entries)
        plain = plain and all(isinstance(part["sha256"], str) for part in content["parts"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path}: expected a list of parts, got {type(error).__name__}: {error}") from error
    if not plain:
        raise ConfigError(f"{path}: expected plain names and sizes, got others")
    return content


def main(arguments: Sequence[str] | None = None) -> int:
    """Cuts a model as the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, metavar="MODEL", help="its folder, as recipes/smollm2.py makes it")
    parser.add_argument("parts", type=Path, metavar="PARTS", help="folder for the parts")
    parser.add_argument("--megabytes", type=float, default=MEGABYTES, metavar="N", help=f"of a part ({MEGABYTES})")
    options = parser.parse_args(arguments)
    console = Console()
    try:
        written = cut(options.model, options.parts, megabytes=options.megabytes)
    except (ConfigError, OSError) as error:
        return report(error, console)
    for path in written:
        say(console, f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    say(console, f"{len(written)} parts and {PARTS} in {options.parts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
