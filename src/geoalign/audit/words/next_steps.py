"""The commands that would tell more than an audit has told, ready to be typed."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from geoalign.audit.folder import FLAGGED_FILE
from geoalign.audit.words.reading import own_answer_field
from geoalign.dumps.flagged_csv import PERSON

Summary = Mapping[str, Any]

_OVERWRITE = "--overwrite"
# Options that name a file which this call has written.
_EXPORTS = ("--export", "--export-inspect")


def next_step(summary: Summary, reads: Collection[str]) -> dict[str, str] | None:
    """The call that would tell most beyond this one: `when` to make it, and the `command`; None where none would.

    Args:
        reads: the fields of rollouts that the curator reads; "trusted" are labels, "components" several rewards.
    """
    step = _read_answers(summary)
    if step is None and "trusted" in reads and "components" not in reads:
        step = _ask_math_verify(summary) or _use_labels(summary)
    return step or _compare_states(summary)


def labels_file(summary: Summary) -> str:
    """What the page calls the file of labels that it saves: labels.csv, or labels-2.csv beside earlier ones."""
    typed = _typed(summary)
    number = 1
    name = "labels.csv"
    while any(word.endswith(name) for word in typed):
        number += 1
        name = f"labels-{number}.csv"
    return name


def label_command(summary: Summary) -> str:
    """The same call with the labels that the page saves, into a folder of its own."""
    return _with_labels(summary, labels_file(summary))


def flagged_command(summary: Summary) -> str:
    """The same call with true rewards that were written into flagged.csv, into a folder of its own."""
    return _with_labels(summary, _flagged_file(summary))


def _with_labels(summary: Summary, labels: str) -> str:
    return _elsewhere(summary, [*_typed(summary), "--labels", labels], "labelled")


def checks_command(summary: Summary, *, draw: int | None = None, file: str | None = None) -> str:
    """The same call that draws so many rows, into the same folder, or reads checks, into a folder of its own."""
    typed = _without(_typed(summary), "--draw-checks", "--checks")
    options = []
    if draw is not None:
        options += ["--draw-checks", str(draw)]
    if file is None:
        return _in_place([*typed, *options])
    if draw is None:
        typed = _without(typed, "--check-with")
    return _elsewhere(summary, [*typed, *options, "--checks", file], "checked")


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
    flagged = _flagged_file(summary)
    return {
        "when": f"If you have written the true rewards into the column `label` of {flagged}, use them",
        "command": flagged_command(summary),
    }


def _flagged_file(summary: Summary) -> str:
    """The path of flagged.csv in the output folder."""
    return f"{summary['command']['output']}/{FLAGGED_FILE}"


def _compare_states(summary: Summary) -> dict[str, str] | None:
    """Compare hidden states, if the audit did without and some rewards of a prompt differ."""
    if "note" not in summary["hidden"] or not summary["counts"]["pairs"]:
        return None
    return {
        "when": "If a model is at hand, compare its hidden states as well",
        "command": _again(summary, "--model", "ID_OR_PATH"),
    }


def _again(summary: Summary, *options: str) -> str:
    """The same call with more options, into the same folder.

    Where a person labelled checks it goes into another one: a folder whose checks.csv has such labels is not replaced.
    """
    words = [*_typed(summary), *options]
    has_labels = bool(summary["checks"]["by"].get(PERSON))
    return _elsewhere(summary, words, "again") if has_labels else _in_place(words)


def _in_place(words: Sequence[str]) -> str:
    """A call that replaces the audit of this one."""
    return _command(words if _OVERWRITE in words else [*words, _OVERWRITE])


def _elsewhere(summary: Summary, words: Sequence[str], name: str) -> str:
    """A call into a folder of its own, whose name ends in `name`; it replaces the files that this call exported."""
    words = [*_without(words, "--output"), "--output", f"{summary['command']['output']}-{name}"]
    exports = any(word.partition("=")[0] in _EXPORTS for word in words)
    return _in_place(words) if exports else _command(words)


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
