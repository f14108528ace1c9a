"""What a judge answered, read strictly: anything else than the verdict asked for is malformed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

from geoalign.errors import InputError

# No verdict is nearly as long; longer answers are malformed unread.
MAX_CHARACTERS = 10_000

Position = Literal["first", "second", "tie"]

_WINNERS: dict[str, Position] = {"model_a": "first", "model_b": "second", "tie": "tie"}
_KEYS = {"overall_winner", "model_a_score", "model_b_score"}


class MalformedVerdictError(InputError):
    """An answer that is no verdict; the message is one of few, without anything of the answer, so it can be counted."""


@dataclass(frozen=True)
class Verdict:
    """A judge's word on two responses, by the position in which each was shown; scores lie in [0, 1]."""

    winner: Position
    first_score: float
    second_score: float


def parse_verdict(text: str) -> Verdict:
    """Reads `{"overall_winner": "model_a" | "model_b" | "tie", "model_a_score": x, "model_b_score": y}`.

    Tolerated: spaces, tabs and line ends around the object, and one code fence around it whose first line is three
    backticks, alone or with `json`, and whose end is three backticks. Nothing else: other text before or after (a
    chain of thought too), a second object, a missing, further or doubled key, a score that is no number from 0 to 1
    (NaN, text, true), or a named winner whose score is not strictly the higher one. A tie may have any two scores.

    Raises:
        MalformedVerdictError: any of that, or more than `MAX_CHARACTERS` characters.
    """
    if len(text) > MAX_CHARACTERS:
        raise MalformedVerdictError("too long")
    text = text.strip(" \t\r\n")
    if not text:
        raise MalformedVerdictError("no text")
    value = _only_object(_unfenced(text))
    if set(value) != _KEYS:
        raise MalformedVerdictError("missing or further keys")
    winner = value["overall_winner"]
    if not isinstance(winner, str) or winner not in _WINNERS:
        raise MalformedVerdictError("unknown winner")
    verdict = Verdict(_WINNERS[winner], _score(value["model_a_score"]), _score(value["model_b_score"]))
    lead = verdict.first_score - verdict.second_score
    if (verdict.winner == "first" and lead <= 0) or (verdict.winner == "second" and lead >= 0):
        raise MalformedVerdictError("winner without the higher score")
    return verdict


def _unfenced(text: str) -> str:
    if not (text.startswith("```") and text.endswith("```") and len(text) > 6):
        return text
    first, _, rest = text[3:-3].partition("\n")
    return rest if first.strip(" \t\r") in ("", "json") else text


def _only_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except MalformedVerdictError:
        raise
    except (ValueError, RecursionError) as error:
        raise MalformedVerdictError("not one JSON object alone") from error
    if not isinstance(value, dict):
        raise MalformedVerdictError("not one JSON object alone")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise MalformedVerdictError("doubled keys")
    return dict(pairs)


def _no_constant(name: str) -> float:
    raise MalformedVerdictError("score that is no number from 0 to 1")


def _score(value: Any) -> float:
    # NaN compares false. A bool is an int to Python.
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise MalformedVerdictError("score that is no number from 0 to 1")
    return float(value)
