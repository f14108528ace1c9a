"""Damaged folders: one small whole folder of each kind, and everything that may happen to the files in it.

Each `Damage` says what must come of it: "error" (one line that names the file), "note" (a report that names what it
left out, on the page and on the terminal), or "fine" (nothing is lost).
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pyarrow
import pyarrow.parquet

TESTS = Path(__file__).parents[1]
Spoil = Callable[[Path], None]


@dataclass(frozen=True)
class Damage:
    """What is done to which file of a folder of a kind, and what must come of it."""

    kind: str
    file: str
    name: str
    spoil: Spoil
    outcome: str = "error"

    def __str__(self) -> str:
        return f"{self.kind}-{self.file}-{self.name}".replace("/", ".")


@functools.cache
def parts_of(path: str) -> ModuleType:
    """The conftest.py of a folder of tests, which holds what writes its folders."""
    spec = importlib.util.spec_from_file_location(
        f"parts_of_{path.replace('/', '_')}", TESTS / "lab" / path / "conftest.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def write_folder(kind: str, folder: Path) -> Path:
    """A small whole folder: "run", "comparison", "curation", "evaluation" or "judging"."""
    if kind == "run":
        parts_of("reports")._write_run(folder, steps=2, flip=0.1, curator="geoalign")
    elif kind == "comparison":
        scores = {"grpo": 0.5, "geoalign": 0.6, "pair_count": 0.55, "oracle": 0.7}
        parts_of("reports/comparison")._comparison(folder, {"flip": scores}, seeds=(0, 1, 2))
    elif kind == "curation":
        parts_of("reports/inspection")._write(folder, groups=2, size=3)
    else:
        names = {"evaluation": ("results.json", "settings.json"), "judging": ("summary.json", "judgments.jsonl")}
        folder.mkdir(parents=True)
        for name in names[kind]:
            (folder / name).write_text('{"schema_version": 1, "models": ["a", "b"]}\n')
    return folder


# What may happen to any file.
def _cut(path: Path) -> None:
    half = path.read_bytes()[: path.stat().st_size // 2]
    path.write_bytes(half.rstrip(b"\n")[:-2])  # in the middle of a line


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _bytes(data: bytes) -> Spoil:
    return lambda path: path.write_bytes(data) and None


ANY = {
    "cut": _cut, "folder": _folder, "loop": _loop, "pipe": _pipe, "absent": Path.unlink, "empty": _bytes(b""),
    "binary": _bytes(bytes(range(256)) * 8), "zeros": _bytes(b"\0" * 5000),
}  # fmt: skip
DEEP = b"[" * 100_000
TEXTS = {"latin": _bytes(b'{"a": "\xe9"}'), "utf16": _bytes('{"a": 1}'.encode("utf-16")), "deep": _bytes(DEEP)}
JSON = {
    "list": _bytes(b"[1, 2]"), "number": _bytes(b"7"), "null": _bytes(b"null"),
    "digits": _bytes(b'{"a": ' + b"9" * 5000 + b"}"),
    "nested": _bytes(b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}"), "open": _bytes(b'{"a": 1'),
}  # fmt: skip
# Sixty lists of which each holds the one before nine times.
LAUGHS = b"a0: &a0 [x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (at, at, b", ".join([b"*a%d" % (at - 1)] * 9)) for at in range(1, 60)
)
YAML = {
    "list": _bytes(b"- 1"), "tag": _bytes(b"a: !!python/object/apply:os.getcwd []"), "tab": _bytes(b"a:\n\tb: 1"),
    "date": _bytes(b"a: 2001-99-99"), "key": _bytes(b"? {a: 1}\n: 2"), "bad alias": _bytes(b"a: *b"),
    "laughs": _bytes(LAUGHS), "many laughs": _bytes(b"".join(LAUGHS.splitlines(keepends=True)[:12])),
    "itself": _bytes(b"a: &a [*a]"),
}  # fmt: skip


def _line(change: dict[str, object] | bytes, at: int = -2) -> Spoil:
    """Changes keys of a line (None: takes them out), or puts other bytes in its place."""

    def spoil(path: Path) -> None:
        lines = path.read_bytes().splitlines()
        if isinstance(change, bytes):
            lines[at] = change
        else:
            value = {**json.loads(lines[at]), **change}
            lines[at] = json.dumps({key: item for key, item in value.items() if item is not ...}).encode()
        path.write_bytes(b"\n".join(lines) + b"\n")

    return spoil


WILD = {"huge": 10**400, "1e200": 1e200, "infinite": float("inf"), "nan": float("nan"), "text": "0.5", "true": True,
        "list": [1.0], "object": {"a": 1}}  # fmt: skip
LINES = {
    "no json": b"{", "deep": DEEP, "list": b"[]", "text": b'"a"', "bad utf-8": b'{"a": "\xff"}', "digits": b"9" * 5000,
    "nul": b"\0" * 100, "nested": b'{"a": ' + b"[" * 200 + b"]" * 200 + b"}",
}  # fmt: skip
STEPS = {"text": "1", "half": 1.5, "negative": -1, "huge": 10**30, "true": True, "null": None, "missing": ...}


def _key(*keys: str | int, value: object) -> Spoil:
    """Puts a value at a place of a JSON file; ... takes the key out."""

    def spoil(path: Path) -> None:
        data = inner = json.loads(path.read_bytes())
        for key in keys[:-1]:
            inner = inner[key]
        if value is ...:
            del inner[keys[-1]]
        else:
            inner[keys[-1]] = value
        path.write_text(json.dumps(data))

    return spoil


def _column(name: str, values: Callable[[int], pyarrow.Array] | None) -> Spoil:
    """Puts another column of a parquet file in the place of one, or takes it out."""

    def spoil(path: Path) -> None:
        table = pyarrow.parquet.read_table(path)
        at = table.schema.get_field_index(name)
        table = table.remove_column(at) if values is None else table.set_column(at, name, values(len(table)))
        pyarrow.parquet.write_table(table, path)

    return spoil


COLUMNS: dict[str, Callable[[int], pyarrow.Array]] = {
    "texts": lambda rows: pyarrow.array(["x"] * rows),
    "numbers as texts": lambda rows: pyarrow.array(["0.5"] * rows),
    "lists": lambda rows: pyarrow.array([[1.0]] * rows),
    "structs": lambda rows: pyarrow.array([{"a": 1}] * rows),
    "times": lambda rows: pyarrow.array([0] * rows, pyarrow.timestamp("s")),
}
WILD_COLUMNS: dict[str, Callable[[int], pyarrow.Array]] = {
    "infinite": lambda rows: pyarrow.array([float("inf")] * rows),
    "1e308": lambda rows: pyarrow.array([1e308, -1e308] * (rows // 2) + [1e308] * (rows % 2)),
}
WHOLE_COLUMNS: dict[str, Callable[[int], pyarrow.Array]] = {
    "halves": lambda rows: pyarrow.array([0.5] * rows),
    "beyond": lambda rows: pyarrow.array([2**64 - 1] * rows, pyarrow.uint64()),
}


def _ends(end: bytes) -> Spoil:
    return lambda path: path.write_bytes(path.read_bytes().replace(b"\n", end)) and None


def _no_rows(path: Path) -> None:
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(path).slice(0, 0), path)


def _twice(path: Path) -> None:
    table = pyarrow.parquet.read_table(path)
    pyarrow.parquet.write_table(table.append_column(table.column_names[1], table.column(1)), path)


def _header(change: Callable[[dict], None]) -> Spoil:
    """Changes the header of a safetensors file."""

    def spoil(path: Path) -> None:
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8 : 8 + size])
        change(header)
        changed = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(changed)) + changed + data[8 + size :])

    return spoil


def _metadata(text: str) -> Spoil:
    return _header(lambda header: header["__metadata__"].update(density=text))


def _reshaped(name: str, shape: list[int]) -> Spoil:
    return _header(lambda header: header[name].update(shape=shape))


def _retyped(name: str, dtype: str) -> Spoil:
    return _header(lambda header: header[name].update(dtype=dtype))


def _floats(path: Path) -> None:
    """Every byte after the header set, so that floats are NaN."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    path.write_bytes(data[: 8 + size] + b"\xff" * (len(data) - 8 - size))


