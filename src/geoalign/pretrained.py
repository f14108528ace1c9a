"""The one way to load what transformers loads: weights and settings, and Python code only where it was allowed.

A model is named by its folder, by its id on the hub, or by the name under which `geoalign model` has brought it here.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from geoalign.errors import ConfigError

# As of data sets, owner and name: a mistyped folder of one word is not looked for on the network.
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)

# What `geoalign model` can bring.
NAMED_MODELS = ("smollm2-135m",)


class OwnCodeError(ConfigError):
    """A model comes with Python code of its own, which nobody allowed to run."""


def from_pretrained(kind: Any, path: str | Path, *, trust_remote_code: bool, setting: str, **options: Any) -> Any:
    """`kind.from_pretrained(path)`, which never asks on the standard input whether code may run.

    A model that transformers knows itself is loaded by transformers' own class, whatever code lies beside it.

    Args:
        kind: a class of transformers, such as `AutoTokenizer`.
        path: folder, id on the hub, or the name of a model that `geoalign model` has brought.
        trust_remote_code: run the Python code that comes with the model.
        setting: what allows that, for the error.

    Raises:
        OwnCodeError: the model cannot be loaded without its code, and that may not run.
        ConfigError: no model goes by this name here (`model_path`).
        OSError, ValueError, ImportError: whatever else transformers raises.
    """
    path = model_path(path)
    try:
        return kind.from_pretrained(path, trust_remote_code=trust_remote_code, **options)
    except (OSError, ValueError, ImportError) as error:
        if not trust_remote_code and "trust_remote_code" in str(error):
            raise own_code(path, setting) from error
        raise


def own_code(path: str | Path, setting: str) -> OwnCodeError:
    """The error for a model whose code nobody allowed to run."""
    return OwnCodeError(
        f"{setting}: expected true, because {str(path)!r} comes with Python code of its own, got false: read that "
        f"code, then allow it (where the command has it, by --trust-remote-code)"
    )


def is_hub_id(text: str) -> bool:
    """Whether a text has the form of an id on the Hugging Face hub: owner/name."""
    return _HUB_ID.fullmatch(text) is not None


def cached_model(name: str) -> Path:
    """The folder in the user's cache to which `geoalign model` brings a named model."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cache).expanduser() / "geoalign" / "models" / name


def model_path(path: str | Path) -> str | Path:
    """Where a model that settings name lies: a named one in the cache; a folder and an id on the hub as they stand.

    A folder comes before a name, so `smollm2-135m` beside the caller is that folder.

    Raises:
        ConfigError: a named model that nobody has brought, or one word that is neither a name nor a folder.
    """
    if not isinstance(path, str) or is_hub_id(path) or "/" in path or os.sep in path or Path(path).is_dir():
        return path
    if path not in NAMED_MODELS:
        names = ", ".join(NAMED_MODELS)
        raise ConfigError(f"expected a folder, an id on the hub (owner/name) or {names}, got {path!r}: no such folder")
    folder = cached_model(path)
    if not (folder / "config.json").is_file():
        raise ConfigError(
            f"{path}: expected the model in {folder}, got none there: bring it with `geoalign model {path}`"
        )
    return str(folder)
