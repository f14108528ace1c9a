"""The figures of `geoalign bench --rollouts`, on a terminal and as JSON of a line a result."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table

from geoalign.lab.bench.ordered import Measurement, Ordered
from geoalign.lab.bench.report import machine
from geoalign.lab.store.json_files import finite
from geoalign.lab.terminal import Console, say
from geoalign.lab.text import decimals, estimate, percent

_DIGITS = 4


def print_measurement(console: Console, found: Measurement) -> None:
    """Two tables for each view of the rewards and way of showing the dump, best order first; then what was left out."""
    for (view, batches), members in itertools.groupby(found.rows, key=lambda row: (row.view, row.batches)):
        rows = sorted(members, key=_worst_last)
        what = f"Rewards {view}; batches: {batches}"
        order = _table(f"{what}. Right responses above wrong ones (95% interval)", "order", "minus the reward's")
        for row in rows:
            order.add_row(row.score, estimate(row.order, _three), estimate(row.gain, _three))
        console.print(order)
        columns = ("cosine", "AUROC", "flagged", "precision", "recall", "states")
        wrong = _table(f"{what}. Advantages; wrong verdicts", *columns)
        for row in rows:
            numbers = (decimals(row.cosine.estimate), decimals(row.auroc.estimate), str(row.flagged))
            shares = (percent(row.precision.estimate), percent(row.recall.estimate))
            wrong.add_row(row.score, *numbers, *shares, " | ".join(dict.fromkeys(row.states)))
        console.print(wrong)
    for view, left_out in itertools.groupby(found.skipped, key=lambda skipped: skipped.view):
        reasons = {one.score: one.reason for one in left_out}
        say(console, f"Left out, rewards {view}: " + "; ".join(f"{name} ({why})" for name, why in reasons.items()))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("score", no_wrap=True)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def rollouts_json(about: Mapping[str, Any], model: Mapping[str, Any] | None, found: Measurement) -> str:
    """Everything measured, a line a result; intervals as [estimate, low, high] of four decimals.

    What is undefined is left out; `explored` has the orders on either half by layer and position.
    """
    parts = {"machine": machine(), "rollouts": about, "model": model}
    lines = [f"{json.dumps(name)}: {json.dumps(finite(value))}" for name, value in parts.items()]
    tables = {"rows": map(_record, found.rows), "explored": _explored(found), "skipped": map(_record, found.skipped)}
    for name, entries in tables.items():
        lines.append(f"{json.dumps(name)}: [\n" + ",\n".join(map(json.dumps, entries)) + "\n]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _explored(found: Measurement) -> Iterator[dict[str, Any]]:
    for (view, batches, score), members in itertools.groupby(
        found.explored, key=lambda one: (one.view, one.batches, one.score)
    ):
        halves = {one.states: _short(one.halves) for one in members}
        yield {"view": view, "batches": batches, "score": score, "halves": halves}


def _record(entry: Any) -> dict[str, Any]:
    values = {field.name: _short(getattr(entry, field.name)) for field in dataclasses.fields(entry)}
    undefined: tuple[Any, ...] = (None, [None] * 3, [])
    return {name: value for name, value in values.items() if value not in undefined}


def _short(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [_short(part) for part in dataclasses.astuple(value)]
    if isinstance(value, tuple):
        return [_short(part) for part in value]
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, _DIGITS)
    return value


def _worst_last(row: Ordered) -> float:
    return math.inf if math.isnan(row.order.estimate) else -row.order.estimate


def _three(value: float) -> str:
    return decimals(value, 3)
