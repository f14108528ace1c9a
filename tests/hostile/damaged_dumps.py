"""Dumps with damage, made by code: every format, container and field, with values that readers stumble over."""

from __future__ import annotations

import datetime
import decimal
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

GROUPS, SIZE = 3, 2
# The row that is damaged, from 0.
BAD = 3
CONTAINERS = ("jsonl", "json", "jsonl.gz", "json.gz")

# What stands for a field, as JSON text; None: the field is missing; two: it stands twice.
VALUES: dict[str, str | None] = {
    "missing": None,
    "null": "null",
    "true": "true",
    "minus zero": "-0.0",
    "1e308": "1e308",
    "1e400": "1e400",
    "NaN": "NaN",
    "Infinity": "Infinity",
    "2^53+1": str(2**53 + 1),
    "2^63": str(2**63),
    "400 digits": "9" * 400,
    "5000 digits": "9" * 5000,
    "number as text": '"0.5"',
    "half a pair": r'"\ud800"',
    "control characters": r'"\u0000\u001b[2J\u202e</script>"',
    "empty text": '""',
    "long text": json.dumps("x" * 100_000),
    "empty list": "[]",
    "empty object": "{}",
    "list of lists": "[[1, [2]], [3]]",
    "deep": "[" * 90 + "]" * 90,
    "deeper": "[" * 150 + "]" * 150,
    "deepest": '{"a":' * 3000 + "1" + "}" * 3000,
    "doubled key inside": '{"a": 1, "a": 2}',
    "twice": "two",
}

