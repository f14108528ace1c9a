"""What an audit's summary says of groups, in words: how they were made, their sizes, and why none can be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from geoalign.console.numbers import counted
from geoalign.text import visible

# Files that are named, and sizes of groups that are told one by one.
_FILES, _SIZES = 3, 4


def grouping_words(summary: Mapping[str, Any]) -> str:
    """What makes a group: a field of the file, or the fields whose values its rollouts share."""
    made = dict.fromkeys(_fields(entry) for entry in summary["inputs"] if not entry.get("own_groups", True))
    if not made:
        return "The file names the groups."
    return f"Rollouts with the same {'; or '.join(made)} are a group; --field group=NAME chooses another field."


def grouping_remarks(summary: Mapping[str, Any]) -> list[str]:
    """What else should be known of how groups were made."""
    remarks = dict.fromkeys(entry["remark"] for entry in summary["inputs"] if entry.get("remark"))
    return [f"{visible(remark, 400)}." for remark in remarks]


def own_answer_field(summary: Mapping[str, Any]) -> str:
    """The field that holds what the responses answered, where all files have one whose name stands for gold answers."""
    names = {entry.get("own_answer") for entry in summary["inputs"]}
    name = names.pop() if len(names) == 1 else None
    return visible(name, 80) if name else ""


def sizes_lines(summary: Mapping[str, Any]) -> list[str]:
    """The files whose groups are of different sizes, as at the end of a dump that was cut off."""
    uneven = [entry for entry in summary["inputs"] if len(entry["group_sizes"]) > 1]
    lines = [f"Groups differ in size in {entry['file']}: {_sizes(entry['group_sizes'])}." for entry in uneven[:_FILES]]
    if len(uneven) > _FILES:
        lines.append(f"They do so in {counted(len(uneven) - _FILES, 'more file')}.")
    return lines


def groups_of_one(summary: Mapping[str, Any]) -> str:
    """Why nothing can be compared, where every group holds one rollout; empty where some group holds more."""
    inputs = summary.get("inputs") or ()
    sizes = {size for entry in inputs for size in entry.get("group_sizes") or ()}
    if sizes != {"1"}:
        return ""
    fields = "; or ".join(dict.fromkeys(_fields(entry) for entry in inputs))
    return (
        f"Every group holds one rollout, for no two have the same {fields}, and rewards are compared within a group. "
        "If several rollouts answer one problem, name the field that they share: --field group=NAME."
    )


def _fields(entry: Mapping[str, Any]) -> str:
    """The fields whose values the rollouts of a group share: "`prompt` and `answer`"."""
    names = [f"`{visible(name, 80)}`" for name in entry["fields"].get("group", "row").split("+")]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _sizes(counts: Mapping[str, int]) -> str:
    """How many groups have which size: "1 of 3, 11 of 4 rollouts"; of many sizes the usual one and the ends."""
    if len(counts) <= _SIZES:
        return ", ".join(f"{count:,} of {size}" for size, count in counts.items()) + " rollouts"
    usual = max(counts, key=lambda size: counts[size])
    others = sorted(int(size) for size in counts if size != usual)
    rest = sum(counts.values()) - counts[usual]
    return f"{counts[usual]:,} of {usual} rollouts, {counted(rest, 'other', 'others')} of {others[0]} to {others[-1]}"
