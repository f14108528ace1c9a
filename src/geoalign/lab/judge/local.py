"""A judge by simple rules, to try the command and to test it. It measures no quality: use it for no result."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re

from geoalign.lab.judge.asking import Judge
from geoalign.lab.judge.prompt import Comparison

# Part of the identity of a result: another number for other rules.
RULES = "local-rules-1"

_WORD = re.compile(r"[^\W_]+")
# Short words and these say little of what was asked.
_COMMON = frozenset(
    word
    for line in (
        "about also been from have here into just like more only other over same some such than that their them then",
        "there these they this those very were what when where which while will with would your",
    )
    for word in line.split()
)


class LocalJudge(Judge):
    """Answers as an endpoint would, by rules:

    - score = 0.6 x share of the content words of the last user turn that the response has too (four letters or more,
      without the commonest; 1 where there are none) + 0.4 x share of its words that are different ones;
    - a response without a word has 0;
    - four decimals; the higher score wins, equal scores tie.
    """

    name = RULES

    def key(self, comparison: Comparison) -> str:
        """A hash of all that the answer depends on."""
        parts = [RULES, [list(turn.items()) for turn in comparison.prompt], comparison.first, comparison.second]
        return hashlib.sha256(json.dumps(parts).encode("ascii")).hexdigest()

    async def ask(self, comparison: Comparison) -> str:
        """The verdict as JSON."""
        await asyncio.sleep(0)  # so that Ctrl-C is heard
        asked = next((turn["content"] for turn in reversed(comparison.prompt) if turn["role"] == "user"), "")
        first, second = local_score(asked, comparison.first), local_score(asked, comparison.second)
        winner = "model_a" if first > second else "model_b" if second > first else "tie"
        return json.dumps({"overall_winner": winner, "model_a_score": first, "model_b_score": second})


def local_score(asked: str, response: str) -> float:
    """The score of one response to what was asked, by the rules of `LocalJudge`; from 0 to 1."""
    words = _words(response)
    if not words:
        return 0.0
    wanted = {word for word in _words(asked) if len(word) >= 4 and word not in _COMMON}
    different = set(words)
    covered = len(wanted & different) / len(wanted) if wanted else 1.0
    return round(0.6 * covered + 0.4 * len(different) / len(words), 4)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