Fields = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One dump: its name, file name and bytes; `rows`: the texts of its rows where each can be told from the others."""

    name: str
    file: str
    data: bytes
    rows: tuple[str, ...] | None = None


def _each() -> Iterator[tuple[int, int]]:
    yield from product(range(GROUPS), range(SIZE))


def _texts(**values: Any) -> Fields:
    return {name: json.dumps(value) for name, value in values.items()}


def plain() -> list[Fields]:
    return [
        _texts(id=f"{g}-{r}", prompt=f"question {g}", response=f"answer {g}.{r}", reward=r / 10, group=g, step=1,
               answer=str(g), correct=bool(r), true_reward=r / 10, tokens=5 + r, truncated=False)
        for g, r in _each()
    ]  # fmt: skip


def verl() -> list[Fields]:
    return [
        _texts(input=f"question {g}", output=f"answer {g}.{r}", gts=str(g), score=r / 10, step=5, acc=bool(r),
               uid=f"u{g}_{r}_0")
        for g, r in _each()
    ]  # fmt: skip


def trinity() -> list[Fields]:
    return [
        {"eid": _texts(batch=3, task=g, run=r, step=0, suffix=f"{g}{r}"),
         **_texts(response_length=7 + r, truncate_status=None, prompt_text=f"question {g}",
                  response_text=f"answer {g}.{r}", reward=r / 10)}
        for g, r in _each()
    ]  # fmt: skip


def responses() -> list[Fields]:
    return [
        _texts(query=f"question {g}", answer=str(g), response=[f"answer {g}.{r}" for r in range(SIZE)],
               pred=[str(r) for r in range(SIZE)], score=[bool(r) for r in range(SIZE)],
               pred_score=[[r / 10] for r in range(SIZE)])
        for g in range(2 * GROUPS)
    ]  # fmt: skip


BASES = {"plain": plain, "verl": verl, "trinity": trinity, "responses": responses}


def rendered(row: Fields) -> str:
    """The row as JSON; a field of two values stands there twice."""
    parts = []
    for name, value in row.items():
        for text in value if isinstance(value, tuple) else (value,):
            parts.append(f'"{name}": {rendered(text) if isinstance(text, dict) else text}')
    return "{" + ", ".join(parts) + "}"


def packed(rows: list[str], container: str) -> bytes:
    """The rows as a file."""
    data = ("\n".join(rows) + "\n").encode()
    return gzip.compress(data, mtime=0) if container.endswith(".gz") else data


def damaged(row: Fields, field: str, value: str | None) -> Fields:
    """The row with another value in a (dotted) field."""
    name, _, inner = field.partition(".")
    if inner:
        return {**row, name: damaged(row[name], inner, value)}
    if value is None:
        return {key: text for key, text in row.items() if key != name}
    return {**row, name: (row[name], row[name]) if value == "two" else value}


def fields_of(row: Fields) -> list[str]:
    inner = [f"{name}.{part}" for name, value in row.items() if isinstance(value, dict) for part in value]
    return [*row, *inner]


def field_cases() -> Iterator[Case]:
    """One field of one row damaged, in the containers by turns."""
    number = 0
    for base, make in BASES.items():
        good = make()
        for field, (kind, value) in product(fields_of(good[BAD]), VALUES.items()):
            if kind == "twice" and isinstance(good[BAD].get(field), dict):
                continue
            rows = [rendered(damaged(row, field, value) if place == BAD else row) for place, row in enumerate(good)]
            container = CONTAINERS[number % len(CONTAINERS)]
            data = packed(rows, container)
            yield Case(f"{base}, {field}: {kind}, {container}", f"dump.{container}", data, tuple(rows))
            number += 1


def line_cases() -> Iterator[Case]:
    """A whole row replaced by something that is none."""
    texts = {
        "a number": "5", "a list": "[1]", "null": "null", "a text": '"x"', "half": '{"id": "x", "prom',
        "words": "no JSON",
        "brackets": "[" * 100_000, "two objects": '{"a": 1} {"b": 2}', "a quote": '"', "NUL": "\0", "empty": "{}",
        "a long key": json.dumps({"k" * 100_000: 1}), "many keys": json.dumps({f"key {n}": n for n in range(5000)}),
    }  # fmt: skip
    for (base, make), (kind, text) in product(BASES.items(), texts.items()):
        rows = [text if place == BAD else rendered(row) for place, row in enumerate(make())]
        yield Case(f"{base}, {kind} as a row", "dump.jsonl", packed(rows, "jsonl"), tuple(rows))


def byte_cases(count: int, seed: int = 0) -> Iterator[Case]:
    """Files cut off, or with bytes changed, in every container."""
    chance = random.Random(seed)
    for number in range(count):
        base, container = chance.choice(list(BASES)), CONTAINERS[number % len(CONTAINERS)]
        data = bytearray(packed([rendered(row) for row in BASES[base]()], container))
        if number % 3 == 0:
            data = data[: chance.randrange(len(data))]
        else:
            for _ in range(chance.choice((1, 1, 3, 20))):
                data[chance.randrange(len(data))] = chance.randrange(256)
        yield Case(f"{base}, bytes {number}, {container}", f"dump.{container}", bytes(data))


def columns() -> dict[str, pa.Array]:
    """Columns of six rows of every kind of Arrow's that parquet holds, some beyond what Python can."""
    far = pa.array([2**62] * 6, pa.int64())
    texts = pa.array([f"text {n}" for n in range(6)])
    dates = [datetime.datetime(2020, 1, n + 1) for n in range(6)]
    offsets = pa.array(range(7), pa.int32())
    return {
        "timestamps beyond": far.cast(pa.timestamp("us")),
        "milliseconds beyond": far.cast(pa.timestamp("ms")),
        "nanoseconds": pa.array([n * 10**9 + 1 for n in range(6)], pa.timestamp("ns")),
        "timestamps": pa.array(dates),
        "a zone that is none": pa.array(dates, pa.timestamp("us", tz="Nowhere/Town")),
        "dates beyond": pa.array([2**30] * 6, pa.int32()).cast(pa.date32()),
        "durations": pa.array([1, 2, 3, 4, 5, 6], pa.duration("ns")),
        "durations beyond": far.cast(pa.duration("ms")),
        "times": pa.array([86_399_999_999] * 6, pa.time64("us")),
        "decimals": pa.array([decimal.Decimal("1.5")] * 6),
        "large decimals": pa.array([decimal.Decimal(10) ** 60] * 6, pa.decimal256(76, 0)),
        "nulls": pa.nulls(6),
        "truths": pa.array([True, False] * 3),
        "half precision": pa.array([0.5, 1.5] * 3, pa.float16()),
        "unsigned beyond": pa.array([2**64 - 1] * 6, pa.uint64()),
        "not finite": pa.array([float("nan"), float("inf"), -float("inf"), -0.0, 1e308, 5e-324]),
        "no UTF-8": pa.array([b"a", b"b", b"\xff\xfe", b"c", b"d", b"e"]).view(pa.string()),
        "bytes": pa.array([b"x", b"\xff"] * 3),
        "text views": texts.cast(pa.string_view()),
        "byte views": texts.cast(pa.binary_view()),
        "large texts": texts.cast(pa.large_string()),
        "dictionary": pa.array(["a", "b"] * 3).dictionary_encode(),
        "lists": pa.array([[n, None] for n in range(6)]),
        "lists of views": pa.ListArray.from_arrays(offsets, texts.cast(pa.string_view())),
        "lists of timestamps": pa.ListArray.from_arrays(offsets, far.cast(pa.timestamp("us"))),
        "objects": pa.array([{"x": n, "y": {"z": str(n)}} for n in range(6)]),
        "objects of one name twice": pa.StructArray.from_arrays([far, far], names=["a", "a"]),
        "maps": pa.array([[("a", 1), ("a", 2)]] * 6, pa.map_(pa.string(), pa.int64())),
        "fixed lists": pa.array([[1, 2]] * 6, pa.list_(pa.int64(), 2)),
    }