def _of(kind: str) -> Callable[..., Iterator[Damage]]:
    """Damages to a file of a folder of this kind; further keywords are the outcomes of single ones."""

    def of_kind(file: str, spoils: dict[str, Spoil], outcome: str = "error", **others: str) -> Iterator[Damage]:
        for name, spoil in spoils.items():
            yield Damage(kind, file, name, spoil, others.get(name.replace(" ", "_"), outcome))

    return of_kind


def _columns(column: str, kinds: dict[str, Callable[[int], pyarrow.Array]]) -> dict[str, Spoil]:
    return {f"{column} {name}": _column(column, values) for name, values in kinds.items()}


def damages() -> Iterator[Damage]:
    """All of them, in a fixed order."""
    yield from (*_run(), *_comparison(), *_curation())
    for kind, names in (
        ("evaluation", ("results.json", "settings.json")),
        ("judging", ("summary.json", "judgments.jsonl")),
    ):
        for file in names:
            yield from (Damage(kind, file, name, ANY[name]) for name in ("cut", "folder", "binary", "empty"))


def _run() -> Iterator[Damage]:
    run = _of("run")
    yield from run("config.yaml", {**ANY, **TEXTS, **YAML})
    yield from run("versions.json", {**ANY, **TEXTS, **JSON})
    yield from run(
        "versions.json", {f"version {name}": _key("schema_version", value=value) for name, value in WILD.items()}
    )
    # One line without its end is what a kill leaves.
    told = dict.fromkeys(("cut", "absent", "empty", "zeros", "latin", "utf16", "deep"), "note")
    for file in ("metrics.jsonl", "evaluation.jsonl"):
        yield from run(file, {**ANY, **TEXTS}, **told)
        yield from run(file, {f"line {name}": _line(data) for name, data in LINES.items()})
        yield from run(
            file, {f"last line {name}": _line(LINES[name], -1) for name in ("no json", "deep", "digits")}, "note"
        )
        yield from run(file, {f"step {name}": _line({"step": value}) for name, value in STEPS.items()})
        yield from run(
            file, {f"stage {name}": _line({"stage": value}) for name, value in (("list", []), ("missing", ...))}
        )
        yield from run(file, {"carriage returns": _ends(b"\r\n"), "blank lines": _ends(b"\n\n")}, "fine")
    for key in ("reward", "geoalign/new_group_accuracy"):
        yield from run("metrics.jsonl", {f"{key} {name}": _line({key: value}) for name, value in WILD.items()}, "note")
    for key in ("accuracy", "correct", "count", "reward"):
        yield from run("evaluation.jsonl", {f"{key} {name}": _line({key: value}) for name, value in WILD.items()})
    more = {"share": {"accuracy": 1.5}, "negative": {"accuracy": -0.1}, "beyond": {"correct": 10**6},
            "no set": {"set": ...}, "pass": {"pass_at_k": [1]}, "pass text": {"pass_at_k": {"one": 1.0}},
            "pass zero": {"pass_at_k": {"0": 1.0}}, "pass share": {"pass_at_k": {"1": 7}},
            "samples": {"samples": "4"}}  # fmt: skip
    yield from run("evaluation.jsonl", {name: _line(change) for name, change in more.items()})
    yield from run("summary.json", {**ANY, **JSON}, "note", absent="fine", folder="error", loop="error", pipe="error")
    parquet = "rollouts/step-000001.parquet"
    yield from run(parquet, ANY, "note", folder="error", loop="error", pipe="error", absent="fine")
    for column in ("row", "reward", "score", "source", "anomalous", "corrupted"):
        yield from run(parquet, _columns(column, COLUMNS))
        yield from run(parquet, {f"{column} absent": _column(column, None)})
    for column in ("reward", "true_reward", "score", "weight"):
        yield from run(parquet, _columns(column, WILD_COLUMNS), "note")
    for column in ("row", "group", "source"):
        yield from run(parquet, _columns(column, WHOLE_COLUMNS))
    for column in ("prompt", "response"):
        yield from run(parquet, {f"{column} {name}": _column(column, COLUMNS[name]) for name in ("lists", "times")})
    yield from run(parquet, {"no rows": _no_rows}, "fine")
    yield from run(parquet, {"twice": _twice})
    details = "details/step-000001.safetensors"
    yield from run(details, ANY, "note", absent="fine")
    yield from run(details, {
        "no density": _metadata("null"), "density text": _metadata("{"), "density list": _metadata("[]"),
        "density deep": _metadata("[" * 50_000), "density words": _metadata('{"peak": "high"}'),
        "density huge": _metadata('{"peak": 1e999}'), "short": _reshaped("pairs.winner", [10]),
        "flat": _reshaped("raw_plane", [400]), "integers": _retyped("pairs.raw_cosine", "I32"), "nan": _floats,
        "header": lambda path: path.write_bytes(b"\xff" * 8 + path.read_bytes()[8:]) and None,
    }, "note", integers="fine")  # fmt: skip
    yield from run("rollouts", {"a file": _in_place_of_folder}, "error")
    yield from run("figures", {"a file": _bytes(b"x")}, "error")
    yield from run("report.html", {"a folder": lambda path: path.mkdir()}, "error")


