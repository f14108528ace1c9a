"""How the files of an audit were read, in words: what makes a group and what was left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from geoalign.console.numbers import counted
from geoalign.dumps.row_names import row_name

Summary = Mapping[str, Any]

# Files and rows that are named one by one.
_NAMED = 3

_CHANGES = {
    "replaced": "replaced by other responses",
    "left_out": "left out",
    "zero_weighted": "given no weight",
}


def what_was_read(summary: Summary) -> Iterator[str]:
    """Which rows were left out, how the others form groups, and which rewards are missing or known; only what there is
    to say."""
    counts = summary["counts"]
    yield from _left_out(summary)
    size = f"{counted(counts['rows'], 'rollout')} in {counted(counts['groups'], 'group')}"
    yield f"{size}. {_what_makes_a_group(summary)}"
    yield from _uneven_groups(summary)
    yield from _remarks(summary["inputs"])
    if counts["unscored"]:
        yield f"{counted(counts['unscored'], 'rollout has', 'rollouts have')} no reward."
    yield from _known_rewards(summary["labels"])
    changes = [f"{counts[name]:,} would be {change}" for name, change in _CHANGES.items() if counts[name]]
    if changes:
        yield f"In a training with this curator {', '.join(changes)}."


def reason_of_lone_rollouts(summary: Summary) -> str:
    """Why nothing can be compared, if every group holds one rollout; empty otherwise."""
    sizes = {size for entry in summary["inputs"] for size in entry["group_sizes"]}
    if sizes != {"1"}:
        return ""
    fields = "; or ".join(dict.fromkeys(_group_fields(entry) for entry in summary["inputs"]))
    return (
        f"Every group holds one rollout, for no two have the same {fields}, and rewards are compared within a group. "
        "If several rollouts answer one problem, name the field that they share: --field group=NAME."
    )


def own_answer_field(summary: Summary) -> str:
    """The field that holds what the responses answered, though its name stands for gold answers; empty unless all files
    have the same one."""
    names = {entry["own_answer"] for entry in summary["inputs"]}
    return (names.pop() or "") if len(names) == 1 else ""


def _left_out(summary: Summary) -> Iterator[str]:
    """The rows and files of the input that were not audited, and the responses without the state that was asked for."""
    skipped = summary["skipped"]
    for entry in skipped[:_NAMED]:
        field = f"{entry['field']}: " if entry["field"] else ""
        yield f"Skipped: {row_name(Path(entry['file']), entry['line'])}: {field}{entry['reason']}"
    if len(skipped) > _NAMED:
        yield f"{len(skipped):,} rows were skipped in all; summary.json lists them."
    repeated = summary["repeated"]
    for entry in repeated[:_NAMED]:
        yield f"Left out: {entry['file']} holds the rollouts of {entry['same_as']} again."
    if len(repeated) > _NAMED:
        yield f"{len(repeated):,} files were left out in all; summary.json lists them."
    without_answer = sum(entry.get("without_answer") or 0 for entry in summary["hidden"]["files"])
    if without_answer:
        yield (
            f"No final answer in {without_answer:,} of {counted(summary['counts']['rows'], 'response')}: for these the "
            "hidden state before the end was read instead (hidden_position 'predicting')."
        )


def _what_makes_a_group(summary: Summary) -> str:
    fields = dict.fromkeys(_group_fields(entry) for entry in summary["inputs"] if not entry["own_groups"])
    if not fields:
        return "The file names the groups."
    return f"Rollouts with the same {'; or '.join(fields)} are a group; --field group=NAME chooses another field."


def _group_fields(entry: Mapping[str, Any]) -> str:
    """The fields of a file whose values the rollouts of a group share: "`prompt` and `answer`"."""
    names = [f"`{name}`" for name in entry["fields"].get("group", "row").split("+")]
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _uneven_groups(summary: Summary) -> Iterator[str]:
    """The files whose groups differ in size, as at the end of a dump that was cut off."""
    uneven = [entry for entry in summary["inputs"] if len(entry["group_sizes"]) > 1]
    for entry in uneven[:_NAMED]:
        sizes = sorted(map(int, entry["group_sizes"]))
        yield f"Groups differ in size in {entry['file']}: they have {sizes[0]} to {sizes[-1]} rollouts."
    if len(uneven) > _NAMED:
        yield f"They do so in {counted(len(uneven) - _NAMED, 'more file')}."


def _remarks(inputs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What else is to be said of files, each remark once, with the files that it is of unless it is of all."""
    files: dict[str, list[str]] = {}
    for entry in inputs:
        if entry["remark"]:
            files.setdefault(entry["remark"], []).append(entry["file"])
    for remark, those in files.items():
        where = ""
        if len(those) < len(inputs):
            more = f" and {counted(len(those) - 1, 'more file')}" if len(those) > 1 else ""
            where = f" ({those[0]}{more})"
        yield f"{remark}{where}."


def _known_rewards(labels: Mapping[str, Any]) -> Iterator[str]:
    """How many labels were used; nothing where no file of labels was given."""
    if not labels["files"]:
        return
    known = counted(labels["labelled"], "rollout")
    sentence = f"The true reward of {known} is known, from {', '.join(labels['files'])}."
    without = labels["without_label"]
    if without:
        sentence += f" {counted(without, 'row there has', 'rows there have')} no label."
    yield sentence
