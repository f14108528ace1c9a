"""What stands in a run folder as JSON, read and checked in one place.

The reports refuse what is damaged, with the file and the line; `geoalign watch` leaves it out and counts it. Both take
a line for what this module says it is.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from geoalign.errors import RunFolderError

# Sums, squares and differences of such numbers stay finite; nothing that is logged comes near.
LARGEST = 1e100
# Whole numbers beyond are no longer exact as floats.
LARGEST_WHOLE = 2**53
# Nothing that is written here nests deeper; what does would end in the recursion limit of whoever walks through it.
DEEPEST = 50
_SHOWN = 120
# Aliases of YAML can stand for more than any program can walk through.
_MOST = 1_000_000


@dataclass(frozen=True)
class MetricRow:
    """One line of metrics.jsonl: the numbers logged at one step of one stage; a null stands as NaN.

    `left_out`: names of the values that are no numbers, or none that can be reckoned with (`number`).
    """

    stage: str
    step: int
    values: Mapping[str, float]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evaluation:
    """One line of evaluation.jsonl.

    Attributes:
        accuracy: NaN where the reward is no verdict of right or wrong; `correct` is None then.
        count: answers behind the line.
        reward: mean of the uncorrupted reward (the proxy reward where it is a learned model); NaN in older files.
        gold_utility: mean of the task's known utility; NaN where it knows none.
        samples: answers per problem; None in older files.
        pass_at_k: pass@k by k; empty where it was not measured.
    """

    step: int
    stage: str
    set: str
    accuracy: float
    correct: int | None
    count: int
    reward: float = math.nan
    gold_utility: float = math.nan
    samples: int | None = None
    pass_at_k: Mapping[int, float] = field(default_factory=dict)


def number(value: Any) -> float | None:
    """A number of at most 1e100 in size; None for anything else: text, booleans, NaN, infinities, larger ones."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -LARGEST <= value <= LARGEST else None


def whole(value: Any, least: int = 0) -> int | None:
    """A whole number from `least` to 2**53, written with a point or without; None for anything else."""
    found = number(value)
    return int(found) if found is not None and found.is_integer() and least <= found <= LARGEST_WHOLE else None


def shown(text: object) -> str:
    """A text or the message of an error as part of a message: one line without control characters, cut to a length
    that can be read."""
    line = " ".join(str(text)[: 4 * _SHOWN].split())
    clean = "".join(sign if sign.isprintable() else f"<U+{ord(sign):04X}>" for sign in line)
    return clean if len(clean) <= _SHOWN else f"{clean[:_SHOWN]}..."


def told(value: Any) -> str:
    """A value from a file as part of a message; of lists only the type, however deep they nest."""
    if isinstance(value, Mapping):
        entries = list(value.items())[:12]
        return shown("{" + ", ".join(f"{str(key)[:_SHOWN]!r}: {_scalar(entry)}" for key, entry in entries) + "}")
    return shown(_scalar(value))


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return repr(value[:_SHOWN])
    if isinstance(value, int) and abs(value) > 10**40:
        return "a whole number beyond 1e40"
    return repr(value) if value is None or isinstance(value, int | float) else type(value).__name__