def _in_place_of_folder(path: Path) -> None:
    path.rename(path.with_name("away"))
    path.write_bytes(b"x")


def _comparison() -> Iterator[Damage]:
    comparison = _of("comparison")
    yield from comparison("compare.yaml", {**ANY, **TEXTS, **YAML}, absent="error")
    settings = {"seeds": "0, 1", "arms": ["grpo"], "levels": 5, "metric": ["accuracy"], "last_evaluations": 0,
                "primary": "geoalign", "run": {"grpo": {"num_iterations": "two"}}, "arms_at": {"grpo": 5}}  # fmt: skip
    yield from comparison(
        "compare.yaml", {f"{key} of another kind": _yaml_key(key, value) for key, value in settings.items()}
    )
    result = "results/flip/geoalign/seed-1.json"
    yield from comparison(result, {**ANY, **TEXTS, **JSON}, absent="fine")
    for key in ("seed", "arm", "evaluations", "series", "detection", "snapshots", "settings", "seconds"):
        wrong = {name: value for name, value in (("text", "0.5"), ("number", 1e200), ("huge", 10**400), ("list", [[1]]))
                 if (key, name) != ("arm", "text")}  # fmt: skip
        yield from comparison(result, {f"{key} {name}": _key(key, value=value) for name, value in wrong.items()})
    for name, value in WILD.items():
        yield from comparison(result, {
            f"evaluation {name}": _key("evaluations", 1, "accuracy", value=value),
            f"series of ppo_kl {name}": _key("series", "ppo_kl", 3, value=value),
            f"steps {name}": _key("series", "step", 3, value=value),
            f"snapshot {name}": _key("snapshots", 0, "score", 5, value=value),
            f"AUROC {name}": _key("detection", "score", "auroc", value=value),
        })  # fmt: skip
    yield from comparison(result, {"marks": _key("snapshots", 0, "anomalous", 0, value="false"),
                                   "short": _key("snapshots", 0, "reward", value=[1.0])})  # fmt: skip
    yield from comparison("versions.json", {**ANY, **JSON}, "fine")
    yield from comparison("results", {"a file": _in_place_of_folder})


