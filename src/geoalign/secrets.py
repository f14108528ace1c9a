"""Secrets: what they are called, what they look like, and text without them.

Settings refuse them, for settings are written to run folders and shown on pages that people share; every error on the
terminal is masked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "***"

# Names of secrets, whatever their value is.
_SECRET = re.compile(
    r"(?:^|_)(?:secrets?|passwords?|passwd|passphrase|credentials?|authorization|(?:api|access|private|secret)_?keys?)$"
)
# The words before `_token` that make it a token of a language model, whose text is no secret: `eos_token`.
_OF_A_MODEL = frozenset({
    "eos", "bos", "pad", "padding", "unk", "sep", "cls", "mask", "image", "video", "audio", "start", "stop", "end",
    "eot", "special", "think", "assistant", "response", "policy",
})  # fmt: skip
# An address with a user, or a user and a password, before its host; a path made of one has a slash less.
_ADDRESS = re.compile(
    r"(?P<scheme>\bhttps?:/|\b[A-Za-z][A-Za-z0-9+.-]{0,20}://)(?P<user>[^\s/?#'\"@]*(?:@[^\s/?#'\"@]*)*)@"
)
_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s'\"]+")
# The forms of keys of well-known services.
_TOKEN = re.compile(r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|AKIA[A-Z0-9]{16})\b")
_ASSIGNED = re.compile(r"(?<![\w.-])(?P<name>[\w.-]{1,200})=(?P<value>'[^']*'|\"[^\"]*\"|[^\s,;?&)}\]]+)")
# Where the packages that the settings are passed on to look for a secret themselves.
_VARIABLES = {"wandb": "WANDB_API_KEY", "openai": "OPENAI_API_KEY", "token": "HF_TOKEN"}


def is_secret(key: str, value: object) -> bool:
    """Whether a setting holds a secret, by its name: `hub_token`, `api_key`, `password`.

    A token is a text, and none of a language model: neither `some_token: 3` nor `eos_token: "</s>"` is a secret.

    Args:
        key: the name, dotted or not; the last part counts, in `snake_case`, `kebab-case` or `camelCase`.
        value: what the setting holds; only a text or number is a secret.
    """
    if not isinstance(value, (str, int, float)) or isinstance(value, bool):
        return False
    name = key.rpartition(".")[2].replace("-", "_")
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    if _SECRET.search(words):
        return True
    before, _, last = words.rpartition("_")
    return last == "token" and isinstance(value, str) and before.rpartition("_")[2] not in _OF_A_MODEL


def masked(text: str) -> str:
    """The text with *** instead of every secret that its name or its form gives away."""
    text = _ADDRESS.sub(rf"\g<scheme>{MASK}@", text)
    text = _TOKEN.sub(MASK, text)
    return _ASSIGNED.sub(_without_value, text)


def _without_value(match: re.Match[str]) -> str:
    return f"{match['name']}={MASK}" if is_secret(match["name"], match["value"]) else match[0]


def find_secret(value: Any, key: str = "") -> tuple[str, str] | None:
    """The first secret in plain settings: a setting by its name, or an address with user, password or key.

    Args:
        value: nested dicts and lists; `key`: the dotted key under which they stand.

    Returns:
        The dotted key, and what is to be said of it, in which the value is not shown; None: there is no secret.
    """
    inside: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        inside = [(f"{key}.{name}" if key else str(name), inner) for name, inner in value.items()]
    elif isinstance(value, (list, tuple)):
        inside = [(key, inner) for inner in value]
    for inner_key, inner in inside:
        found = find_secret(inner, inner_key)
        if found is not None:
            return found
    if is_secret(key, value):
        variable = next((variable for part, variable in _VARIABLES.items() if part in key.lower()), None)
        instead = f"the environment variable {variable}" if variable else "an environment variable"
        left_out = "expected to be left out, got a secret: settings are written to files that people share"
        return key, f"{left_out}; use {instead} instead"
    if isinstance(value, str) and has_credentials(value):
        expected = "expected an address without user, password and key"
        return key, f"{expected}, got {masked(value)}: settings are written to files that people share"
    return None


def has_credentials(text: str) -> bool:
    """Whether a text holds an address with a user or password, or with a secret among its parameters."""
    return any(masked(address) != address for address in _URL.findall(text))