def parsed_json(data: bytes | str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is no UTF-8, no JSON, holds a number of thousands of digits, or nests more than 50 deep.
    """
    try:
        value = json.loads(data.decode("utf-8") if isinstance(data, bytes) else data)
    except RecursionError:
        value = None
        deep = True
    else:
        deep = too_deep(value)
    if deep:
        raise ValueError(f"nesting deeper than {DEEPEST}")
    return value


def too_deep(value: Any) -> bool:
    """Whether lists and mappings nest more than 50 deep; one that holds itself does."""
    level = [value]
    for _ in range(DEEPEST + 1):
        # Each once: aliases of YAML may name one list a thousand times.
        level = list({id(inner): inner for item in level for inner in _inside(item)}.values())
        if not level:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    """The lists and mappings that a value holds."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [item for item in inner if isinstance(item, dict | list)]


def parsed_line(data: bytes) -> dict[str, Any]:
    """The object on a line of a .jsonl file.

    Raises:
        ValueError: as `parsed_json`, or it is no object.
    """
    value = parsed_json(data)
    if not isinstance(value, dict):
        raise ValueError(f"{type(value).__name__} instead of an object")
    return value


def parse_metrics(line: Mapping[str, Any], where: str) -> MetricRow:
    """The line as a `MetricRow`.

    Raises:
        RunFolderError: no stage or no whole step; `where` is named.
    """
    stage, step = line.get("stage"), whole(line.get("step"))
    if not isinstance(stage, str) or step is None:
        raise RunFolderError(f"metrics: expected 'stage' and a whole 'step', got {told(line)} in {where}")
    found = {key: number(value) for key, value in line.items() if key not in ("stage", "step")}
    values = {
        key: math.nan if value is None else value
        for key, value in found.items()
        if line[key] is None or value is not None
    }
    return MetricRow(stage, step, values, tuple(key for key in found if key not in values))


def parse_evaluation(line: Mapping[str, Any], where: str) -> Evaluation:
    """The line as an `Evaluation`; keys that older versions did not write may be missing.

    Raises:
        RunFolderError: a key is missing or of another type, a share lies outside 0 to 1, or `correct` does not fit
            `count`; `where` is named.
    """
    try:
        row = _evaluation(line)
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(
            f"evaluation: expected step, stage, set, accuracy, correct and count, got {told(line)} ({shown(error)}) "
            f"in {where}"
        ) from error
    if row.correct is None and not math.isnan(row.accuracy):
        raise RunFolderError(f"correct: expected a number where there is an accuracy, got null in {where}")
    if row.correct is not None and not 0 <= row.correct <= row.count:
        raise RunFolderError(f"correct: expected a number in 0..{row.count} (count), got {row.correct} in {where}")
    return row


def _evaluation(line: Mapping[str, Any]) -> Evaluation:
    passed = line.get("pass_at_k")
    if passed is not None and not isinstance(passed, Mapping):
        raise TypeError("pass_at_k is no mapping")
    by_k = {int(k): _share(value, "pass_at_k") for k, value in (passed or {}).items()}
    if any(whole(k, 1) is None for k in by_k):
        raise ValueError("pass_at_k of no number of answers")
    return Evaluation(
        step=_whole(line["step"], "step"),
        stage=_name(line["stage"], "stage"),
        set=_name(line["set"], "set"),
        accuracy=_share(line["accuracy"], "accuracy"),
        correct=None if line["correct"] is None else _whole(line["correct"], "correct"),
        count=_whole(line["count"], "count"),
        reward=_number(line.get("reward"), "reward"),
        gold_utility=_number(line.get("gold_utility"), "gold_utility"),
        samples=None if line.get("samples") is None else _whole(line["samples"], "samples"),
        pass_at_k=dict(sorted(by_k.items())),
    )


def _name(value: Any, key: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{key} is no text")
    return value


def _whole(value: Any, key: str) -> int:
    found = whole(value)
    if found is None:
        raise TypeError(f"{key} is no whole number from 0 on")
    return found


def _number(value: Any, key: str) -> float:
    found = math.nan if value is None else number(value)
    if found is None:
        raise TypeError(f"{key} is neither a number up to 1e100 nor null")
    return found


def _share(value: Any, key: str) -> float:
    found = _number(value, key)
    if found < 0 or found > 1:
        raise ValueError(f"{key} is no share from 0 to 1")
    return found


def present(path: Path, kind: str = "file") -> bool:
    """Whether there is a file (or a folder) of that name.

    Raises:
        RunFolderError: something else has the name: a folder, a link that leads nowhere, a pipe.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        if os.path.lexists(path):
            raise RunFolderError(f"{path}: expected a {kind}, got {shown(error)}") from error
        return False
    if not (stat.S_ISREG(mode) if kind == "file" else stat.S_ISDIR(mode)):
        other = "a folder" if stat.S_ISDIR(mode) else "a file" if stat.S_ISREG(mode) else "a pipe or device"
        raise RunFolderError(f"{path}: expected a {kind}, got {other}")
    return True


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        RunFolderError: it is not there, not readable, or no UTF-8.
    """
    if not present(path):
        raise RunFolderError(f"{path.name}: expected a readable file, got none in {path.parent}")
    try:
        return path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{path.name}: expected a readable file, got {shown(error)} in {path.parent}") from error


def read_yaml(path: Path) -> tuple[dict[str, Any], str]:
    """A file of settings, and its text.

    Raises:
        RunFolderError: it is not there or no whole YAML mapping; the message names the place.
    """
    text = read_text(path)
    try:
        value = yaml.safe_load(text)
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError, yaml.YAMLError) as error:
        said = "nesting too deep" if isinstance(error, RecursionError) else shown(error)
        raise RunFolderError(f"{path.name}: expected a whole YAML file, got {said} in {path}") from error
    return _object(value, path), text


def read_object(path: Path) -> dict[str, Any]:
    """A file that holds one JSON object.

    Raises:
        RunFolderError: it is not there, cut off, or something else.
    """
    try:
        value = parsed_json(read_text(path))
    except ValueError as error:
        raise RunFolderError(f"{path.name}: expected a whole JSON file, got {shown(error)} in {path}") from error
    return _object(value, path)


def _object(value: Any, where: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RunFolderError(f"{where}: expected an object, got {type(value).__name__}")
    if too_deep(value) or _entries(value, {}) > _MOST:
        raise RunFolderError(f"{where}: expected an object, got one that nests too deep or repeats itself without end")
    return value


def _entries(value: Any, known: dict[int, int]) -> int:
    """Lists and mappings inside a value, those that aliases name again counted again."""
    if id(value) not in known:
        known[id(value)] = 1 + sum(_entries(inner, known) for inner in _inside(value))
    return known[id(value)]
