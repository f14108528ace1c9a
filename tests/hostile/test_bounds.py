"""Files that are small and hold much: refused by a size that is named, in bounded time and memory."""

import gzip
import io
import json

import harness
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROW = b'{"prompt": "q", "response": "a", "reward": 1}'
MEGA = 2**20


@pytest.fixture(autouse=True)
def _no_page(monkeypatch):
    monkeypatch.setattr("geoalign.audit.pipeline.build_audit_page", lambda folder: folder)


def zipped(*parts: tuple[bytes, int]) -> bytes:
    sink = io.BytesIO()
    with gzip.GzipFile(fileobj=sink, mode="wb", compresslevel=1, mtime=0) as file:
        for piece, times in parts:
            for _ in range(times):
                file.write(piece)
    return sink.getvalue()


def parquet(**columns: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="gzip")
    return bytes(sink.getvalue())


UNPACKED = "MB unpacked from"
LINE = "a line of more than 16 MB"
BOMBS = {
    "a long line behind a row": ("d.jsonl.gz", lambda: zipped((ROW + b"\n", 1), (b"x" * MEGA, 100)), LINE),
    "brackets in a line": ("d.jsonl", lambda: b'{"a": ' + b"[" * 10**7 + b"\n", "nested too deeply"),
    "lists of nothing": ("d.jsonl", lambda: b'{"a": [' + b"[]," * (MEGA // 8) + b"[]]}\n", "found no reward"),
    "rows and rows": ("d.jsonl.gz", lambda: zipped((ROW + b" " * MEGA + b"\n", 80)), UNPACKED),
    "rows of nothing": ("d.parquet", lambda: parquet(prompt=pa.nulls(3 * 10**7)), UNPACKED),
    "a long text": ("d.parquet", lambda: parquet(prompt=pa.array(["q" * 80 * MEGA])), UNPACKED),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_what_fills_memory_is_refused_early(kind, tmp_path):
    name, make, message = BOMBS[kind]
    (tmp_path / name).write_bytes(make())
    for number, options in enumerate(([], ["--skip-bad"])):
        output = tmp_path / f"out{number}"
        outcome = harness.run("audit", tmp_path / name, "--output", output, "--curator", "grpo", *options)
        assert not outcome.broken()
        if outcome.code == 0:
            assert number == 1
            said = json.dumps(json.loads((output / "summary.json").read_bytes())["skipped"])
        else:
            said = " ".join(outcome.err.split())
        assert message in said