def _yaml_key(key: str, value: object) -> Spoil:
    def spoil(path: Path) -> None:
        import yaml

        path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), key: value}))

    return spoil


def _curation() -> Iterator[Damage]:
    curation = _of("curation")
    yield from curation("scores.parquet", ANY)
    for column in ("index", "score", "group", "correct", "source"):
        yield from curation("scores.parquet", _columns(column, COLUMNS))
    for column in ("prompt", "id", "answer"):
        yield from curation(
            "scores.parquet", {f"{column} {name}": _column(column, COLUMNS[name]) for name in ("lists", "times")}
        )
    for column in ("reward", "score", "weight", "new_reward"):
        yield from curation(
            "scores.parquet",
            _columns(column, WILD_COLUMNS),
            "note",
        )
    yield from curation(
        "scores.parquet", {"characters negative": _column("characters", lambda rows: pyarrow.array([-5] * rows))}
    )
    for file in ("pairs.parquet", "densities.parquet"):
        yield from curation(file, ANY, absent="fine")
        yield from curation(
            file, {"no rows": _no_rows, "step texts": _column("step", COLUMNS["texts"])}, no_rows="fine"
        )
    yield from curation(
        "pairs.parquet",
        {f"cosine {name}": _column("raw_cosine", values) for name, values in WILD_COLUMNS.items()},
        "note",
    )
    for column in ("score", "density", "peak", "threshold"):
        yield from curation(
            "densities.parquet",
            _columns(column, WILD_COLUMNS),
            "note",
        )
    yield from curation("summary.json", {**ANY, **TEXTS, **JSON})
    yield from curation("summary.json", {
        "steps": _key("steps", value=[{"step": 10**30, "metrics": {"a": 10**400}}, 5]),
        "alpha": _key("curator", "alpha", value=10**400),
        "consensus": _key("consensus", "new_group_accuracy", value=10**400),
        "inputs": _key("inputs", value=[5, {"file": []}]),
        "curator": _key("curator", value="geoalign"),
    }, "fine")  # fmt: skip