def tables() -> dict[str, dict[str, list[Any]]]:
    """Good tables of six rows in the formats that come as parquet."""
    own = {name: [json.loads(row[name]) for row in plain()] for name in plain()[0]}
    prompts, answers = own["prompt"], own["response"]
    trl = {"step": [2] * 6, "prompt": prompts, "completion": answers, "accuracy": own["reward"], "advantage": [0.0] * 6}
    run = {"step": [4] * 6, "row": list(range(6)), "group": own["group"], "sample": [0, 1] * 3, "prompt": prompts,
           "response": answers, "reward": own["reward"], "true_reward": own["reward"], "score": [0.5] * 6,
           "anomalous": [False] * 6, "source": list(range(6)), "weight": [1.0] * 6}  # fmt: skip
    return {"plain": own, "trl": trl, "geoalign": run}


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


def parquet_cases() -> Iterator[Case]:
    """A column of every kind in place of some columns, and beside the others."""
    number = 0
    for (base, good), (kind, column) in product(tables().items(), columns().items()):
        for name in (*good, "extra"):
            number += 1
            if name in ("extra", "reward") or number % 7 == 0:
                table = pa.table({**{key: pa.array(values) for key, values in good.items()}, name: column})
                yield Case(f"{base}, {name}: {kind}, parquet", "dump.parquet", _parquet(table))


def broken_parquet_cases(count: int, seed: int = 1) -> Iterator[Case]:
    """Parquet files cut off, with bytes changed, or with columns of one name."""
    chance = random.Random(seed)
    for base, good in tables().items():
        whole = _parquet(pa.table(good))
        for number in range(count):
            data = bytearray(whole)
            if number % 3 == 0:
                data = data[: chance.randrange(len(data))]
            for _ in range(number % 3 * 2):
                data[chance.randrange(len(data))] = chance.randrange(256)
            yield Case(f"{base}, bytes {number}, parquet", "dump.parquet", bytes(data))
        names = [*good, "prompt"]
        table = pa.Table.from_arrays([pa.array(good[name]) for name in names], names=names)
        yield Case(f"{base}, prompt twice, parquet", "dump.parquet", _parquet(table))


def write(case: Case, folder: Path) -> Path:
    """The dump as a file of the folder."""
    path = folder / case.file
    path.write_bytes(case.data)
    return path
