"""Dumps with damage, made by code: every format and field, with values that readers stumble over."""

import datetime
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

GROUPS, SIZE = 3, 2
# The row that is damaged, from 0.
BAD = 3

# What stands for a field, as JSON text; None: the field is missing; two: it stands twice.
VALUES: dict[str, str | None] = {
    "missing": None, "null": "null", "true": "true", "1e400": "1e400", "NaN": "NaN", "2^53+1": str(2**53 + 1),
    "5000 digits": "9" * 5000, "number as text": '"0.5"', "half a pair": r'"\ud800"',
    "control characters": r'"\u0000\u001b[2J\u202e</script>"', "empty text": '""', "empty list": "[]",
    "empty object": "{}", "list of lists": "[[1, [2]], [3]]", "deep": '{"a":' * 3000 + "1" + "}" * 3000,
    "doubled key inside": '{"a": 1, "a": 2}', "twice": "two",
}  # fmt: skip

Fields = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One dump: its name, file name and bytes; `rows`: how many it has, where each can be told from the others."""

    name: str
    file: str
    data: bytes
    rows: int | None = None


def _texts(**values: Any) -> Fields:
    return {name: json.dumps(value) for name, value in values.items()}


PLAIN = [
    _texts(id=f"{g}-{r}", prompt=f"question {g}", response=f"answer {g}.{r}", reward=r / 10, group=g, step=1,
           answer=str(g), correct=bool(r), true_reward=r / 10, tokens=5 + r, truncated=False)
    for g, r in product(range(GROUPS), range(SIZE))
]  # fmt: skip
VERL = [
    _texts(input=f"question {g}", output=f"answer {g}.{r}", gts=str(g), score=r / 10, step=5, acc=bool(r),
           uid=f"u{g}_{r}_0")
    for g, r in product(range(GROUPS), range(SIZE))
]  # fmt: skip
TRINITY = [
    {"eid": _texts(batch=3, task=g, run=r, step=0, suffix=f"{g}{r}"),
     **_texts(response_length=7 + r, truncate_status=None, prompt_text=f"question {g}",
              response_text=f"answer {g}.{r}", reward=r / 10)}
    for g, r in product(range(GROUPS), range(SIZE))
]  # fmt: skip
RESPONSES = [
    _texts(query=f"question {g}", answer=str(g), response=[f"answer {g}.{r}" for r in range(SIZE)],
           pred=[str(r) for r in range(SIZE)], score=[bool(r) for r in range(SIZE)],
           pred_score=[[r / 10] for r in range(SIZE)])
    for g in range(2 * GROUPS)
]  # fmt: skip
BASES = {"plain": PLAIN, "verl": VERL, "trinity": TRINITY, "responses": RESPONSES}


def rendered(row: Fields) -> str:
    """The row as JSON; a field of two values stands there twice."""
    parts = []
    for name, value in row.items():
        for text in value if isinstance(value, tuple) else (value,):
            parts.append(f'"{name}": {rendered(text) if isinstance(text, dict) else text}')
    return "{" + ", ".join(parts) + "}"


def packed(rows: list[str], *, zipped: bool = False) -> bytes:
    """The rows as a file."""
    data = ("\n".join(rows) + "\n").encode()
    return gzip.compress(data, mtime=0) if zipped else data


def damaged(row: Fields, field: str, value: str | None) -> Fields:
    """The row with another value in a (dotted) field."""
    name, _, inner = field.partition(".")
    if inner:
        return {**row, name: damaged(row[name], inner, value)}
    if value is None:
        return {key: text for key, text in row.items() if key != name}
    return {**row, name: (row[name], row[name]) if value == "two" else value}


def field_cases() -> Iterator[Case]:
    for base, good in BASES.items():
        inner = [f"{name}.{part}" for name, value in good[0].items() if isinstance(value, dict) for part in value]
        for field, (kind, value) in product([*good[0], *inner], VALUES.items()):
            if kind == "twice" and isinstance(good[BAD].get(field), dict):
                continue
            rows = [rendered(damaged(row, field, value) if place == BAD else row) for place, row in enumerate(good)]
            yield Case(f"{base}, {field}: {kind}", "dump.jsonl", packed(rows), len(rows))


def line_cases() -> Iterator[Case]:
    texts = {
        "a number": "5", "a list": "[1]", "half": '{"id": "x", "prom', "words": "no JSON", "brackets": "[" * 100_000,
        "two objects": '{"a": 1} {"b": 2}', "NUL": "\0", "empty": "{}", "a long key": json.dumps({"k" * 100_000: 1}),
    }  # fmt: skip
    for (base, good), (kind, text) in product(BASES.items(), texts.items()):
        rows = [text if place == BAD else rendered(row) for place, row in enumerate(good)]
        yield Case(f"{base}, {kind} as a row", "dump.jsonl", packed(rows), len(rows))


def _changed(data: bytes, number: int, chance: random.Random) -> bytes:
    if number % 3 == 0:
        return data[: chance.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(chance.choice((1, 3, 20))):
        changed[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(changed)


def byte_cases(count: int) -> Iterator[Case]:
    """Files cut off, or with bytes changed, packed and not."""
    chance = random.Random(0)
    for number in range(count):
        base, zipped = chance.choice(list(BASES)), number % 2 == 1
        data = packed([rendered(row) for row in BASES[base]], zipped=zipped)
        name = "dump.jsonl.gz" if zipped else "dump.jsonl"
        yield Case(f"{base}, bytes {number}, {name}", name, _changed(data, number, chance))


def array_cases(count: int) -> Iterator[Case]:
    """One array of JSON with a bad entry, which leaves the others as they are, and cut off or with bytes changed."""
    texts = {"a number": "5", "a list": "[1]", "empty": "{}", "a doubled key": '{"a": 1, "a": 2}', "null": "null"}
    for (base, good), (kind, text) in product(BASES.items(), texts.items()):
        rows = [text if place == BAD else rendered(row) for place, row in enumerate(good)]
        yield Case(f"array of {base}, {kind} as an entry", "dump.json", f"[{', '.join(rows)}]".encode(), len(rows))
    chance = random.Random(2)
    for number in range(count):
        base, name = chance.choice(list(BASES)), ("dump.json", "dump.jsonl", "dump.json.gz")[number % 3]
        data = f"[{', '.join(rendered(row) for row in BASES[base])}]".encode()
        data = gzip.compress(data, mtime=0) if name.endswith(".gz") else data
        yield Case(f"array of {base}, bytes {number}, {name}", name, _changed(data, number, chance))


def csv_cases(count: int) -> Iterator[Case]:
    """CSV with a bad row, and cut off or with bytes changed."""
    names = ("id", "prompt", "response", "reward")
    rows = ["\t".join(names), *("\t".join(str(json.loads(row[name])) for name in names) for row in PLAIN)]
    bad = {
        "a cell less": "x\ty",
        "a cell more": "x\ty\tz\t1\t2",
        "a word as reward": "x\ty\tz\tfive",
        "NUL": "x\0\ty\tz\t1",
    }
    for kind, text in bad.items():
        damaged_rows = [text if place == BAD else row for place, row in enumerate(rows)]
        yield Case(f"CSV, {kind}", "dump.tsv", packed(damaged_rows))
    chance = random.Random(3)
    for number in range(count):
        data, name = packed(rows), ("dump.tsv", "dump.csv")[number % 2]
        yield Case(f"CSV, bytes {number}, {name}", name, _changed(data, number, chance))


def columns() -> dict[str, pa.Array]:
    """Columns of six rows of kinds that no field holds, some beyond what Python can."""
    far = pa.array([2**62] * 6, pa.int64())
    offsets = pa.array(range(7), pa.int32())
    return {
        "timestamps": pa.array([datetime.datetime(2020, 1, n + 1) for n in range(6)]),
        "durations": pa.array([1, 2, 3, 4, 5, 6], pa.duration("ns")),
        "nulls": pa.nulls(6),
        "unsigned beyond": pa.array([2**64 - 1] * 6, pa.uint64()),
        "not finite": pa.array([float("nan"), float("inf"), -float("inf"), -0.0, 1e308, 5e-324]),
        "no UTF-8": pa.array([b"a", b"b", b"\xff\xfe", b"c", b"d", b"e"]).view(pa.string()),
        "bytes": pa.array([b"x", b"\xff"] * 3),
        "dictionary": pa.array(["a", "b"] * 3).dictionary_encode(),
        "lists of timestamps": pa.ListArray.from_arrays(offsets, far.cast(pa.timestamp("us"))),
        "maps": pa.array([[("a", 1), ("a", 2)]] * 6, pa.map_(pa.string(), pa.int64())),
    }


def _parquet(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return bytes(sink.getvalue())


def parquet_cases() -> Iterator[Case]:
    """A column of every kind in place of the reward or the response, or beside the others; and broken files."""
    own = {name: pa.array([json.loads(row[name]) for row in PLAIN]) for name in PLAIN[0]}
    trl = {"step": [2] * 6, "prompt": own["prompt"], "completion": own["response"], "accuracy": own["reward"]}
    tables: dict[str, dict[str, Any]] = {"plain": own, "trl": {**trl, "advantage": [0.0] * 6}}
    for (base, good), (kind, column) in product(tables.items(), columns().items()):
        for name in ("extra", "reward" if base == "plain" else "completion"):
            yield Case(f"{base}, {name}: {kind}", "dump.parquet", _parquet(pa.table({**good, name: column})))
    chance, whole = random.Random(1), _parquet(pa.table(own))
    for number in range(6):
        yield Case(f"parquet, bytes {number}", "dump.parquet", _changed(whole, number, chance))
    twice = pa.Table.from_arrays([*own.values(), own["prompt"]], names=[*own, "prompt"])
    yield Case("prompt twice", "dump.parquet", _parquet(twice))
