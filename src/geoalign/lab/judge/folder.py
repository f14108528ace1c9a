"""The folder of a judging: its files, and what tells it from that of an evaluation."""

from __future__ import annotations

from pathlib import Path

from geoalign.files.json_files import read_json
from geoalign.lab.runs.resuming import SETTINGS

# Of a judging: its results, and a line for each judged pair.
JUDGED, JUDGMENTS = "judge.json", "judgments.jsonl"


def is_judging(root: Path) -> bool:
    """Whether the settings in a folder are those of a judging, which names two files, and not of an evaluation."""
    return "a_sha256" in read_json(root / SETTINGS)
