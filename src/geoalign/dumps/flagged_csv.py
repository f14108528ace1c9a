"""flagged.csv, which an audit writes and a person labels: its columns, and texts that no spreadsheet runs."""

from __future__ import annotations

import re

from geoalign.files.columns import whole_text

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# What a spreadsheet takes for the beginning of a formula, behind blanks too; the wide forms as well.
_FORMULA = tuple("=+-@＝＋－＠")
# A cell of Excel holds 32,767 characters.
LONGEST = 32_000

# The columns of `flagged.csv`. `ROW` says which rollout a row is; people who label fill in the last two.
ROW = ("step", "line", "sample")
LABEL = "label"
# What a person is called where it is counted who labelled.
PERSON = "person"
_FACTS = (
    "index", "step", "file", "line", "sample", "id", "group", "score", "reward", "new_reward", "true_reward", "correct",
    "probability_wrong", "denoised_reward", "group_mean", "group_size", "replaced_by",
    "characters",
)  # fmt: skip
_FLAGGED_TEXTS = ("answer", "final_answer", "prompt", "response", "replacement")
_LABELS = (LABEL, "note")


def safe(text: str) -> str:
    """A text as a cell that no spreadsheet takes for a formula (such a one begins with an apostrophe), control
    characters as U+FFFD, cut to 32,000 characters."""
    if len(text) > LONGEST:
        text = f"{text[:LONGEST]} ... ({len(text):,} characters)"
    clean = _CONTROL.sub("\ufffd", whole_text(text).replace("\r\n", "\n").replace("\r", "\n"))
    return f"'{clean}" if _risky(clean) else clean


def restored(cell: str) -> str | None:
    """The text that `safe` made this cell of, but for control characters; None where the cell holds only part of it."""
    if len(cell) > LONGEST + 1:
        return None
    return cell[1:] if cell[:1] == "'" and _risky(cell[1:]) else cell


def _risky(text: str) -> bool:
    return text.lstrip().startswith(_FORMULA) or text[:1] in ("\t", "\n")
