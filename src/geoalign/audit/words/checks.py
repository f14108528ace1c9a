"""What checked rows say of the verifier, in words, and the command by which checks would tell more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from geoalign.audit.folder import CHECKS_FILE
from geoalign.audit.words.evidence import has_one_verdict
from geoalign.audit.words.next_steps import checks_command
from geoalign.console.numbers import counted, percent
from geoalign.dumps.flagged_csv import PERSON

Summary = Mapping[str, Any]

# Rows to draw at first.
FIRST_CHECKS = 50
_CLASSES = {
    "false_positive_rate": ("wrong", "rewarded"),
    "false_negative_rate": ("right", "refused"),
}

CONTRADICTED = (
    "So nothing is claimed to be proved. If a label is a slip, correct it and audit again; else several answers to a "
    "prompt may be right: --set curator.answers=shared."
)


def checked_lines(summary: Summary) -> tuple[str, ...]:
    """What the checks say and on how many rows, and what they contradict; nothing where no row has a label."""
    checks = summary.get("checks")
    found = summary["verifier"].get("checks")
    if checks is None or not found:
        return ()
    used = checks["used"] - checks["without_label"]
    drawn = counted(used, "row")
    if checks["without_label"]:
        drawn = f"{used:,} of the first {checks['used']:,} rows"
    holds = "whatever the verifier does"
    if checks["anytime"]:
        holds = f"{holds}, however often you look"
    if all(found[name]["method"] == "all rows" for name in _CLASSES) and not checks["without_label"]:
        lines = [f"Checked: {_labelled(checks)} all {drawn} with a reward. {_counts(found)}"]
    else:
        lines = [
            f"Checked: {_labelled(checks)} {drawn} drawn at random from {checks['drawn_from']:,}. {_counts(found)} "
            f"The 95% intervals hold {holds}."
        ]
    if checks["without_label"]:
        lines.append(
            f"{counted(checks['without_label'], 'row has', 'rows have')} no label but a later draw has: each counts as "
            "judged rightly for the lower ends, and wrongly for the upper ends."
        )
    contradicted = found["contradicted_prompts"]
    if contradicted:
        lines.append(
            f"By the labels of {counted(contradicted, 'prompt')} equal answers are both right and wrong, or two "
            f"different ones right. {CONTRADICTED}"
        )
    lines += _outside_the_bounds(summary["verifier"])
    return tuple(lines)


def model_line(summary: Summary) -> str:
    """What a model would guess beside the checks, and on which supposition; empty where it has no guess."""
    found = summary["verifier"]
    guesses = [found["model"][name]["estimate"] for name in _CLASSES]
    if None in guesses:
        return ""
    doubt = f", which is in doubt: {found['doubt']}" if found["doubt"] else ""
    return (
        f"A statistical model would guess that {percent(guesses[0])} of the wrong answers were rewarded and "
        f"{percent(guesses[1])} of the correct refused. It supposes that every verdict errs by itself{doubt}."
    )


def next_checks(summary: Summary) -> tuple[str, str] | None:
    """When to check rows, or more of them, and the command for it; None where checks can tell no more."""
    checks = summary.get("checks")
    if checks is None or not checks["possible"]:
        return None
    file = f"{summary['command']['output']}/{CHECKS_FILE}"
    if not checks["drawn"]:
        when = "Rows drawn at random and checked by you tell both rates, whatever the verifier repeats:"
        if has_one_verdict(summary):
            when = "Rows drawn at random and checked by you tell how many of these rewards are wrong:"
        return when, checks_command(summary, draw=FIRST_CHECKS)
    if not checks["labelled"]:
        written = file if checks["file"] is None else checks["file"]
        return (
            f"Write right or wrong into the column `label` of {written}, from the first row on, then read the rates:",
            checks_command(summary, file=written),
        )
    if checks["drawn"] >= checks["drawn_from"]:
        return None
    if checks["labelled"] < checks["drawn"]:
        return None
    # What was labelled stays, as the beginning of the larger sample.
    asked_again = not checks["by"].get(PERSON)
    return (
        "More checks make the intervals shorter; those that you have stay among them:",
        checks_command(summary, draw=2 * checks["drawn"], file=None if asked_again else checks["file"] or file),
    )


def _labelled(checks: Mapping[str, Any]) -> str:
    """Who labelled the rows."""
    verifiers = sorted(name for name in checks["by"] if name != PERSON)
    if not verifiers:
        return "you labelled"
    names = ", ".join("the gold answers of the file" if name == "gold" else name for name in verifiers)
    return f"you and {names} labelled" if checks["by"].get(PERSON) else f"{names} labelled"


def _counts(found: Mapping[str, Any]) -> str:
    """How many of the checked rows are wrong and right, and how many of these were judged wrongly."""
    parts = []
    for name, (kind, mistake) in _CLASSES.items():
        rate = found[name]
        were = "was" if rate["errors"] == 1 else "were"
        parts.append(f"of {rate['checked']:,} {kind} ones {rate['errors']:,} {were} {mistake}")
    sentence = ", and ".join(parts)
    return f"{sentence[0].upper()}{sentence[1:]}."


def _outside_the_bounds(found: Mapping[str, Any]) -> list[str]:
    """That checks and proof exclude each other, where they do."""
    bounds = found["bounds"]
    if bounds is None:
        return []
    outside = False
    for name in _CLASSES:
        rate = found["checks"][name]
        low = bounds[name]["low"]
        high = bounds[name]["high"]
        outside |= bool(rate["checked"]) and (rate["low"] > high or rate["high"] < low)
    if not outside:
        return []
    return [
        "The checks lie outside what is proved. Chance does this once in twenty audits at most; else equal answers are "
        "not equally right, or several answers to a prompt are."
    ]
