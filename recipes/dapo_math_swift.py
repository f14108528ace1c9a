"""The scorer `verified` and the curator for `swift rlhf --external_plugins` (configs/full/swift_dapo_math.sh).

The curator is the paper's; the environment variable CURATOR names another, which has its default settings, and
SECOND_VERIFIER who checks a few responses for `appeals`.
"""

import os
from pathlib import Path
from typing import Any

from dapo_math import score  # ms-swift puts this file's folder on the path
from swift.rewards import ORM, orms

from geoalign.adapters.swift import install


class Verified(ORM):
    """1 where the last \\boxed{} equals the column `solution`, else 0."""

    def __call__(self, completions: list[str], solution: list[str], **columns: Any) -> list[float]:
        return score(completions, solution)


orms["verified"] = Verified
name = os.environ.get("CURATOR")
if name:
    install(
        {
            "curator": {"type": name},
            "hidden_position": "mean",
            "log_metrics": "all",
            "second_verifier": os.environ.get("SECOND_VERIFIER") or None,
        }
    )
else:
    install(Path(__file__).parents[1] / "configs" / "full" / "swift_dapo_math.yaml")
