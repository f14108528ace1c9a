"""Two response files over one prompt list, matched response by response."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from geoalign.errors import InputError
from geoalign.lab.evaluation.responses import Key, ResponseFile, SavedResponse
from geoalign.lab.judge.prompt import Comparison

# As many are named in a message.
_NAMED = 10


@dataclass(frozen=True)
class ResponsePair:
    """The responses of A and of B under one key, to one prompt."""

    a: SavedResponse
    b: SavedResponse

    @property
    def key(self) -> Key:
        """Set, id, sample."""
        return self.a.key

    def comparisons(self) -> tuple[Comparison, Comparison]:
        """A shown first, then B shown first."""
        a, b = self.a.response, self.b.response
        return Comparison(self.a.prompt, a, b), Comparison(self.a.prompt, b, a)


@dataclass(frozen=True)
class MatchedResponses:
    """The pairs in the order of A, and the keys that only one file has."""

    pairs: tuple[ResponsePair, ...]
    only_a: tuple[Key, ...]
    only_b: tuple[Key, ...]


def match_responses(a: ResponseFile, b: ResponseFile, *, allow_missing: bool = False) -> MatchedResponses:
    """Matches two files by (set, id, sample).

    Args:
        allow_missing: rows that only one file has are left out; otherwise they are an error.

    Raises:
        InputError: one (set, id) with two prompts, rows in one file only, or no row in both.
    """
    _check_prompts(a, b)
    in_a, in_b = ({row.key: row for row in file.rows} for file in (a, b))
    only_a = tuple(key for key in in_a if key not in in_b)
    only_b = tuple(key for key in in_b if key not in in_a)
    if (only_a or only_b) and not allow_missing:
        lines = [_missing(a, b, only_a), _missing(b, a, only_b)]
        raise InputError("\n".join(line for line in lines if line) + "\nWith --allow-missing they are left out.")
    pairs = tuple(ResponsePair(row, in_b[key]) for key, row in in_a.items() if key in in_b)
    if not pairs:
        raise InputError(f"{a.path} and {b.path}: expected responses under the same (set, id, sample), got none")
    return MatchedResponses(pairs, only_a, only_b)


def _missing(there: ResponseFile, absent: ResponseFile, keys: Sequence[Key]) -> str:
    if not keys:
        return ""
    named = ", ".join(map(str, keys[:_NAMED])) + (", ..." if len(keys) > _NAMED else "")
    return f"{absent.path}: expected a response for each of {there.path}, got none for {len(keys)}: {named}"


def _check_prompts(a: ResponseFile, b: ResponseFile) -> None:
    prompts: dict[tuple[str, str], tuple[tuple[dict[str, str], ...], str]] = {}
    for file in (a, b):
        for row, line in zip(file.rows, file.lines, strict=True):
            prompt, where = prompts.setdefault((row.set, row.id), (row.prompt, f"{file.path}, {line}"))
            if prompt != row.prompt:
                raise InputError(
                    f"{file.path}, {line}: expected the prompt of set {row.set!r}, id {row.id!r} to be that of "
                    f"{where}, got another"
                )
