"""Settings hold no secrets: they are written to run folders and shown in pages that people share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from geoalign.errors import ConfigError
from geoalign.settings.locations import Locations

# Where the packages that the settings are passed on to look for a secret themselves.
_VARIABLES = {"wandb": "WANDB_API_KEY", "openai": "OPENAI_API_KEY", "token": "HF_TOKEN"}


def refuse_secrets(value: Any, locations: Locations | None = None, path: str = "") -> None:
    """Raises ConfigError for a secret in plain settings below `path`: by its name (hub_token, api_key, password), or an
    address with user, password or key. The message names the setting and what to use instead, never the value."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            refuse_secrets(inner, locations, f"{path}.{name}" if path else str(name))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            refuse_secrets(inner, locations, path)
    elif value is not None and not isinstance(value, bool) and holds_secret(path, value):
        raise ConfigError(f"{_prefix(locations, path)}{secret_setting(path)}")
    elif isinstance(value, str) and has_credentials(value):
        raise ConfigError(
            f"{_prefix(locations, path)}{path}: expected an address without user, password and key, "
            f"got {masked(value)}: settings are written to files that people share"
        )


def secret_setting(key: str) -> str:
    """What is said of a setting that would hold a secret."""
    name = key.lower()
    variable = next((variable for part, variable in _VARIABLES.items() if part in name), None)
    instead = f"the environment variable {variable}" if variable else "an environment variable"
    return (
        f"{key}: expected to be left out, got a secret: settings are written to files that people share; "
        f"use {instead} instead"
    )


def _prefix(locations: Locations | None, key: str) -> str:
    return "" if locations is None else masked(locations.prefix(key))


MASK = "***"

# Tokens of a language model, and numbers of them, are no secrets: what such names say before "token" ...
_OF_A_MODEL = frozenset({
    "eos", "bos", "pad", "padding", "unk", "sep", "mask", "masked", "cls", "image", "video", "audio", "start", "stop",
    "end", "eot", "eoi", "boi", "special", "think", "vocab", "vocabulary", "text", "control", "role", "system",
    "assistant", "turn", "tool", "tools", "prompt", "response", "completion", "answer", "reasoning", "thinking",
    "input", "output", "generated", "sampled", "policy", "model", "own", "new", "next", "last", "first", "previous",
    "current", "each", "every", "any", "no", "one", "single", "a", "the", "of", "by", "per", "second", "with",
    "without",
})  # fmt: skip
# ... and how names of numbers begin.
_OF_NUMBERS = frozenset({
    "rows", "share", "rate", "number", "num", "n", "count", "counts", "max", "min", "mean", "average", "avg", "total",
    "sum", "time", "seconds", "cost", "loss", "entropy", "logprob", "logprobs",
})  # fmt: skip
# What makes even several tokens, or a number in the place of one, a secret.
_OF_AN_ACCOUNT = frozenset({
    "hub", "hf", "face", "huggingface", "access", "auth", "oauth", "api", "bearer", "refresh", "session", "security",
    "secret", "private", "personal", "github", "gitlab", "wandb",
})  # fmt: skip
_NAME = re.compile(
    r"(?:^|_)(?:secrets?|passwords?|passwd|passphrase|api_?keys?|access_?keys?|private_?keys?|secret_?keys?|"
    r"credentials?|authorization)$"
)
# An address with a user, or a user and a password, before its host; a path made of one has a slash less.
_ADDRESS = re.compile(
    r"(?P<scheme>\bhttps?:/|\b[A-Za-z][A-Za-z0-9+.-]{0,20}://)(?P<user>[^\s/?#'\"@]*(?:@[^\s/?#'\"@]*)*)@"
)
_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s'\"]+")
# The forms of keys of well-known services.
_TOKEN = re.compile(r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|AKIA[A-Z0-9]{16})\b")
_ASSIGNED = re.compile(r"(?<![\w.-])(?P<name>[\w.-]{1,200})=(?:'[^']*'|\"[^\"]*\"|[^\s,;?&)}\]]+)")


def is_secret_name(name: str) -> bool:
    """Whether an option of this name holds a secret: hub_token, api_key, password; not eos_token, max_tokens, or
    rows_without_policy_token. A token of a name that says nothing is taken for one."""
    words = _words(name)
    if _NAME.search("_".join(words)):
        return True
    if words == ["tokens"] or words[-1] not in ("token", "tokens") or words[0] in _OF_NUMBERS:
        return False
    return _is_of_an_account(words) or (words[-1] == "token" and words[-2] not in _OF_A_MODEL)


def holds_secret(name: str, value: Any) -> bool:
    """Whether a setting of this name holds a secret in this value: no number is a token, unless the name says so."""
    number = isinstance(value, (int, float))
    words = _words(name)
    token = words[-1] == "token" and not _is_of_an_account(words)
    return is_secret_name(name) and not (number and token)


def _words(name: str) -> list[str]:
    """The words of the last part of a dotted name: ["hub", "token"] of `grpo.hubToken`."""
    last = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.rpartition(".")[2])
    return last.lower().replace("-", "_").split("_")


def _is_of_an_account(words: list[str]) -> bool:
    return words == ["token"] or (len(words) > 1 and words[-2] in _OF_AN_ACCOUNT)


def has_credentials(text: str) -> bool:
    """Whether a text holds an address with user or password, or with a secret among its parameters."""
    return bool(_ADDRESS.search(text)) or any(_secret_parameter(url) for url in _URL.findall(text))


def masked(text: str) -> str:
    """The text with *** instead of every secret that its name or its form gives away."""
    text = _ADDRESS.sub(rf"\g<scheme>{MASK}@", text)
    text = _TOKEN.sub(MASK, text)
    return _ASSIGNED.sub(_without_value, text)


def _without_value(match: re.Match[str]) -> str:
    return f"{match['name']}={MASK}" if is_secret_name(match["name"]) else match[0]


def _secret_parameter(url: str) -> bool:
    try:
        query = urlsplit(url).query
    except ValueError:
        return False
    return any(is_secret_name(name) and value for name, value in parse_qsl(query))
