"""The one way to load what transformers loads: weights and settings, and Python code only where it was allowed.

A model is named by its folder or by its id on the hub.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from geoalign.errors import ConfigError

# Where the folder of a training run has its final model.
FINAL_MODEL = Path("checkpoints", "final")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)


class OwnCodeError(ConfigError):
    """A model comes with Python code of its own, which nobody allowed to run."""


def from_pretrained(kind: Any, path: str | Path, *, trust_remote_code: bool, setting: str, **options: Any) -> Any:
    """`kind.from_pretrained(path)`, which never asks on the standard input whether code may run.

    `setting` is what allows the code that comes with the model (`trust_remote_code`), for the error; a model that
    transformers knows itself is loaded by transformers' own class, whatever code lies beside it.
    """
    check_model_name(path)
    try:
        return kind.from_pretrained(path, trust_remote_code=trust_remote_code, **options)
    except (OSError, ValueError, ImportError) as error:
        if not trust_remote_code and "trust_remote_code" in str(error):
            raise own_code(path, setting) from error
        raise


@contextmanager
def loading(expected: str, path: str | Path) -> Iterator[None]:
    """ConfigError for what is raised while a model is loaded: what its setting `expected`, and that it got `path`."""
    try:
        with quiet_hub():
            yield
    except OwnCodeError:
        raise
    except (OSError, ValueError, ImportError) as error:
        why = unreachable(error, str(path), kind="model") or str(error)
        raise ConfigError(f"{expected}, got {str(path)!r}: {why}") from error


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Turns off what the hub's client says of every try, for the block: of its failure one error tells."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def unreachable(error: BaseException, name: str, *, kind: Literal["model", "dataset"]) -> str | None:
    """What to say where the hub could not be asked and its cache has no copy; None for an error of another kind."""
    from huggingface_hub import constants
    from huggingface_hub.errors import LocalEntryNotFoundError

    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ConnectionError | LocalEntryNotFoundError):
        cause = cause.__cause__ or cause.__context__
    if cause is None:
        return None
    what = f"the Hugging Face hub ({constants.ENDPOINT}) cannot be reached"
    check = "Check the network, HTTPS_PROXY and HF_ENDPOINT"
    if constants.HF_HUB_OFFLINE:
        what = "HF_HUB_OFFLINE is set, so the Hugging Face hub is not asked"
        check = "Unset it where there is a network"
    fetch = f"hf download {name}" + (" --repo-type dataset" if kind == "dataset" else "")
    own = "a folder" if kind == "model" else "a file"
    return (
        f"{what}, and there is no copy in its cache ({constants.HF_HUB_CACHE}). {check}; or run `{fetch}` on a machine "
        f"that has one, and copy its cache here (HF_HOME names the place) or name {own} instead"
    )


def own_code(path: str | Path, setting: str) -> OwnCodeError:
    """The error for a model whose code nobody allowed to run."""
    return OwnCodeError(
        f"{setting}: expected true, because {str(path)!r} comes with Python code of its own, got false: read that "
        f"code, then allow it (where the command has it, by --trust-remote-code)"
    )


def is_hub_id(text: str) -> bool:
    """Whether a text has the form of an id on the Hugging Face hub: owner/name."""
    return _HUB_ID.fullmatch(text) is not None


def check_model_name(path: str | Path) -> None:
    """Raises ConfigError for one word that is no folder: a mistyped one, which is not looked for on the network."""
    is_one_word = isinstance(path, str) and "/" not in path and os.sep not in path
    if is_one_word and not Path(path).is_dir():
        raise ConfigError(f"expected a folder or an id on the hub (owner/name), got {path!r}: no such folder")
