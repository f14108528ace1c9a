"""A reward that a tiny model can raise: the share of letters from a to m; a tenth of the responses is flipped."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


def compute_score(data_source: str, solution_str: str, ground_truth: str, extra_info: Any = None, **rest: Any) -> dict:
    text = [letter for letter in solution_str if letter.isalpha()]
    true = sum(letter.lower() < "n" for letter in text) / max(len(text), 1)
    flipped = hashlib.sha256(solution_str.encode()).digest()[0] < 26
    score = 1.0 - true if flipped else true
    return {"score": score, "true": true, "answer": solution_str[:1], "verdict": float(score > 0.5)}


def second(prompts: list[Any], completions: list[Any], answer: list[Any], **columns: Any) -> list[float]:
    """A second verifier, which notes what it is asked in this folder; from its second call on it fails."""
    noted = Path("questions.json")
    if noted.exists():
        raise ConnectionError("the second verifier is away")
    asked = {"prompts": prompts, "completions": completions, "answer": answer, **columns}
    noted.write_text(json.dumps(asked))
    return [0.25] * len(completions)
