"""What is a secret, by its name or its form; and texts without them. Settings refuse what this finds."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

MASK = "***"

# Tokens of a vocabulary, and counts of them, are no secrets.
_VOCABULARY = re.compile(
    r"(?:^|_)(?:eos|bos|pad|unk|sep|mask|cls|image|video|audio|start|stop|end|eot|eoi|boi|special|think|next|last|first|"
    r"by|per|per_second)_tokens?$"
)
_NAME = re.compile(
    r"(?:^|_)(?:token|secret|password|passwd|api_?key|access_?key|private_?key|secret_?key|credentials?|authorization)$",
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
    """Whether an option of this name holds a secret: hub_token, api_key, password; not eos_token or max_tokens."""
    last = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.rpartition(".")[2]).lower().replace("-", "_")
    return bool(_NAME.search(last)) and not _VOCABULARY.search(last)


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
