"""The results of a comparison as they lie in its folder: a file for each run, or all of them in `results.parquet`.

`results.parquet` is what one commits or sends. A row is a cell, `SCHEMA` its columns:

arm, level, seed, status, error    as in a result file
same_run_as                        level/arm/seed-N of the row that holds this cell's run; all that follows is null
curator, settings, run             the curator's name; its settings and those of the whole run, as JSON
settings_key                       hash of what decides the run's numbers
evaluations                        lines of evaluation.jsonl
series                             logged quantities by name, one value for each of `step`, null where not logged
detection                          by name of the score: AUROC, average precision, generations behind them
precision_among_replaced, base_rate   shares of corrupted rewards: among replaced rollouts, among all in a pair
snapshots                          rollouts of a few generations; of the arms alone whose ranks the page draws
seconds, seconds_per_step, peak_memory_bytes   cost of the whole run
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from geoalign.errors import RunFolderError
from geoalign.lab.store.columns import read_columns, write_table
from geoalign.lab.store.comparison import COMPACT, RESULT_FILES, SCHEMA_VERSION, ComparisonFolder, read_result
from geoalign.shown import brief

_VERSION = b"geoalign_results_schema"
_NAME = "{level}/{arm}/seed-{seed}"
_NUMBERS = pa.list_(pa.float64())
_MARKS = pa.list_(pa.bool_())
_EVALUATION = pa.struct(
    {
        "step": pa.int64(), "stage": pa.string(), "set": pa.string(), "accuracy": pa.float64(), "correct": pa.int64(),
        "count": pa.int64(), "reward": pa.float64(), "gold_utility": pa.float64(), "samples": pa.int64(),
        "pass_at_k": pa.map_(pa.string(), pa.float64()),
    }
)  # fmt: skip
_SNAPSHOT = pa.struct(
    {
        "step": pa.int64(), "score": _NUMBERS, "mean_score": _NUMBERS, "pair_count": _NUMBERS, "reward": _NUMBERS,
        "corrupted": _MARKS, "anomalous": _MARKS,
    }
)  # fmt: skip
_QUALITY = pa.struct({"auroc": pa.float64(), "auprc": pa.float64(), "generations": pa.int64()})
_SHARES = ("precision_among_replaced", "base_rate")
SCHEMA = pa.schema(
    {
        "arm": pa.string(), "level": pa.string(), "seed": pa.int64(), "status": pa.string(), "error": pa.string(),
        "same_run_as": pa.string(), "curator": pa.string(), "settings": pa.string(), "run": pa.string(),
        "settings_key": pa.string(), "evaluations": pa.list_(_EVALUATION), "series": pa.map_(pa.string(), _NUMBERS),
        "detection": pa.map_(pa.string(), _QUALITY), **dict.fromkeys(_SHARES, pa.float64()),
        "snapshots": pa.list_(_SNAPSHOT), "seconds": pa.float64(),
        "seconds_per_step": pa.float64(), "peak_memory_bytes": pa.float64(),
    },
    metadata={_VERSION: str(SCHEMA_VERSION)},
)  # fmt: skip
_OF_THE_CELL = ("arm", "level", "seed", "status", "error", "same_run_as")


def results(folder: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    """The content of every result under `folder`, as its file holds it, and that file.

    Raises:
        RunFolderError: there are none, or both a folder and a compact file of them; or one cannot be read.
    """
    root, compact = ComparisonFolder(folder).results, Path(folder) / COMPACT
    if root.is_dir() and compact.is_file():
        raise RunFolderError(f"comparison: expected results/ or {COMPACT}, got both in {folder}")
    if root.is_dir():
        for path in sorted(root.glob(RESULT_FILES)):
            yield read_result(path), path
    elif compact.is_file():
        yield from _compact_results(compact)
    else:
        raise RunFolderError(f"comparison: expected a folder with results/ or {COMPACT}, got {folder}")


def write_compact(folder: Path, path: Path, drawn: Collection[tuple[str, str]]) -> None:
    """Writes the results under `folder`, which `read_results` has checked to be whole, as one file.

    Args:
        path: the file, which is replaced.
        drawn: the arms, as (level, arm), whose snapshots are kept.
    """
    rows: list[dict[str, Any]] = []
    known: dict[str, str] = {}
    for result, _ in results(folder):
        cell = {name: result.get(name) for name in _OF_THE_CELL if name != "same_run_as"}
        row = _row(result, snapshots=(result["level"], result["arm"]) in drawn)
        name = _NAME.format(**cell)
        first = known.setdefault(json.dumps(row), name) if result["status"] == "finished" else name
        rows.append({**cell, "same_run_as": first} if first != name else {**cell, **row})
    write_table(path, pa.Table.from_pylist(rows, schema=SCHEMA), compression_level=19, use_dictionary=False)


def _row(result: Mapping[str, Any], *, snapshots: bool) -> dict[str, Any]:
    """All columns of a result but those that name its cell."""
    row = {name: result.get(name) for name in SCHEMA.names if name not in _OF_THE_CELL}
    detection = {name: value for name, value in (result.get("detection") or {}).items() if name not in _SHARES}
    return {
        **row,
        **{name: (result.get("detection") or {}).get(name) for name in _SHARES},
        "settings": json.dumps(result.get("settings"), ensure_ascii=False),
        "run": json.dumps(result.get("run"), ensure_ascii=False),
        "evaluations": [
            {**line, "pass_at_k": _entries(line.get("pass_at_k"))} for line in result.get("evaluations") or ()
        ],
        "series": _entries({name: values for name, values in (row["series"] or {}).items() if values is not None}),
        "detection": _entries(detection),
        "snapshots": (row["snapshots"] or []) if snapshots else [],
    }


def _entries(mapping: Mapping[str, Any] | None) -> list[tuple[str, Any]] | None:
    return list(mapping.items()) if mapping else None


def _compact_results(path: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    table = read_columns(path, SCHEMA.names)
    version = (table.schema.metadata or {}).get(_VERSION)
    if version != SCHEMA.metadata[_VERSION]:
        raise RunFolderError(f"schema_version: expected {SCHEMA_VERSION}, got {brief(version)} in {path}")
    rows = table.to_pylist()
    runs = {_NAME.format(**row): row for row in rows if row["same_run_as"] is None}
    for row in rows:
        run = runs[row["same_run_as"] or _NAME.format(**row)]
        yield _result({**run, **{name: row[name] for name in _OF_THE_CELL}}), path


def _result(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as the content of a result file, where a null is left out."""
    return {
        **{name: value for name, value in row.items() if value is not None},
        "schema_version": SCHEMA_VERSION,
        "settings": json.loads(row["settings"] or "null"),
        "run": json.loads(row["run"] or "null"),
        "evaluations": [{**line, "pass_at_k": dict(line["pass_at_k"] or ())} for line in row["evaluations"] or ()],
        "series": dict(row["series"] or ()),
        "detection": {**dict(row["detection"] or ()), **{name: row[name] for name in _SHARES}},
    }
