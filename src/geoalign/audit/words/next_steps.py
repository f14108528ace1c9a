"""The commands that would tell more than an audit has told, ready to be typed."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from geoalign.audit.folder import FLAGGED_FILE
from geoalign.audit.words.reading import own_answer_field

Summary = Mapping[str, Any]

# What the page calls the file of labels that it saves.
LABELS_FILE = "labels.csv"


def next_step(summary: Summary, reads: Collection[str]) -> dict[str, str] | None:
    """The call that would tell most beyond this one: `when` to make it, and the `command`; None where none would.

    Args:
        reads: the fields of rollouts that the curator reads; "trusted" are labels, "components" several rewards.
    """
    step = _read_answers(summary)
    if step is None and "trusted" in reads and "components" not in reads:
        step = _ask_math_verify(summary) or _use_labels(summary)
    return step or _compare_states(summary)


def label_command(summary: Summary, labels: str = LABELS_FILE) -> str:
    """The same call with a file of labels, into a folder of its own."""
    typed = _without(_typed(summary), "--output")
    output = f"{summary['command']['output']}-labelled"
    return _command([*typed, "--labels", labels, "--output", output])


def checks_command(summary: Summary, *, draw: int | None = None, file: str | None = None) -> str:
    """The same call that draws so many rows, into the same folder, or reads checks, into a folder of its own."""
    typed = _without(_typed(summary), "--draw-checks", "--checks")
    options = []
    if draw is not None:
        options += ["--draw-checks", str(draw)]
    if file is None:
        overwrite = [] if "--overwrite" in typed else ["--overwrite"]
        return _command([*typed, *options, *overwrite])
    typed = _without(typed, "--output") if draw is not None else _without(typed, "--output", "--check-with")
    return _command([*typed, *options, "--checks", file, "--output", f"{summary['command']['output']}-checked"])


def _read_answers(summary: Summary) -> dict[str, str] | None:
    """Name the field that holds the responses' answers, if no answer was read; it is known, or the file has gold ones
    and may have it."""
    if summary["counts"]["answered"]:
        return None
    gold_fields = {entry["fields"].get("answer") for entry in summary["inputs"]} - {None}
    own = own_answer_field(summary)
    if own:
        # A field stands for one role alone.
        no_gold = ["--field", "answer="] if own in gold_fields else []
        return {
            "when": f"If the field {own} holds what the responses answered, read it as such",
            "command": _again(summary, *no_gold, "--field", f"final_answer={own}"),
        }
    if gold_fields:
        return {
            "when": "If a field of the file holds each response's final answer, name it",
            "command": _again(summary, "--field", "final_answer=NAME"),
        }
    return None


def _ask_math_verify(summary: Summary) -> dict[str, str] | None:
    """Let Math-Verify check verdicts, if half of the gold answers are mathematics: of prose it says nothing."""
    golds = summary["gold_answers"]
    are_mathematical = 0 < golds["golds"] <= 2 * golds["mathematical"]
    if summary["appeals"] is not None or not summary["checks"]["possible"] or not are_mathematical:
        return None
    return {
        "when": "If Math-Verify did not give these rewards, let it check a tenth of them against the gold answers",
        "command": _again(summary, "--second-verifier", "math_verify"),
    }


def _use_labels(summary: Summary) -> dict[str, str] | None:
    """Write true rewards beside the flagged ones and audit again, if there are flags."""
    if not summary["counts"]["flagged"]:
        return None
    flagged = f"{summary['command']['output']}/{FLAGGED_FILE}"
    return {
        "when": f"If you have written the true rewards into the column `label` of {flagged}, use them",
        "command": label_command(summary, flagged),
    }


def _compare_states(summary: Summary) -> dict[str, str] | None:
    """Compare hidden states, if the audit did without and some rewards of a prompt differ."""
    if "note" not in summary["hidden"] or not summary["counts"]["pairs"]:
        return None
    return {
        "when": "If a model is at hand, compare its hidden states as well",
        "command": _again(summary, "--model", "ID_OR_PATH"),
    }


def _again(summary: Summary, *options: str) -> str:
    """The same call with more options, into the same folder."""
    typed = _typed(summary)
    overwrite = [] if "--overwrite" in typed else ["--overwrite"]
    return _command([*typed, *options, *overwrite])


def _typed(summary: Summary) -> list[str]:
    """What was typed after `geoalign`; for an audit from Python, what would come to the same."""
    command = summary["command"]
    if command["arguments"]:
        return list(command["arguments"])
    files = [entry["file"] for entry in summary["inputs"]]
    return ["audit", *files, "--output", command["output"]]


def _without(typed: Sequence[str], *options: str) -> list[str]:
    """The words without these options and their values, written apart or as `--output=value`."""
    words: list[str] = []
    is_value = False
    for word in typed:
        if not is_value and word not in options and not word.startswith(tuple(f"{option}=" for option in options)):
            words.append(word)
        is_value = not is_value and word in options
    return words


def _command(words: Sequence[str]) -> str:
    return shlex.join(["geoalign", *words])
