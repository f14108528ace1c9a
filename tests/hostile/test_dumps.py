"""Hostile dumps and files of states: refused in a line, or their bad rows counted and the others as they were."""

import json
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import damaged_dumps as dumps
import harness
import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from geoalign.audit.command import AuditRequest
from geoalign.audit.pipeline import run_audit
from geoalign.audit.settings import load_audit_config
from geoalign.audit.state_files import read_hidden
from geoalign.dumps.layout import find_layout
from geoalign.dumps.reading import read_dump
from geoalign.errors import GeoAlignError, InputError


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    """Leaves out what takes most of a call and reads no dump: page, bootstrap, disk, other packages, command line."""

    def blank(report):
        (report.folder / "report.html").write_text("")

    monkeypatch.setattr("geoalign.audit.pipeline.build_audit_page", blank)
    monkeypatch.setattr("geoalign.curators.registry.entry_points", lambda group: ())
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(harness, "main", direct)


def direct() -> None:
    _, path, output, *options = sys.argv
    request = AuditRequest([path], Path(output), skip_bad="--skip-bad" in options)
    try:
        run_audit(load_audit_config("grpo", ()), request, console=Console())
    except GeoAlignError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)


def broken_rows(case: dumps.Case, output: Path) -> list[str]:
    """What is wrong with the rows that came out: one that is neither there nor counted."""
    summary = json.loads((output / "summary.json").read_bytes())
    skipped = {one["line"] for one in summary["skipped"]}
    if not all(one["reason"].startswith("expected") and len(one["reason"]) < 500 for one in summary["skipped"]):
        return [f"skipped: {summary['skipped']}"]
    if case.rows is None:
        return []
    kept = set(pq.read_table(output / "scores.parquet", columns=["line"])["line"].to_pylist())
    return [] if kept == set(range(1, case.rows + 1)) - skipped else ["a row is lost, or there in spite of all"]


def read_alone(case: dumps.Case, path: Path) -> list[str]:
    """What is wrong with the rows as they are read, without what is made of them."""
    try:
        dump = read_dump(path, find_layout(path)[0], skip_bad=True)
    except GeoAlignError as error:
        return [f"good rows refused: {error}"] if case.rows is not None else []
    seen = sorted([*dump.frame["line"].unique().tolist(), *(row.line for row in dump.skipped)])
    return [] if case.rows is None or seen == list(range(1, case.rows + 1)) else ["a row is lost"]


def check(cases: Iterable[dumps.Case], folder: Path, *, whole: int = 6) -> None:
    """Reads every case; each so many-th goes through the command, with bad rows skipped and without."""
    wrong = []
    for seen, case in enumerate(cases):
        place = folder / str(seen)
        place.mkdir()
        path = place / case.file
        path.write_bytes(case.data)
        found = read_alone(case, path)
        if seen % whole == 0:
            outcome, refused = harness.run(path, place / "out", "--skip-bad"), harness.run(path, place / "strict")
            found += [*outcome.broken(), *refused.broken()]
            if outcome.code == 0:
                found += broken_rows(case, place / "out")
            if refused.code == 0 and json.loads((place / "strict" / "summary.json").read_bytes())["skipped"]:
                found.append("skipped a row unasked")
            if refused.code and (place / "strict" / "summary.json").exists():
                found.append("a summary beside an error")
        wrong += [f"{case.name}: {one}" for one in found]
    assert not wrong, f"{len(wrong)} broken promises:\n" + "\n".join(wrong[:40])


def test_damaged_fields_and_lines(tmp_path):
    check([*list(dumps.field_cases())[::5], *dumps.line_cases()], tmp_path, whole=10)


def test_damaged_bytes(tmp_path):
    check(dumps.byte_cases(24), tmp_path)


def test_damaged_arrays_and_csv(tmp_path):
    check([*dumps.array_cases(12), *dumps.csv_cases(12)], tmp_path, whole=4)


def test_damaged_parquet(tmp_path):
    check(dumps.parquet_cases(), tmp_path)


ROWS, WIDTH = 48, 4
DATA = np.zeros((ROWS, WIDTH), "<f4").tobytes()


def npy(descr: Any = "<f4", shape: Any = (ROWS, WIDTH), data: bytes = DATA, *, header: str | None = None) -> bytes:
    """A .npy file whose header says what is given, whatever the data are."""
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}) if header is None else header
    text += " " * (64 - (len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin1") + data


def tensors(header: Any, data: bytes = b"", *, length: int | None = None) -> bytes:
    """A safetensors file with this header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


SOUND = {"dtype": "F32", "shape": [ROWS, WIDTH], "data_offsets": [0, len(DATA)]}
STATES = {
    "empty.npy": b"", "pickle.npy": b"\x80\x04K\x01.", "big-endian.npy": npy(">f4"), "objects.npy": npy("|O"),
    "a billion rows.npy": npy(shape=(10**9, WIDTH)), "overflow.npy": npy(shape=(2**62, 2**62)),
    "whole.npy": npy("<i4"), "fewer.npy": npy(shape=(ROWS - 1, WIDTH)), "cut.npy": npy()[:-100],
    "brackets.npy": npy(header="(" * 5000), "indented.npy": npy(header=" {\n  x"),
    "length.safetensors": tensors({}, length=2**63), "no JSON.safetensors": tensors(b"{"),
    "deep.safetensors": tensors(b'{"a":' * 50_000), "none.safetensors": tensors({}),
    "two.safetensors": tensors({"a": SOUND, "b": SOUND}, DATA),
    "cut.safetensors": tensors({"hidden": SOUND}, DATA[:-1]),
    "billion.safetensors": tensors({"hidden": {**SOUND, "shape": [10**9, WIDTH]}}, DATA),
}  # fmt: skip


@pytest.mark.parametrize("name", STATES)
def test_states_are_refused_in_a_line(name, tmp_path):
    (tmp_path / name).write_bytes(STATES[name])
    with pytest.raises(InputError, match="expected") as caught:
        read_hidden(tmp_path / name, rows=ROWS, dump=Path("dump.jsonl"))
    assert name in str(caught.value)
    assert len(str(caught.value)) < 1000
