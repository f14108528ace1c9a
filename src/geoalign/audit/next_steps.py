"""The commands that would tell more than an audit has told, ready to be typed."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from geoalign.audit.folder import FLAGGED_FILE
from geoalign.audit.grouping import own_answer_field

# What the page calls the file of labels that it saves.
LABELS_FILE = "labels.csv"


def next_step(summary: Mapping[str, Any], reads: Collection[str]) -> dict[str, str] | None:
    """The call that would tell most beyond this one, and when to make it; None where no further one would.

    Args:
        reads: the fields of rollouts that the curator reads.
    """
    counts = summary["counts"]
    judges_verdicts = "reason" not in summary["verifier"]
    takes_labels = "trusted" in reads
    has_gold = any("answer" in entry["fields"] for entry in summary["inputs"])
    own_answer = own_answer_field(summary)
    if own_answer and not counts["answered"]:
        when = f"If the field {own_answer} holds what the responses answered, read it as such"
        # The field stands for one role alone.
        is_gold = any(entry["fields"].get("answer") == own_answer for entry in summary["inputs"])
        gold = ("--field", "answer=") if is_gold else ()
        return _step(when, _again(summary, *gold, "--field", f"final_answer={own_answer}"))
    if has_gold and not counts["answered"]:
        when = "If a field of the file holds each response's final answer, name it"
        return _step(when, _again(summary, "--field", "final_answer=NAME"))
    untried = summary["appeals"] is None and "components" not in reads
    if takes_labels and untried and judges_verdicts and _mostly_mathematical(summary):
        when = "If Math-Verify did not give these rewards, let it check a tenth of them against the gold answers"
        return _step(when, _again(summary, "--second-verifier", "math_verify"))
    if takes_labels and "components" not in reads and counts["flagged"]:
        flagged = f"{summary['command']['output']}/{FLAGGED_FILE}"
        when = f"If you have written the true rewards into the column `label` of {flagged}, use them"
        return _step(when, label_command(summary, flagged))
    if "note" in summary["hidden"] and counts["pairs"]:
        when = "If a model is at hand, compare its hidden states as well"
        return _step(when, _again(summary, "--model", "ID_OR_PATH"))
    return None


def label_command(summary: Mapping[str, Any], labels: str = LABELS_FILE) -> str:
    """The same call with a file of labels, into a folder of its own."""
    typed = _without_option(_typed(summary), "--output")
    output = f"{summary['command']['output']}-labelled"
    return _command([*typed, "--labels", labels, "--output", output])


def _step(when: str, command: str) -> dict[str, str]:
    return {"when": when, "command": command}


def _mostly_mathematical(summary: Mapping[str, Any]) -> bool:
    """Whether half of the gold answers or more can be read as mathematics: of prose Math-Verify says nothing."""
    golds = summary["gold_answers"]
    return 0 < golds["golds"] <= 2 * golds["mathematical"]


def _again(summary: Mapping[str, Any], *options: str) -> str:
    """The same call with more options, into the same folder."""
    typed = _typed(summary)
    overwrite = [] if "--overwrite" in typed else ["--overwrite"]
    return _command([*typed, *options, *overwrite])


def _typed(summary: Mapping[str, Any]) -> list[str]:
    """What was typed after `geoalign`; of an audit from Python what would come to the same."""
    command = summary["command"]
    files = [entry["file"] for entry in summary["inputs"]]
    return list(command["arguments"]) or ["audit", *files, "--output", command["output"]]


def _without_option(typed: Sequence[str], option: str) -> list[str]:
    """The words without an option and its value, written apart or as `--option=value`."""
    kept: list[str] = []
    skip = False
    for word in typed:
        if skip:
            skip = False
        elif word == option:
            skip = True
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return kept


def _command(words: Sequence[str]) -> str:
    return shlex.join(["geoalign", *words])
